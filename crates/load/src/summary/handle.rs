//! The argument of `handleSummary(data)`, in k6's shape (`internal/js/summary.go`).

use std::io::IsTerminal as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::export::{check, children, id, number};
use super::{SummaryData, SummaryMetric, Values};
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
    let mut document = json!({
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
    let setup_data = setup_data.and_then(|json| serde_json::from_str::<Value>(json).ok());
    if let Some(setup_data) = setup_data {
        document["setup_data"] = setup_data;
    }
    document
}

fn metric(metric: &SummaryMetric) -> Value {
    let values = match &metric.values {
        Values::Counter { count, rate } => {
            json!({ "count": number(*count), "rate": number(*rate) })
        }
        Values::Gauge { value, min, max } => {
            json!({ "value": number(*value), "min": number(*min), "max": number(*max) })
        }
        Values::Rate { rate, passes, fails } => {
            json!({ "rate": number(*rate), "passes": passes, "fails": fails })
        }
        Values::Trend(stats) => {
            stats.iter().map(|(name, value)| (name.clone(), number(*value))).collect()
        }
    };
    let mut document = json!({
        "type": metric.kind.name(), "contains": metric.contains.name(), "values": values,
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
