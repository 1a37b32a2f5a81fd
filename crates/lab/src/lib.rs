//! Experiments: the same load against variants of a service, in interleaved rounds, with statistics.
//!
//! An [`Experiment`] is read from a file. A [`Plan`] fixes what will be done: how many blocks, and in which order each block
//! runs its variants. [`run()`] does it, round by round, and gives a [`Report`]. Twelve words name everything, in code, help and
//! reports; `experiments/REFERENCE.md` begins with them.
//!
//! | module | what happens there |
//! |---|---|
//! | `file` | an experiment file is read, and its script asked what it would do |
//! | `plan` | blocks, pairs and their order are fixed before the first round |
//! | `run` | the blocks are run, disturbed rounds repeated |
//! | `round` | one round: data, server, load, invariants |
//! | `load` | a generator is started, and its report read |
//! | `observe` | the server's processes, metrics and databases are watched |
//! | `journal` | rounds are kept as they end, and read again |
//! | `judge` | ratios, intervals, rules, answers, verdicts |
//! | `report` | all that becomes JSON, text, HTML, Markdown, JUnit |
//! | `limit` | the same for capacity, found by search |
//!
//! Design:
//! - **Interleaved.** A block runs every variant once, in random order, so that a machine that gets slower hits all alike; ratios
//!   are taken within a block.
//! - **The round is the unit.** Requests of one round share one server's state; pooling them would give false certainty. Each
//!   round gives one number per metric.
//! - **Fixed beforehand.** Number of blocks and prediction are in the file, before the first round.
//! - **Good requests only.** A variant that refuses fast does not win.
//! - **Nothing dropped.** A round that breaks is reported, and its whole block run again.
//!
//! The lab knows no server by name: the [`Host`] turns settings into commands. `madang-stack` watches process trees and leaves no
//! process behind.
#![forbid(unsafe_code)]

mod file;
mod journal;
mod judge;
pub mod limit;
mod load;
mod observe;
mod plan;
pub mod report;
mod round;
mod run;
mod time;
mod words;

pub use file::experiment::{self, Experiment};
pub use file::expression;
pub use file::outline::Outline;
pub use journal::record::{
    Checked, CheckedLimit, Event, Failure, FailureKind, LimitKind, Measured, Observed, Outcome,
    Pinned, RoundRecord, Warning,
};
pub use journal::stored::{self, Stored};
pub use judge::answer::{self, Answer};
pub use judge::conclusion::Conclusion;
pub use judge::verdict::{Undecided, Verdict};
pub use judge::{metric, rules, stats};
pub use load::generator::{ScriptCheck, check_script};
pub use load::{metric as load_metric, report as load_report};
pub use observe::{MachineUse, ServerStep, ServerUse, at as value_at, database, prometheus};
pub use plan::{Design, NoQuick, Options, Plan, Settings, Turn};
pub use report::Report;
pub use round::Pace;
pub use round::host::{self, Host};
pub use round::launch::LaunchError;
pub use run::cancel::Cancel;
pub use run::{Finished, RunError, check, default_out, progress, report_again, resume, run};
pub use time::rfc3339;
