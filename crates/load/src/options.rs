//! The options of a run.
//!
//! Script, environment and command line are each read as a [`Layer`]; later layers win (k6's order: script,
//! environment, command line). [`Options`] is the result, with all defaults filled in.

mod document;
pub(crate) mod duration;
mod environment;
mod executors;
mod file;
mod http;
mod layer;
mod resolve;
mod scenario;
mod script;
mod threshold;

pub(crate) use document::document;
pub use duration::{DurationError, parse_duration};
pub use file::ConfigFile;
pub use layer::Layer;
pub(crate) use resolve::{DEFAULT_MAX_REDIRECTS, Options};
pub use scenario::{ExecutorConfig, Scenario, Stage, VuPool};
pub use script::parse_stage;
pub(crate) use threshold::Aggregation;
pub use threshold::{MetricThresholds, Threshold};

use thiserror::Error;

/// Options that cannot be used.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum OptionsError {
    /// A feature of k6 that is missing here.
    #[error("{0} is not supported yet")]
    Unsupported(String),
    /// As `Unsupported`, with the alternative.
    #[error("{what} is not supported yet; {instead}")]
    Replaced { what: String, instead: &'static str },
    /// Several problems, each reported in a message of its own.
    #[error("{}", lines(.0))]
    Several(Vec<OptionsError>),
    /// Unknown to k6 too.
    #[error("unknown option `{0}`")]
    Unknown(String),
    #[error("option `{option}`: {problem}")]
    Invalid {
        /// The option's name, after that of its scenario if it belongs to one.
        option: String,
        problem: String,
    },
}

/// One problem per line.
pub(crate) fn lines(problems: &[impl ToString]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// All values, or all problems.
pub(crate) fn all<T>(
    results: impl Iterator<Item = Result<T, OptionsError>>,
) -> Result<Vec<T>, OptionsError> {
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(OptionsError::Several(more)) => problems.extend(more),
            Err(problem) => problems.push(problem),
        }
    }
    match (problems.pop(), problems.is_empty()) {
        (None, _) => Ok(values),
        (Some(problem), true) => Err(problem),
        (Some(problem), false) => {
            problems.push(problem);
            Err(OptionsError::Several(problems))
        }
    }
}

impl OptionsError {
    /// `instead` is the alternative; empty if there is none.
    pub(crate) fn unsupported(what: String, instead: &'static str) -> Self {
        if instead.is_empty() { Self::Unsupported(what) } else { Self::Replaced { what, instead } }
    }

    pub(crate) fn invalid(option: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { option: option.into(), problem: problem.into() }
    }
}
