//! How much a variant can take: the highest arrival rate at which a goal is still reached.
//!
//! A *try* is a round of the lab, with a fresh process on fresh data, at one rate of an open model:
//! iterations start by the clock, however slow the server is, so that a server beyond its limit
//! shows it instead of slowing its load down. A search rises and then halves; a block
//! runs one search for every variant, try by try in turn, so that a machine that gets slower hits
//! all of them alike. Each block gives one number per variant, and these are compared as the rounds
//! of a comparison are: ratios within a block, averaged as logarithms, with Student's t.
//!
//! Two things keep several searches from telling the same by construction: every search begins at
//! another rate, drawn from the seed, so that they do not share a grid; and the answer of a search
//! is the geometric middle of the highest rate that held and the lowest that broke.
//!
//! Whatever is no limit of the server is never called one: the load generator's, that of the number
//! of virtual users, and the highest rate allowed give "at least" and no ratio.

mod bare;
mod course;
mod goal;
mod html;
mod markdown;
mod method;
mod plan;
mod progress;
mod report;
mod search;
mod steering;
mod stored;
mod summary;
mod text;
mod trust;
mod words;

pub use bare::{BareError, bare};
pub use course::{Ended, Try};
pub use goal::{Breach, Figures, Goal, Reason, Whose};
pub use plan::{LimitOptions, LimitPlan, LimitSettings, PlanError};
pub use progress::{Console, Progress};
pub use report::{LimitFinished, LimitReport, resume, run};
pub use search::Found;
pub use steering::Steering;
pub use stored::StoredLimit;
pub use summary::{Capacity, SearchPart, VariantLimit, Versus};
