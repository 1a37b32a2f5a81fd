//! Figures of the load by k6's names, such as `http_req_duration{scenario:bystander}.p99` or `my_counter.count`.

mod error;
mod kind;
mod overall;

use std::fmt;

use crate::file::outline::Outline;
use crate::judge::answer::Direction;
use crate::judge::metric::Absent;
use crate::load::report::{LoadReport, Sampled, Trend};

pub(crate) use error::MetricError;
pub(crate) use kind::Kind;

/// A metric of the load, its tags, and a statistic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoadMetric {
    pub(crate) name: String,
    /// Sorted.
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) statistic: Option<Statistic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Statistic {
    Count,
    Rate,
    Passes,
    Fails,
    Value,
    Min,
    Max,
    Avg,
    Median,
    P50,
    P90,
    P95,
    P99,
    Deviation,
}

/// In the order of messages.
const STATISTICS: [(&str, Statistic); 14] = [
    ("count", Statistic::Count),
    ("rate", Statistic::Rate),
    ("passes", Statistic::Passes),
    ("fails", Statistic::Fails),
    ("value", Statistic::Value),
    ("min", Statistic::Min),
    ("max", Statistic::Max),
    ("avg", Statistic::Avg),
    ("med", Statistic::Median),
    ("p50", Statistic::P50),
    ("p90", Statistic::P90),
    ("p95", Statistic::P95),
    ("p99", Statistic::P99),
    ("stddev", Statistic::Deviation),
];

impl LoadMetric {
    /// Parses `NAME`, `NAME.STATISTIC` or either with `{tag:value,…}` after the name.
    ///
    /// # Errors
    /// If the syntax is wrong, or a built-in metric does not have the statistic.
    pub fn parse(text: &str) -> Result<Self, MetricError> {
        let refusal = || MetricError::NoName(text.to_owned());
        let (name, tags, rest) = match text.split_once('{') {
            None => {
                let (name, rest) = text.split_once('.').unwrap_or((text, ""));
                (name, Vec::new(), rest.to_owned())
            }
            Some((name, rest)) => {
                let missing = || MetricError::Unclosed(text.to_owned());
                let (tags, rest) = rest.split_once('}').ok_or_else(missing)?;
                let rest = match rest.strip_prefix('.') {
                    None if !rest.is_empty() => return Err(refusal()),
                    stripped => stripped.unwrap_or_default(),
                };
                (name, parse_tags(tags).ok_or_else(refusal)?, rest.to_owned())
            }
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let has_dot = text.contains('.') && (text.ends_with('.') || rest.contains('.'));
        if !is_name || has_dot {
            return Err(refusal());
        }
        let statistic = match rest.as_str() {
            "" => None,
            rest => {
                let found = STATISTICS.iter().find(|(name, _)| *name == rest);
                let unknown = || MetricError::UnknownStatistic {
                    text: text.to_owned(),
                    statistic: rest.to_owned(),
                };
                Some(found.ok_or_else(unknown)?.1)
            }
        };
        let metric = Self { name: name.to_owned(), tags, statistic };
        metric.kind().map_or(Ok(()), |kind| metric.check_kind(kind, text))?;
        Ok(metric)
    }

    /// `None` for a metric of the script.
    fn kind(&self) -> Option<Kind> {
        kind::BUILT_IN.iter().find(|(name, _)| *name == self.name).map(|(_, kind)| *kind)
    }

    /// Rejects a statistic that a kind of metric does not have. `text` is for the message.
    fn check_kind(&self, kind: Kind, text: &str) -> Result<(), MetricError> {
        if kind.has(self.statistic) {
            return Ok(());
        }
        let (text, name) = (text.to_owned(), self.name.clone());
        Err(MetricError::NotOfItsKind { text, name, kind })
    }

    /// Rejects a metric that a script of this outline does not have.
    pub(crate) fn check_outline(&self, outline: &Outline) -> Result<(), MetricError> {
        if self.kind().is_none() {
            let kind = outline.metrics.get(&self.name);
            let kind = kind.ok_or_else(|| MetricError::unknown(&self.name, outline))?;
            self.check_kind(*kind, &self.to_string())?;
        }
        let is_this = |key: &String| self.is_at(key);
        if self.tags.is_empty() || outline.metrics.keys().any(is_this) {
            return Ok(());
        }
        let key = Self { statistic: None, ..self.clone() };
        Err(MetricError::NothingMakes(key.to_string()))
    }

    pub fn built_in() -> impl Iterator<Item = &'static str> {
        kind::BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Less for times and failures, more for completed work.
    pub fn direction(&self) -> Direction {
        match (self.name.as_str(), self.statistic) {
            ("http_req_failed" | "checks", Some(Statistic::Passes | Statistic::Fails)) => {
                Direction::Unknown
            }
            ("http_req_failed" | "dropped_iterations" | "iteration_duration", _) => Direction::Less,
            ("http_reqs" | "good_reqs" | "iterations" | "checks", _) => Direction::More,
            ("group_duration", statistic) if statistic != Some(Statistic::Count) => Direction::Less,
            _ if self.is_response_time() => Direction::Less,
            _ => Direction::Unknown,
        }
    }

    pub fn is_response_time(&self) -> bool {
        let timed = self.name.starts_with("http_req_") && self.name != "http_req_failed";
        timed && self.statistic != Some(Statistic::Count)
    }

    /// `ms` for times, `1/s` for rates of built-in counters, else empty: scripts declare no unit.
    pub fn unit(&self) -> &'static str {
        match (self.kind(), self.statistic) {
            (Some(Kind::Trend), Some(statistic)) if statistic != Statistic::Count => "ms",
            (Some(Kind::Counter), Some(Statistic::Rate)) => "1/s",
            _ => "",
        }
    }

