//! Ratios between variants, with confidence intervals. The sample is the round, never the request:
//! requests of one round share one server's state, and pooling them gives false certainty.
//!
//! | question | answer |
//! |---|---|
//! | how large is the ratio? | [`estimate`]: geometric mean, paired t on logarithms |
//! | and if the cores had run equally fast in all rounds? | [`adjusted`]: analysis of covariance |
//! | could it be chance, whatever the distribution? | [`sign_flip`], [`sign_flip_at_equal_pace`]: permutation tests |
//! | and if it is zero in some blocks? | [`median_interval`]: sign test |
//! | could one of many be chance? | [`holm`]: adjusted p-values |
//! | how often would it have to be measured? | [`blocks_needed`] |
//! | has it changed since another run? | [`between_runs`]: Welch's t on logarithms |
//! | and at equal speed of the cores? | [`between_runs_at_equal_pace`]: analysis of covariance |
//!
//! The paired t was chosen by simulation: `examples/interval_coverage.rs` compares it with the
//! studentised bootstrap, and `tests/recorded/README.md` has its table.

mod adjusted;
mod holm;
mod level;
mod permutation;
mod planning;
mod ratio;
mod sign;
mod student;
mod welch;

pub use adjusted::{Adjustment, adjusted, unbalanced};
pub use holm::holm;
pub use level::{Level, level};
pub use permutation::{sign_flip, sign_flip_at_equal_pace};
pub use planning::{MOST_BLOCKS, POWER, blocks_needed};
pub use ratio::{CONFIDENCE, Estimate, estimate, log_ratios};
pub use sign::median_interval;
pub use student::{cumulative, quantile, two_sided};
pub use welch::{Change, between_runs, between_runs_at_equal_pace};

#[cfg(test)]
mod noise;
#[cfg(test)]
mod simulation;

#[cfg(test)]
pub(crate) use noise::normal;
