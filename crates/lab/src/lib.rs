#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// The program is its only user: names explain most items, comments the rest.
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

pub use file::experiment::Experiment;
pub use journal::record::{Failure, FailureKind, Measured, RoundRecord, Warning};
pub use journal::stored::Stored;
pub use judge::answer::Answer;
pub use judge::conclusion::Conclusion;
pub use judge::verdict::{Undecided, Verdict};
pub use load::generator::check_script;
pub use load::report as load_report;
pub use observe::at as value_at;
pub use plan::{Design, NoQuick, Options, Plan};
pub use report::Report;
pub use round::host::{self, Host};
pub use run::cancel::Cancel;
pub use run::{Finished, RunError, check, default_out, progress, report_again, resume, run};
pub use time::rfc3339;

pub mod experiment {
    pub use crate::file::experiment::{Bound, COMMAND_LINE, FileError, Mistake, Served, Target};
}

pub mod metric {
    pub use crate::judge::metric::{Absent, Metric, Statistic};
}

pub mod stats {
    pub use crate::judge::answer::LEVEL;
    pub use crate::judge::stats::{estimate, holm, log_ratios};
}

pub mod stored {
    pub use crate::journal::stored::StoredError;
}
