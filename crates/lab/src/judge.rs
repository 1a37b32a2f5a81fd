//! Conclusions from rounds: metrics, statistics, rules, answers and verdicts.

pub mod answer;
pub mod conclusion;
pub mod metric;
pub mod part;
pub mod rules;
pub mod stats;
pub mod verdict;
