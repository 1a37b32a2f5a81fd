//! Errors of names of figures.

use super::{Kind, LoadMetric, STATISTICS};
use crate::file::outline::Outline;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    #[error("`{0}` is no name such as `http_req_duration{{scenario:bystander}}.p99`")]
    NoName(String),
    #[error("`{0}`: a `}}` is missing")]
    Unclosed(String),
    #[error("`{text}`: unknown statistic `.{statistic}`: there are {}", statistics())]
    UnknownStatistic { text: String, statistic: String },
    #[error("`{text}`: `{name}` is {}: {}", .kind.name(), .kind.statistics())]
    NotOfItsKind { text: String, name: String, kind: Kind },
    #[error(
        "no metric `{name}`: the script makes {own}; every run has {}",
        quoted(LoadMetric::built_in())
    )]
    Unknown { name: String, own: String },
    /// The script has the metric, but no sub-metric with these tags.
    #[error(
        "nothing makes `{0}`: a threshold in the script does, such as \
         `thresholds: {{ '{0}': ['count>=0'] }}`"
    )]
    NothingMakes(String),
}

impl MetricError {
    /// [`Self::Unknown`] for the metrics of a script.
    pub(super) fn unknown(name: &str, outline: &Outline) -> Self {
        let is_built_in = |name: &str| LoadMetric::built_in().any(|known| known == name);
        let own = outline.metrics.keys().map(String::as_str);
        let own = quoted(own.filter(|name| !is_built_in(name) && !name.contains('{')));
        let own = if own.is_empty() { "none".to_owned() } else { own };
        Self::Unknown { name: name.to_owned(), own }
    }
}

fn statistics() -> String {
    let names: Vec<String> = STATISTICS.iter().map(|(name, _)| format!("`.{name}`")).collect();
    names.join(", ")
}

fn quoted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
