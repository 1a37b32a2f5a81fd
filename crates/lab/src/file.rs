//! Experiment files and the scripts that they name.

pub mod experiment;
pub mod expression;
pub mod outline;
