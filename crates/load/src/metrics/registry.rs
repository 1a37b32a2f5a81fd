//! Definitions of metrics, shared by all virtual users; only used while scripts are initialised.

use std::collections::{BTreeMap, HashMap};

use thiserror::Error;

use super::{Builtin, SampleTags};
use crate::options::Aggregation;

/// Limit of metrics.
const MAX_METRICS: usize = 4096;

/// Index of a metric in every [`Recorder`](super::Recorder).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct MetricId(pub(crate) u32);

/// Aggregation of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Rate,
    Trend,
}

impl MetricKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Rate => "rate",
            Self::Trend => "trend",
        }
    }

    /// True if thresholds of this kind of metric can use an aggregation.
    pub(crate) fn has(self, what: Aggregation) -> bool {
        use Aggregation as A;
        match self {
            Self::Counter => matches!(what, A::Count | A::Rate),
            Self::Gauge => matches!(what, A::Value),
            Self::Rate => matches!(what, A::Rate),
            Self::Trend => matches!(what, A::Avg | A::Min | A::Med | A::Max | A::Percentile(_)),
        }
    }
}

/// Unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contains {
    /// Plain numbers.
    Default,
    /// Milliseconds.
    Time,
    /// Bytes.
    Data,
}

impl Contains {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Time => "time",
            Self::Data => "data",
        }
    }
}

/// Tags of a sub-metric's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagFilter(Vec<(String, String)>);

impl TagFilter {
    /// Sorts the tags. As in k6 the last value of a tag counts.
    pub(crate) fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    }

    pub(crate) fn matches(&self, tags: &SampleTags<'_>) -> bool {
        self.0.iter().all(|(key, value)| match tags.get(key) {
            Some(found) => found == value.as_str(),
            None => value.is_empty(),
        })
    }

    /// Sorted tags with their values.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// True if this is `{expected_response:true}`, which every run shows.
    pub(crate) fn is_expected_response(&self) -> bool {
        matches!(self.0.as_slice(), [(key, value)] if key == "expected_response" && value == "true")
    }
}

/// A metric of values with some tags: `http_req_duration{status:200}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubMetric {
    pub(crate) parent: MetricId,
    pub(crate) filter: TagFilter,
}

#[derive(Debug, Clone)]
pub(crate) struct Metric {
    /// For a sub-metric with the tags in braces.
    pub(crate) name: String,
    pub(crate) kind: MetricKind,
    pub(crate) contains: Contains,
    pub(crate) sub: Option<SubMetric>,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum DefineError {
    #[error(
        "invalid metric name `{0}`: use letters, digits and `_`, not beginning with a digit, at most 128"
    )]
    Name(String),
    #[error("metric `{0}` already exists as another type")]
    Conflict(String),
    #[error("more than {MAX_METRICS} metrics")]
    TooMany,
    #[error("the script defines no metric `{0}`")]
    Unknown(String),
    #[error("`{0}`: tags are written as metric{{key:value,key:value}}")]
    Tags(String),
}

/// All metrics of a run.
#[derive(Debug)]
pub(crate) struct Registry {
    metrics: Vec<Metric>,
    by_name: HashMap<String, MetricId>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry of the built-in metrics.
    pub(crate) fn new() -> Self {
        let mut registry = Self { metrics: Vec::new(), by_name: HashMap::new() };
        for &(name, kind, contains) in Builtin::ALL {
            registry.push(Metric { name: name.into(), kind, contains, sub: None });
        }
        registry
    }

    /// Defines `http_req_duration{expected_response:true}`, which k6 shows unless the tag is disabled.
    pub(crate) fn define_expected(&mut self) -> MetricId {
        let tag = vec![("expected_response".to_owned(), "true".to_owned())];
        self.define_sub(
            "http_req_duration{expected_response:true}",
            Builtin::HttpReqDuration.id(),
            TagFilter::new(tag),
        )
    }

    /// Defines a metric, or finds the equal one of that name.
    pub(crate) fn define(
        &mut self,
        name: &str,
        kind: MetricKind,
        contains: Contains,
    ) -> Result<MetricId, DefineError> {
        if let Some(id) = self.by_name.get(name) {
            let known = &self.metrics[id.0 as usize];
            let same = known.kind == kind && known.contains == contains;
            return if same { Ok(*id) } else { Err(DefineError::Conflict(name.to_owned())) };
        }
        let valid = name.len() <= 128
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty();
        if !valid {
            return Err(DefineError::Name(name.to_owned()));
        }
        if self.metrics.len() >= MAX_METRICS {
            return Err(DefineError::TooMany);
        }
        Ok(self.push(Metric { name: name.to_owned(), kind, contains, sub: None }))
    }

