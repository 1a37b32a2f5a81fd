//! The options of a run: what the script, the environment and the command line ask for.
//!
//! The same [`Layer`] is read from all three; later layers win (k6's order: script, environment,
//! command line). [`Options`] is what they come to.

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
pub use http::HttpLayer;
pub(crate) use http::HttpOptions;
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
    /// k6 has it, this engine does not.
    #[error("{0} is not supported yet")]
    Unsupported(String),
    /// The same, and what to do instead.
    #[error("{what} is not supported yet; {instead}")]
    Replaced { what: String, instead: &'static str },
    /// Nobody has it.
    #[error("unknown option `{0}`")]
    Unknown(String),
    /// The value makes no sense.
    #[error("option `{option}`: {problem}")]
    Invalid {
        /// Its name, with the scenario's before it when it belongs to one.
        option: String,
        problem: String,
    },
}

impl OptionsError {
    /// `instead` is empty where nothing is.
    pub(crate) fn unsupported(what: String, instead: &'static str) -> Self {
        if instead.is_empty() { Self::Unsupported(what) } else { Self::Replaced { what, instead } }
    }

    pub(crate) fn invalid(option: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { option: option.into(), problem: problem.into() }
    }
}
