//! Simulated blocks, to choose and test the statistics.

/// Noise of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noise {
    /// Values spread normally, by 10 %.
    Normal,
    /// Values spread log-normally, by 30 %, around a machine that varies by half between blocks.
    LogNormal,
    /// A machine that gets slower by half during the run, also within blocks, and 5 % of noise.
    Drift,
    /// One round in ten is 30 % slower, with 3 % of noise.
    Stalls,
}

impl Noise {
    /// `(reference, variant)` of each block with a true ratio of `truth`, in random order within blocks.
    pub(crate) fn pairs(self, blocks: u32, truth: f64, rng: &mut fastrand::Rng) -> Vec<(f64, f64)> {
        let pair = |block| {
            let (first, second) = self.block(f64::from(block) / f64::from(blocks), blocks, rng);
            if rng.bool() { (first, second * truth) } else { (second, first * truth) }
        };
        (0..blocks).map(pair).collect()
    }

    /// Two consecutive rounds of the same variant.
    fn block(self, done: f64, blocks: u32, rng: &mut fastrand::Rng) -> (f64, f64) {
        let mut round = |slower: f64| match self {
            Self::Normal => 1.0 + 0.1 * normal(rng),
            Self::LogNormal => (0.3 * normal(rng)).exp(),
            Self::Drift => slower * (1.0 + 0.05 * normal(rng)),
            Self::Stalls => {
                let stall = if rng.u8(..10) == 0 { 1.3 } else { 1.0 };
                stall * (1.0 + 0.03 * normal(rng))
            }
        };
        let step = 0.5 / f64::from(2 * blocks);
        let (first, second) = (round(1.0 + 0.5 * done), round(1.0 + 0.5 * done + step));
        let machine = if self == Self::LogNormal { (0.5 * normal(rng)).exp() } else { 1.0 };
        (machine * first, machine * second)
    }
}

/// A standard normal number (Box and Muller, "A note on the generation of random normal deviates", 1958).
pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.f64()).cos()
}
