//! Thresholds: conditions on metrics, in k6's grammar (`metrics/thresholds_parser.go`): an aggregation, an operator,
//! a number, such as `p(95)<500`.

use std::time::Duration;

use serde_json::Value;

use super::script::{Result, duration, fields, object, text};
use super::{OptionsError, all};

/// The thresholds of one metric or sub-metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricThresholds {
    /// `http_req_duration`, or with tags `http_req_duration{scenario:spike}`.
    pub metric: String,
    /// In the order given.
    pub thresholds: Vec<Threshold>,
}

/// One condition on a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The condition as written.
    pub source: String,
    pub(crate) aggregation: Aggregation,
    operator: &'static str,
    bound: f64,
    /// Stop the run when the condition does not hold.
    pub abort_on_fail: bool,
    /// Time from the start of the run during which the run is not stopped.
    pub delay_abort_eval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Aggregation {
    Avg,
    Min,
    Med,
    Max,
    Count,
    Rate,
    Value,
    /// Percentile, 0–100.
    Percentile(f64),
}

/// In the order of look-up: an operator comes before its own prefixes, as in k6.
const OPERATORS: [&str; 7] = ["<=", "<", ">=", ">", "===", "==", "!="];

const NAMES: [(&str, Aggregation); 7] = [
    ("avg", Aggregation::Avg),
    ("min", Aggregation::Min),
    ("med", Aggregation::Med),
    ("max", Aggregation::Max),
    ("count", Aggregation::Count),
    ("rate", Aggregation::Rate),
    ("value", Aggregation::Value),
];

impl Aggregation {
    fn parse(text: &str) -> Option<Self> {
        if let Some((_, named)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Some(*named);
        }
        let percentile: f64 = text.strip_prefix("p(")?.strip_suffix(')')?.trim().parse().ok()?;
        (0.0..=100.0).contains(&percentile).then_some(Self::Percentile(percentile))
    }

    /// The name in the summary.
    pub(crate) fn name(self) -> String {
        if let Self::Percentile(percentile) = self {
            return format!("p({percentile})");
        }
        let named = NAMES.iter().find(|(_, named)| *named == self);
        named.map_or("", |(name, _)| name).to_owned()
    }
}

impl Threshold {
    /// Parses a condition; `None` if it is invalid.
    pub fn parse(source: &str) -> Option<Self> {
        let (left, operator, right) = OPERATORS.into_iter().find_map(|operator| {
            let (left, right) = source.split_once(operator)?;
            (!right.is_empty()).then_some((left.trim(), operator, right.trim()))
        })?;
        Some(Self {
            source: source.to_owned(),
            aggregation: Aggregation::parse(left)?,
            operator,
            bound: right.parse().ok()?,
            abort_on_fail: false,
            delay_abort_eval: Duration::ZERO,
        })
    }

    #[expect(clippy::float_cmp, reason = "what the script asks for")]
    pub(crate) fn holds(&self, value: f64) -> bool {
        match self.operator {
            "<=" => value <= self.bound,
            "<" => value < self.bound,
            ">=" => value >= self.bound,
            ">" => value > self.bound,
            "!=" => value != self.bound,
            _ => value == self.bound,
        }
    }
}

/// `{metric: ["p(95)<500", {threshold, abortOnFail, delayAbortEval}]}`.
pub(super) fn thresholds(value: &Value) -> Result<Vec<MetricThresholds>> {
    let read = |(metric, list): (&String, &Value)| {
        let key = format!("thresholds.{metric}");
        let list = list.as_array().ok_or_else(|| {
            let problem = "a list of thresholds is expected, such as [\"p(95)<500\"]";
            OptionsError::invalid(&key, problem)
        })?;
        let thresholds = all(list.iter().map(|value| threshold(&key, value)))?;
        Ok(MetricThresholds { metric: metric.clone(), thresholds })
    };
    all(object("thresholds", value)?.iter().map(read))
}

fn threshold(key: &str, value: &Value) -> Result<Threshold> {
    let parse = |text: &str| {
        Threshold::parse(text).ok_or_else(|| {
            let problem = format!(
                "`{text}` is no threshold: an aggregation (avg, min, med, max, p(N), count, rate \
                 or value), an operator (< <= > >= == === !=) and a number are expected, such as p(95)<500"
            );
            OptionsError::invalid(key, problem)
        })
    };
    if let Value::String(source) = value {
        return parse(source);
    }
    let fields = fields(key, value, &["threshold", "abortOnFail", "delayAbortEval"])?;
    let Some(source) = fields.get("threshold") else {
        return Err(OptionsError::invalid(format!("{key}.threshold"), "it is required"));
    };
    let mut threshold = parse(text(key, source)?)?;
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let key = format!("{key}.{name}");
        match name.as_str() {
            "threshold" => {}
            "abortOnFail" => threshold.abort_on_fail = super::script::boolean(&key, value)?,
            "delayAbortEval" => threshold.delay_abort_eval = duration(&key, value)?,
            _ => return Err(OptionsError::Unknown(key)),
        }
    }
    Ok(threshold)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_are_read_as_k6_reads_them() {
        for (source, aggregation, passes, fails) in [
            ("p(95)<500", Aggregation::Percentile(95.0), 499.0, 500.0),
            ("p(99.9) <= 1.5", Aggregation::Percentile(99.9), 1.5, 1.51),
            ("rate>0.9", Aggregation::Rate, 0.91, 0.9),
            ("count >= 3", Aggregation::Count, 3.0, 2.0),
            ("value===1", Aggregation::Value, 1.0, 2.0),
            ("avg == 1", Aggregation::Avg, 1.0, 2.0),
            ("max != 0", Aggregation::Max, 1.0, 0.0),
        ] {
            let threshold = Threshold::parse(source).unwrap();
            assert_eq!(threshold.aggregation, aggregation, "{source}");
            assert!(threshold.holds(passes) && !threshold.holds(fails), "{source}");
        }
        for source in ["", "p(95)", "p(95)<", "<5", "p(101)<1", "mean<5", "avg=5", "avg<5ms"] {
            assert!(Threshold::parse(source).is_none(), "{source}");
        }
        // As in k6: a number computed from a missing variable makes a threshold that never holds.
        assert!(!Threshold::parse("avg<NaN").unwrap().holds(1.0));
    }

    #[test]
    fn both_forms_of_a_threshold_are_read_and_mistakes_are_named() {
        let read = thresholds(&json!({"http_req_duration{scenario:a}": [
            "avg<1", {"threshold": "max<2", "abortOnFail": true, "delayAbortEval": "10s"}
        ]}))
        .unwrap();
        assert_eq!(read[0].metric, "http_req_duration{scenario:a}");
        assert!(!read[0].thresholds[0].abort_on_fail && read[0].thresholds[1].abort_on_fail);
        assert_eq!(read[0].thresholds[1].delay_abort_eval, Duration::from_secs(10));
        for (value, expected) in [
            (json!({"m": "avg<1"}), "option `thresholds.m`: a list of thresholds"),
            (json!({"m": ["avg"]}), "option `thresholds.m`: `avg` is no threshold"),
            (
                json!({"m": [{"threshold": "avg<1", "abort": true}]}),
                "unknown option `thresholds.m.abort`",
            ),
            (json!({"m": [{}]}), "option `thresholds.m.threshold`: it is required"),
        ] {
            let text = thresholds(&value).unwrap_err().to_string();
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