    /// Defines a sub-metric, or finds the one with the same tags.
    pub(crate) fn define_sub(
        &mut self,
        name: &str,
        parent: MetricId,
        filter: TagFilter,
    ) -> MetricId {
        let sub = SubMetric { parent, filter };
        if let Some((id, _)) = self.iter().find(|(_, metric)| metric.sub.as_ref() == Some(&sub)) {
            return id;
        }
        let Metric { kind, contains, .. } = *self.get(parent);
        self.push(Metric { name: name.to_owned(), kind, contains, sub: Some(sub) })
    }

    pub(crate) fn get(&self, id: MetricId) -> &Metric {
        &self.metrics[id.0 as usize]
    }

    pub(crate) fn find(&self, name: &str) -> Option<MetricId> {
        self.by_name.get(name).copied()
    }

    /// Finds a metric, or defines a sub-metric when `name` has tags: `http_req_duration{status:200}`.
    pub(crate) fn resolve(&mut self, name: &str) -> Result<MetricId, DefineError> {
        let unknown = || DefineError::Unknown(name.to_owned());
        let Some((base, tags)) = name.split_once('{') else {
            return self.find(name).ok_or_else(unknown);
        };
        let parent = self.find(base).ok_or_else(unknown)?;
        let tags = tags.strip_suffix('}').ok_or_else(|| DefineError::Tags(name.to_owned()))?;
        let trimmed = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        let pairs: Option<Vec<(String, String)>> = tags
            .split(',')
            .map(|tag| tag.split_once(':').map(|(key, value)| (trimmed(key), trimmed(value))))
            .collect();
        let pairs = pairs
            .filter(|pairs| pairs.iter().all(|(key, _)| !key.is_empty()))
            .ok_or_else(|| DefineError::Tags(name.to_owned()))?;
        Ok(self.define_sub(name, parent, TagFilter::new(pairs)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (MetricId, &Metric)> {
        self.metrics.iter().enumerate().map(|(index, metric)| (MetricId(index as u32), metric))
    }

    fn push(&mut self, metric: Metric) -> MetricId {
        let id = MetricId(self.metrics.len() as u32);
        self.by_name.insert(metric.name.clone(), id);
        self.metrics.push(metric);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defining_twice_gives_the_same_metric_and_another_type_is_refused() {
        let mut registry = Registry::new();
        let first = registry.define("a", MetricKind::Trend, Contains::Time).unwrap();
        assert_eq!(registry.define("a", MetricKind::Trend, Contains::Time), Ok(first));
        let conflict = Err(DefineError::Conflict("a".into()));
        assert_eq!(registry.define("a", MetricKind::Rate, Contains::Default), conflict);
        assert!(registry.define("vus", MetricKind::Rate, Contains::Default).is_err());
    }

    #[test]
    fn a_sub_metric_is_resolved_once_with_its_tags() {
        let mut registry = Registry::new();
        let name = "http_req_duration{scenario:a, group:::x::y}";
        let id = registry.resolve(name).unwrap();
        assert_eq!(registry.resolve(name), Ok(id));
        let sub = registry.get(id).sub.clone().unwrap();
        let tags = SampleTags { scenario: "a", group: "::x::y", ..SampleTags::default() };
        assert!(sub.filter.matches(&tags));
        assert!(!sub.filter.matches(&SampleTags { group: "", ..tags }));
        let unknown = Err(DefineError::Unknown("nothing{a:b}".into()));
        assert_eq!(registry.resolve("nothing{a:b}"), unknown);
        for wrong in ["vus{a}", "vus{a:b", "vus{:b}", "vus{}"] {
            assert_eq!(registry.resolve(wrong), Err(DefineError::Tags(wrong.into())));
        }
    }

    #[test]
    fn a_sub_metric_is_its_tags_and_not_its_spelling() {
        let mut registry = Registry::new();
        for (first, second) in [
            (
                "http_req_duration{expected_response:true}",
                "http_req_duration{ expected_response: 'true' }",
            ),
            ("http_reqs{status:200,name:a}", "http_reqs{name:\"a\", status:200}"),
            ("http_reqs{status:200}", "http_reqs{status:404,status:200}"),
        ] {
            assert_eq!(registry.resolve(first), registry.resolve(second), "{second}");
        }
        assert_ne!(registry.resolve("vus{a:b}"), registry.resolve("vus_max{a:b}"));
    }

    #[test]
    fn names_follow_k6() {
        let mut registry = Registry::new();
        for bad in ["", "1a", "a b", "a-b", "é", &"a".repeat(129)] {
            let defined = registry.define(bad, MetricKind::Counter, Contains::Default);
            assert!(matches!(defined, Err(DefineError::Name(_))));
        }
    }
}
