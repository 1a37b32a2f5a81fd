//! Load generators: how they are started, and the reports that they give.

pub(crate) mod generator;
pub(crate) mod metric;
pub mod report;
