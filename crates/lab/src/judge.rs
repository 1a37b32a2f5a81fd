//! Conclusions from rounds: metrics, statistics, rules, answers and verdicts.

pub(crate) mod answer;
pub(crate) mod conclusion;
pub(crate) mod metric;
pub(crate) mod part;
pub(crate) mod rules;
pub(crate) mod stats;
pub(crate) mod verdict;
