//! The argument of `handleSummary(data)`, in k6's shape (`internal/js/summary.go`).

use std::io::IsTerminal as _;
use std::sync::Arc;

use md5::{Digest as _, Md5};
use serde_json::{Map, Value, json};

use super::{SummaryData, SummaryMetric, Values};
use crate::metrics::GroupMeasured;
use crate::options::Options;

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
    let mut document = json!({
        "type": metric.kind.name(), "contains": metric.contains.name(),
        "values": values(&metric.values),
    });
    if !metric.thresholds.is_empty() {
        let results = metric.thresholds.iter();
        document["thresholds"] =
            results.map(|result| (result.source.clone(), json!({ "ok": result.ok }))).collect();
    }
    document
}

fn values(values: &Values) -> Value {
    match values {
        Values::Counter { count, rate } => {
            json!({ "count": number(*count), "rate": number(*rate) })
        }
        Values::Gauge { value, min, max } => {
            json!({ "value": number(*value), "min": number(*min), "max": number(*max) })
        }
        Values::Rate { rate, passes, fails } => {
            json!({ "rate": number(*rate), "passes": passes, "fails": fails })
        }
        Values::Trend(stats) => Value::Object(
            stats.iter().map(|(name, value)| (name.clone(), number(*value))).collect(),
        ),
    }
}

/// A number as JavaScript writes it: whole ones without a fraction.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

fn group(groups: &[GroupMeasured], at: usize) -> Value {
    let Some(found) = groups.get(at) else {
        return json!({ "name": "", "path": "", "id": id(""), "groups": [], "checks": [] });
    };
    let children: Vec<Value> = children(groups, found).map(|child| group(groups, child)).collect();
    let checks = found.checks.iter().map(|(name, count)| {
        let path = format!("{}::{name}", found.path);
        json!({
            "name": name, "path": path, "id": id(&path),
            "passes": count.passes, "fails": count.fails,
        })
    });
    let checks: Vec<Value> = checks.collect();
    json!({
        "name": found.name, "path": found.path, "id": id(&found.path),
        "groups": children, "checks": checks,
    })
}

/// The groups in `group`; those of `setup()` and `teardown()` only if they contain anything.
fn children<'g>(
    groups: &'g [GroupMeasured],
    group: &'g GroupMeasured,
) -> impl Iterator<Item = usize> + 'g {
    let shown = |child: &GroupMeasured| {
        let of_lifecycle = matches!(child.path.as_str(), "::setup" | "::teardown");
        !of_lifecycle || !child.checks.is_empty() || !child.children.is_empty()
    };
    group.children.iter().copied().filter(move |child| shown(&groups[*child]))
}

/// k6 identifies groups and checks by the MD5 of their path.
fn id(path: &str) -> String {
    base16ct::lower::encode_string(&Md5::digest(path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_k6() {
        assert_eq!(id(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(id("::status is 200"), "6210a8cd14cd70477eba5c5e4cb3fb5f");
    }
}
