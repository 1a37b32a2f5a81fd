//! Load generators and their reports.

pub(crate) mod generator;
pub(crate) mod metric;
pub mod report;
