//! Ratios between variants, with confidence intervals. The sample is the round, never the request:
//! requests of one round share one server's state, and pooling them gives false certainty.
//!
//! | question | answer |
//! |---|---|
//! | how large is the ratio? | [`estimate`]: geometric mean, paired t on logarithms |
//! | and if it is zero in some blocks? | [`median_interval`]: sign test |
//! | could one of many be chance? | [`holm`]: adjusted p-values |
//! | how often would it have to be measured? | [`blocks_needed`] |
//! | does loading both at once change it? | [`interference`] |
//! | does it rise all the time? | [`Line`] |
//!
//! The paired t was chosen by simulation: `examples/interval_coverage.rs` compares it with the
//! studentised bootstrap, and `tests/recorded/README.md` has its table.

mod holm;
mod interference;
mod level;
mod line;
mod planning;
mod ratio;
mod sign;
mod student;

pub use holm::holm;
pub(crate) use interference::{Interference, interference};
pub(crate) use level::{Level, level};
pub(crate) use line::Line;
pub(crate) use planning::{MOST_BLOCKS, POWER, blocks_needed};
pub(crate) use ratio::{CONFIDENCE, Estimate};
pub use ratio::{estimate, log_ratios};
pub(crate) use sign::median_interval;
pub(crate) use student::two_sided;

#[cfg(test)]
mod noise;
#[cfg(test)]
mod simulation;

#[cfg(test)]
pub(crate) use noise::normal;
