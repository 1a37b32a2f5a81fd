//! Experiments: the same load against variants of a service, in interleaved rounds, with
//! statistics.
//!
//! An [`Experiment`] is read from a file. A [`Plan`] fixes what will be done: how many blocks, and
//! in which order each block runs its variants. [`run()`] does it, round by round, and gives a
//! [`Report`].
//!
//! What makes the numbers worth having:
//! - **Interleaved.** A block runs every variant once, in random order, so that a machine that
//!   gets slower hits all alike; ratios are taken within a block.
//! - **The round is the unit.** Requests of one round share one server's state; pooling them would
//!   give false certainty. Each round gives one number per metric.
//! - **Fixed beforehand.** Number of blocks and prediction are in the file, before the first round.
//! - **Good requests only.** A variant that refuses fast does not win.
//! - **Nothing dropped.** A round that breaks is reported, and its whole block run again.
//!
//! The lab knows no server by name: the [`Host`] turns settings into commands. It watches process
//! trees and leaves no process behind by way of `madang-stack`.
#![forbid(unsafe_code)]

mod action;
pub mod answer;
mod cancel;
mod conclusion;
mod containers;
mod copy;
pub mod database;
pub mod experiment;
pub mod expression;
mod generator;
pub mod host;
pub mod k6;
mod launch;
pub mod limit;
pub mod load_metric;
pub mod load_report;
pub mod metric;
mod observe;
mod outline;
mod plan;
pub mod progress;
pub mod prometheus;
mod provenance;
mod record;
pub mod report;
mod round;
pub mod rules;
mod run;
mod script_files;
pub mod stats;
pub mod stored;
mod time;
mod values;
mod verdict;
mod words;

pub use answer::Answer;
pub use cancel::Cancel;
pub use conclusion::Conclusion;
pub use experiment::Experiment;
pub use generator::{ScriptCheck, check_script};
pub use host::Host;
pub use launch::LaunchError;
pub use observe::{MachineUse, ServerStep, ServerUse};
pub use outline::Outline;
pub use plan::{Design, NoQuick, Options, Plan, Settings, Turn};
pub use record::{
    Checked, CheckedLimit, Event, Failure, FailureKind, LimitKind, Measured, Observed, Outcome,
    Pinned, RoundRecord, Warning,
};
pub use report::Report;
pub use round::Pace;
pub use run::{Finished, RunError, check, default_out, report_again, resume, run};
pub use stored::Stored;
pub use time::rfc3339;
pub use verdict::{Undecided, Verdict};
