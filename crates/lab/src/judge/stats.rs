//! Ratios between variants, with confidence intervals. The sample is the round: requests of one round share the state
//! of one server, and pooling them gives false certainty.
//!
//! | question | answer |
//! |---|---|
//! | How large is the ratio? | [`estimate`]: geometric mean, paired t on logarithms |
//! | How large is it with zeros in some blocks? | [`median_interval`]: sign test |
//! | Is one of many differences chance? | [`holm`]: adjusted p-values |
//! | How many blocks would decide it? | [`blocks_needed`] |
//! | Does loading both at once change it? | [`interference`] |
//! | Does a value rise all the time? | [`Line`] |
//!
//! The paired t was chosen by simulation: `examples/interval_coverage.rs` compares it with the
//! studentised bootstrap, and `tests/recorded/README.md` has its table.

mod holm;
mod interference;
mod level;
mod line;
mod planning;
mod ratio;
mod sample;
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
