//! Experiment files and the scripts that they name.

pub(crate) mod experiment;
pub(crate) mod expression;
pub(crate) mod outline;
