//! Load generators: how they are started, and the reports that they give.

pub mod generator;
pub mod metric;
pub mod report;
