#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// Its one client is the program: a comment says what a name does not.
#![expect(missing_docs, reason = "the names and messages say it")]

mod file;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
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
pub use plan::{BlockStep, Design, NoQuick, Options, Plan, Settings};
pub use report::Report;
pub use round::Pace;
pub use round::host::{self, Host};
pub use round::launch::LaunchError;
pub use run::cancel::Cancel;
pub use run::{Finished, RunError, check, default_out, progress, report_again, resume, run};
pub use time::rfc3339;
