//! How much a variant can take: the highest arrival rate at which a goal is still reached.
//!
//! A *try* is a round of the lab, with a fresh process on fresh data, at one rate of an open model:
//! iterations start by the clock, however slow the server is, so that a server beyond its limit
//! shows it instead of slowing its load down. A search gets near with short tries and decides with long ones
//! (`search.rs`); its answer is the highest rate that was confirmed. A block
//! runs one search for every variant, try by try in turn, so that a machine that gets slower hits
//! all of them alike. A capacity is the median of the blocks' answers, and these are compared as the rounds
//! of a comparison are: ratios within a block, averaged as logarithms, with Student's t. Every search begins at
//! another rate, drawn from the seed, so that they share no grid.
//!
//! Whatever is no limit of the server is never called one: the load generator's, that of the number
//! of virtual users, and the highest rate allowed give "at least" and no ratio.

mod course;
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

pub use course::{SearchEnd, Try};
pub use goal::{Breach, Figures, Goal, Reason, Whose};
pub use plan::{LimitOptions, LimitPlan, LimitSettings, PlanError};
pub use progress::{Console, Progress};
pub use report::{LimitFinished, LimitReport, resume, run};
pub use search::SearchResult;
pub use steering::Steering;
pub use stored::StoredLimit;
pub use summary::{Capacity, SearchPart, VariantLimit, Versus};
