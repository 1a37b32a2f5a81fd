//! The argument of `handleSummary(data)`, in k6's shape (`internal/js/summary.go`).

use std::io::IsTerminal as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::export::{check, children, id, values, with_setup_data};
use super::{SummaryData, SummaryMetric};
use crate::metrics::GroupMeasured;
use crate::options::Options;

/// The document.
pub(crate) fn handle_summary_data(
    data: &SummaryData<'_>,
    options: &Options,
    setup_data: Option<&Arc<str>>,
    no_color: bool,
) -> Value {
    let metrics: Map<String, Value> =
        data.metrics.iter().map(|found| (found.name.clone(), metric(found))).collect();
    let document = json!({
        "root_group": group(data.groups, 0),
        "options": {
            "summaryTrendStats": options.summary_trend_stats,
            "summaryTimeUnit": options.summary_time_unit.as_deref().unwrap_or(""),
            "noColor": no_color,
        },
        "state": {
            "isStdOutTTY": std::io::stdout().is_terminal(),
            "isStdErrTTY": std::io::stderr().is_terminal(),
            "testRunDurationMs": data.seconds * 1e3,
        },
        "metrics": metrics,
    });
    with_setup_data(document, setup_data)
}

fn metric(metric: &SummaryMetric) -> Value {
    let mut document = json!({
        "type": metric.kind.name(), "contains": metric.contains.name(),
        "values": values(&metric.values, "rate"),
    });
    if !metric.thresholds.is_empty() {
        let results = metric.thresholds.iter();
        document["thresholds"] =
            results.map(|result| (result.source.clone(), json!({ "ok": result.ok }))).collect();
    }
    document
}

fn group(groups: &[GroupMeasured], at: usize) -> Value {
    let Some(found) = groups.get(at) else {
        return json!({ "name": "", "path": "", "id": id(""), "groups": [], "checks": [] });
    };
    let children: Vec<Value> = children(groups, found).map(|child| group(groups, child)).collect();
    let checks: Vec<Value> =
        found.checks.iter().map(|(name, count)| check(&found.path, name, *count)).collect();
    json!({
        "name": found.name, "path": found.path, "id": id(&found.path),
        "groups": children, "checks": checks,
    })
}
