//! Capacity search: the highest arrival rate at which a variant meets a goal.
//!
//! A *try* is a round of the lab, with a fresh process on fresh data, at one rate of an open model: iterations start
//! by the clock, so that a server beyond its limit cannot slow down its load. A search approaches the limit with
//! short tries and decides with long ones (`search.rs`); its result is the highest confirmed rate. A block runs one
//! search for each variant, try by try in turn, so that a slowing machine affects all alike. A capacity is the median
//! of the results. They are compared like the rounds of a comparison: ratios within a block, averaged as logarithms,
//! with Student's t. Each search starts at a different rate, drawn from the seed, so that they share no grid.
//!
//! Limits of the load generator, the number of virtual users and the allowed rate are never reported as the server's:
//! they give "at least" and no ratio.

mod blocks;
mod document;
mod goal;
mod method;
mod plan;
mod progress;
mod report;
mod search;
#[cfg(test)]
mod simulation;
mod steering;
mod stored;
mod summary;
mod text;
mod words;

pub use blocks::{SearchEnd, Try};
pub use goal::{Bottleneck, Breach, Figures, Goal, Reason};
pub use plan::{LimitOptions, LimitPlan, LimitSettings, PlanError};
pub use progress::Console;
pub use report::{LimitFinished, LimitReport, resume, run};
pub use search::SearchResult;
pub use steering::Steering;
pub use stored::StoredLimit;
pub use summary::{Capacity, SearchPart, VariantLimit, Versus};
