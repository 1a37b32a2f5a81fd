#![doc = include_str!("../README.md")]
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

pub use file::{
    experiment::{self, Experiment},
    expression,
    outline::Outline,
};
pub use journal::{
    record::{
        Checked, CheckedLimit, Event, Failure, FailureKind, LimitKind, Measured, Observed, Outcome,
        Pinned, RoundRecord, Warning,
    },
    stored::{self, Stored},
};
pub use judge::{
    answer::{self, Answer},
    conclusion::Conclusion,
    metric, rules, stats,
    verdict::{Undecided, Verdict},
};
pub use load::{
    generator::{ScriptCheck, check_script},
    metric as load_metric, report as load_report,
};
pub use observe::{MachineUse, ServerStep, ServerUse, at as value_at, database, prometheus};
pub use plan::{Design, NoQuick, Options, Plan, Settings, Turn};
pub use report::Report;
pub use round::{
    Pace,
    host::{self, Host},
    launch::LaunchError,
};
pub use run::{
    Finished, RunError, cancel::Cancel, check, default_out, progress, report_again, resume, run,
};
pub use time::rfc3339;
