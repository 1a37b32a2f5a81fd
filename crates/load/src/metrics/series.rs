//! Requests over time, in steps of one second.

/// Limit of steps; beyond it steps are merged in pairs.
const MAX_STEPS: usize = 3600;

#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) requests: u64,
    pub(crate) good: u64,
    /// `http_req_duration`.
    pub(crate) durations: CoarseHistogram,
}

impl Step {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.good += other.good;
        self.durations.merge(&other.durations);
    }
}

/// Distribution of a step: 32 bins per power of two from 1 µs to 18 minutes, so that an hour of steps stays small. The
/// relative error of a quantile within that range is at most 1/64.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoarseHistogram {
    count: u64,
    /// Empty until the first value.
    bins: Vec<u32>,
}

impl CoarseHistogram {
    const SUB_BITS: u32 = 5;
    /// 2^-10 ms is about 1 µs.
    const MIN_EXPONENT: i32 = -10;
    const BINS: usize = 30 << Self::SUB_BITS;

    pub(crate) fn record(&mut self, milliseconds: f64) {
        if self.bins.is_empty() {
            self.bins.resize(Self::BINS, 0);
        }
        let bits = (milliseconds.max(0.0).to_bits() >> (52 - Self::SUB_BITS)) as i64;
        let index = bits - (i64::from(1023 + Self::MIN_EXPONENT) << Self::SUB_BITS);
        self.bins[index.clamp(0, Self::BINS as i64 - 1) as usize] += 1;
        self.count += 1;
    }

    fn merge(&mut self, other: &Self) {
        if self.bins.is_empty() {
            self.bins.clone_from(&other.bins);
        } else {
            self.bins.iter_mut().zip(&other.bins).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.count += other.count;
    }

    /// The middle of the bin of the quantile `q` (nearest rank); 0 without values.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let rank = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.bins.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        let Some(index) = found else { return 0.0 };
        let octave = (index >> Self::SUB_BITS) as i32 + Self::MIN_EXPONENT;
        let within = (index & ((1 << Self::SUB_BITS) - 1)) as f64 + 0.5;
        2f64.powi(octave) * (1.0 + within / f64::from(1 << Self::SUB_BITS))
    }
}

/// Requests by the second in which the response arrived.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Seconds per step: 1, doubled whenever the run outgrows 3,600 steps.
    pub(crate) step_seconds: u32,
    pub(crate) steps: Vec<Step>,
}

impl Default for Series {
    fn default() -> Self {
        Self { step_seconds: 1, steps: Vec::new() }
    }
}

impl Series {
    /// The step of a second since the start of recording.
    pub(crate) fn at(&mut self, second: u32) -> &mut Step {
        while (second / self.step_seconds) as usize >= MAX_STEPS {
            self.halve();
        }
        let index = (second / self.step_seconds) as usize;
        if index >= self.steps.len() {
            self.steps.resize_with(index + 1, Step::default);
        }
        &mut self.steps[index]
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        while self.step_seconds < other.step_seconds {
            self.halve();
        }
        while other.step_seconds < self.step_seconds {
            other.halve();
        }
        if other.steps.len() > self.steps.len() {
            self.steps.resize_with(other.steps.len(), Step::default);
        }
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.merge(theirs);
        }
    }

    fn halve(&mut self) {
        self.step_seconds *= 2;
        let pairs = std::mem::take(&mut self.steps);
        self.steps = pairs
            .chunks(2)
            .map(|pair| {
                let mut joined = pair[0].clone();
                pair.iter().skip(1).for_each(|second| joined.merge(second));
                joined
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_every_request_in_wider_steps() {
        let mut series = Series::default();
        for second in 0..10_000 {
            series.at(second).requests += 1;
        }
        assert_eq!(series.step_seconds, 4);
        assert_eq!(series.steps.len(), 2_500);
        assert!(series.steps.iter().all(|step| step.requests == 4));
    }

    #[test]
    fn the_coarse_quantile_is_within_its_error() {
        let mut coarse = CoarseHistogram::default();
        (1..=1000).for_each(|value| coarse.record(f64::from(value) / 10.0));
        let p95 = coarse.quantile(0.95);
        assert!((p95 - 95.0).abs() <= 95.0 / 64.0, "{p95}");
        coarse.record(1e12);
        coarse.record(0.0);
        assert_eq!(CoarseHistogram::default().quantile(0.5), 0.0);
    }

    #[test]
    fn merging_brings_both_to_the_wider_step() {
        let mut long = Series::default();
        long.at(7_199).requests += 1;
        let mut short = Series::default();
        short.at(1).requests += 5;
        short.merge(long);
        assert_eq!((short.step_seconds, short.steps[0].requests), (2, 5));
        assert_eq!(short.steps[3_599].requests, 1);
    }
}