    /// Value in a load. Sums without values are zero.
    pub fn value_in(&self, load: &LoadReport) -> Result<f64, Absent> {
        match self.sink(load) {
            Some(Sink::Trend(trend)) => self.trend_value(&trend),
            Some(Sink::Sampled(sampled)) => self.sampled_value(sampled, load.duration_seconds),
            None => match self.statistic {
                None | Some(Statistic::Count | Statistic::Passes | Statistic::Fails)
                    if self.kind() != Some(Kind::Trend) =>
                {
                    Ok(0.0)
                }
                _ => Err(Absent::NotReported),
            },
        }
    }

    fn sink(&self, load: &LoadReport) -> Option<Sink> {
        if self.tags.is_empty()
            && let Some(built_in) = self.built_in_sink(load)
        {
            return Some(built_in);
        }
        let trend = load.trends.iter().find(|(key, _)| self.is_at(key));
        let trend = trend.map(|(_, trend)| Sink::Trend(*trend));
        trend.or_else(|| {
            let sampled = load.metrics.iter().find(|(key, _)| self.is_at(key));
            sampled.map(|(_, sampled)| Sink::Sampled(*sampled))
        })
    }

    /// True if a key of the report names this metric.
    fn is_at(&self, key: &str) -> bool {
        split(key).is_some_and(|(name, tags)| name == self.name && tags == self.tags)
    }

    /// Metrics with fields of their own in the report.
    fn built_in_sink(&self, load: &LoadReport) -> Option<Sink> {
        let counter = |count: u64| Sink::Sampled(Sampled::Counter { count: count as f64 });
        let rate = |passes: u64, fails: u64| {
            let rate = passes as f64 / (passes + fails).max(1) as f64;
            Sink::Sampled(Sampled::Rate { rate, passes, fails })
        };
        let requests = &load.requests;
        Some(match self.name.as_str() {
            "http_reqs" => counter(requests.total),
            "good_reqs" => counter(requests.good),
            "http_req_failed" => {
                rate(requests.failed, requests.total.saturating_sub(requests.failed))
            }
            "iterations" => counter(load.iterations.complete),
            "dropped_iterations" => counter(load.iterations.dropped),
            "data_sent" => counter(load.bytes.sent),
            "data_received" => counter(load.bytes.received),
            "checks" => {
                let sum = |get: fn(&crate::load::report::Check) -> u64| {
                    load.checks.iter().map(get).sum::<u64>()
                };
                rate(sum(|check| check.passes), sum(|check| check.fails))
            }
            _ => return None,
        })
    }

    fn trend_value(&self, trend: &Trend) -> Result<f64, Absent> {
        Ok(match self.statistic {
            Some(Statistic::Count) => trend.count as f64,
            Some(Statistic::Avg) => trend.avg,
            Some(Statistic::Min) => trend.min,
            Some(Statistic::Max) => trend.max,
            Some(Statistic::Median | Statistic::P50) => trend.p50,
            Some(Statistic::P90) => trend.p90,
            Some(Statistic::P95) => trend.p95,
            Some(Statistic::P99) => trend.p99,
            Some(Statistic::Deviation) => trend.stddev,
            _ => return Err(Absent::NoSuchStatistic),
        })
    }

    /// For a percentile or the maximum: the share of values above it, and the trend.
    pub(crate) fn tail(&self, load: &LoadReport) -> Option<(f64, Trend)> {
        let share = match self.statistic? {
            Statistic::Median | Statistic::P50 => 0.5,
            Statistic::P90 => 0.1,
            Statistic::P95 => 0.05,
            Statistic::P99 => 0.01,
            Statistic::Max => 0.0,
            _ => return None,
        };
        match self.sink(load)? {
            Sink::Trend(trend) => Some((share, trend)),
            Sink::Sampled(_) => None,
        }
    }

    fn sampled_value(&self, sampled: Sampled, seconds: f64) -> Result<f64, Absent> {
        Ok(match (sampled, self.statistic) {
            (Sampled::Counter { count }, None | Some(Statistic::Count)) => count,
            (Sampled::Counter { count }, Some(Statistic::Rate)) => count / seconds,
            (Sampled::Gauge { value, .. }, None | Some(Statistic::Value)) => value,
            (Sampled::Gauge { min, .. }, Some(Statistic::Min)) => min,
            (Sampled::Gauge { max, .. }, Some(Statistic::Max)) => max,
            // Nothing has no share.
            (Sampled::Rate { passes: 0, fails: 0, .. }, None | Some(Statistic::Rate)) => {
                return Err(Absent::NotReported);
            }
            (Sampled::Rate { rate, .. }, None | Some(Statistic::Rate)) => rate,
            (Sampled::Rate { passes, .. }, Some(Statistic::Passes)) => passes as f64,
            (Sampled::Rate { fails, .. }, Some(Statistic::Fails)) => fails as f64,
            _ => return Err(Absent::NoSuchStatistic),
        })
    }

