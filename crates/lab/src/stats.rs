//! Ratios between variants, with confidence intervals. The sample is the round, never the request:
//! requests of one round share one server's state, and pooling them gives false certainty.

mod level;
mod ratio;
mod student;

pub use level::{Level, level};
pub use ratio::{Estimate, estimate};
pub use student::{cumulative, quantile};