    /// Share of failed requests with the same tags, if the report has it.
    pub fn failed_share(&self, load: &LoadReport) -> Option<f64> {
        let failed = Self {
            name: "http_req_failed".to_owned(),
            tags: self.tags.clone(),
            statistic: Some(Statistic::Rate),
        };
        failed.value_in(load).ok()
    }
}

enum Sink {
    Trend(Trend),
    Sampled(Sampled),
}

/// Name and sorted tags of a key of the report.
fn split(key: &str) -> Option<(&str, Vec<(String, String)>)> {
    match key.split_once('{') {
        None => Some((key, Vec::new())),
        Some((name, rest)) => Some((name, parse_tags(rest.strip_suffix('}')?)?)),
    }
}

/// Parses `a:b, c:d`, the tags of k6's sub-metrics.
fn parse_tags(text: &str) -> Option<Vec<(String, String)>> {
    let tag = |part: &str| {
        let (name, value) = part.split_once(':')?;
        let plain = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        Some((plain(name), plain(value)))
    };
    let mut tags: Vec<(String, String)> = text.split(',').map(tag).collect::<Option<_>>()?;
    tags.sort();
    Some(tags)
}

impl fmt::Display for LoadMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.tags.is_empty() {
            let tags: Vec<String> =
                self.tags.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            write!(f, "{{{}}}", tags.join(","))?;
        }
        match STATISTICS.iter().find(|(_, statistic)| Some(*statistic) == self.statistic) {
            Some((name, _)) => write!(f, ".{name}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> LoadReport {
        let trend = json!({"count": 4, "avg": 1.0, "min": 0.5, "max": 9.0, "stddev": 2.0,
                           "p50": 0.9, "p90": 5.0, "p95": 6.0, "p99": 8.0});
        serde_json::from_value(json!({
            "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": 2.0,
            "duration_seconds": 2.0, "requests": {"total": 10, "good": 6, "failed": 3},
            "iterations": {"complete": 5, "dropped": 7},
            "trends": {"http_req_duration{scenario:bystander}": trend, "my_trend": trend},
            "metrics": {
                "created": {"type": "counter", "count": 8.0},
                "http_reqs{name:x,scenario:attack}": {"type": "counter", "count": 4.0},
                "checks{scenario:attack}":
                    {"type": "rate", "rate": 0.25, "passes": 1, "fails": 3},
            },
            "checks": [{"group": "", "name": "ok", "passes": 3, "fails": 1}],
        }))
        .unwrap()
    }

    fn value(text: &str) -> Result<f64, Absent> {
        LoadMetric::parse(text).unwrap().value_in(&report())
    }

    #[test]
    fn metrics_are_found_by_name_tags_and_statistic() {
        for (text, expected) in [
            ("http_req_duration{scenario:bystander}.p99", 8.0),
            ("http_req_duration{ scenario : bystander }.count", 4.0),
            ("my_trend.med", 0.9),
            ("created", 8.0),
            ("created.rate", 4.0),
            ("http_reqs", 10.0),
            ("http_reqs{scenario:attack,name:x}.count", 4.0),
            ("checks{scenario:attack}.fails", 3.0),
            ("checks", 0.75),
            ("http_req_failed.rate", 0.3),
            ("dropped_iterations.count", 7.0),
            ("never_added.count", 0.0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_a_run_does_not_have_is_absent_not_zero() {
        assert_eq!(value("http_req_duration{scenario:other}.p99"), Err(Absent::NotReported));
        assert_eq!(value("never_added.p99"), Err(Absent::NotReported));
        assert_eq!(value("created.p99"), Err(Absent::NoSuchStatistic));
        assert_eq!(value("my_trend"), Err(Absent::NoSuchStatistic));
    }

    #[test]
    fn wrong_names_say_what_is_accepted() {
        for (text, part) in [
            ("", "is no name"),
            ("a b", "is no name"),
            ("a{b:c", "`}` is missing"),
            ("a{b}", "is no name"),
            ("a{b:c}d", "is no name"),
            ("a.", "is no name"),
            ("a.p98", "unknown statistic `.p98`"),
            ("http_reqs.p99", "is a counter: `.count`"),
            ("http_req_duration", "is a trend: `.avg`"),
        ] {
            let error = LoadMetric::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "no {part:?} in: {error}");
        }
    }

    #[test]
    fn a_name_is_printed_as_it_is_read() {
        for text in ["a", "a.count", "http_reqs{a:b,c:d}.rate", "http_req_duration{x:y}.p95"] {
            assert_eq!(LoadMetric::parse(text).unwrap().to_string(), text);
        }
    }
}
