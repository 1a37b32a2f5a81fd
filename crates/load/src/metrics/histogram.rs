//! A log-linear histogram: the distribution of a trend in bounded memory.
//!
//! As in HdrHistogram (G. Tene) every power of two is divided into 2^10 = 1,024 bins of equal width, at most 1/1,024 of
//! their lower bound. A bin also keeps the sum of its values; the value at a rank is the mean of its bin, which
//! contains the true value: **the relative error of a quantile is below 1/1,024 (0.098 %)**, and zero when all values
//! of the bin are equal, as for small integers. Count, sum, minimum and maximum are exact.
//!
//! The bin of a value is the upper bits of its IEEE 754 representation. Bins are allocated in pages of 128: a typical
//! latency distribution takes 20–100 KiB, and any histogram at most 2 × 704 pages of 2 KiB (2.8 MiB).

/// Bits of the mantissa that select a bin within a power of two.
const SUB_BITS: u32 = 10;
/// Values below 2^MIN_EXPONENT (of milliseconds: 0.06 ns) count as zero.
const MIN_EXPONENT: i32 = -24;
/// Values from 2^MAX_EXPONENT share the last bin; minimum and maximum stay exact.
const MAX_EXPONENT: i32 = 64;
const PAGE_BINS: usize = 128;
const PAGES: usize =
    ((MAX_EXPONENT - MIN_EXPONENT) as usize) << SUB_BITS >> PAGE_BINS.trailing_zeros();

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    count: u64,
    sum: f64,
}

type Page = Box<[Bin; PAGE_BINS]>;

#[derive(Debug, Clone)]
struct Side {
    pages: Vec<Option<Page>>,
}

impl Side {
    fn new() -> Self {
        Self { pages: (0..PAGES).map(|_| None).collect() }
    }

    fn bin_mut(&mut self, index: usize) -> &mut Bin {
        let page = &mut self.pages[index / PAGE_BINS];
        &mut page.get_or_insert_with(|| Box::new([Bin::default(); PAGE_BINS]))[index % PAGE_BINS]
    }

    /// Bins in use, by magnitude.
    fn bins(&self) -> impl DoubleEndedIterator<Item = &Bin> {
        self.pages.iter().flatten().flat_map(|page| page.iter()).filter(|bin| bin.count > 0)
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.pages.iter_mut().zip(&other.pages) {
            let Some(theirs) = theirs else { continue };
            match mine {
                None => *mine = Some(theirs.clone()),
                Some(mine) => {
                    for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                        mine.count += theirs.count;
                        mine.sum += theirs.sum;
                    }
                }
            }
        }
    }
}

/// A distribution of numbers.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    /// Welford's running mean and sum of squared deviations, for the standard deviation.
    mean: f64,
    squares: f64,
    zero: u64,
    positive: Option<Side>,
    negative: Option<Side>,
}

impl Histogram {
    /// Adds a value; one that is not finite is ignored.
    pub fn record(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.count == 0 || value < self.min {
            self.min = value;
        }
        if self.count == 0 || value > self.max {
            self.max = value;
        }
        self.count += 1;
        self.sum += value;
        // Welford 1962.
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
        match bin_of(value.abs()) {
            None => self.zero += 1,
            Some(index) => {
                let side = if value > 0.0 { &mut self.positive } else { &mut self.negative };
                let bin = side.get_or_insert_with(Side::new).bin_mut(index);
                bin.count += 1;
                bin.sum += value;
            }
        }
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        // Chan, Golub and LeVeque 1979, for the squared deviations of two samples together.
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.mean += delta * theirs / (mine + theirs);
        self.squares += other.squares + delta * delta * mine * theirs / (mine + theirs);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.zero += other.zero;
        for (mine, theirs) in
            [(&mut self.positive, &other.positive), (&mut self.negative, &other.negative)]
        {
            match (&mut *mine, theirs) {
                (_, None) => {}
                (None, Some(theirs)) => *mine = Some(theirs.clone()),
                (Some(mine), Some(theirs)) => mine.merge(theirs),
            }
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The smallest value; 0 without values.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest value; 0 without values.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The arithmetic mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The sample standard deviation (n − 1); 0 for fewer than two values.
    pub fn standard_deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).max(0.0).sqrt() }
    }

    /// The quantile `q` of 0..=1 by k6's definition: the value at rank q·(n−1), linearly interpolated between its two
    /// neighbours; 0 without values. Its relative error is that of the neighbours when they have the same sign.
    pub fn quantile(&self, q: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let rank = q.clamp(0.0, 1.0) * (self.count - 1) as f64;
        let lower = rank.floor();
        let (low, high) = self.values_at(lower as u64, rank.ceil() as u64);
        low + (high - low) * (rank - lower)
    }

    /// The values at two ranks (0-based, `first <= second`).
    fn values_at(&self, first: u64, second: u64) -> (f64, f64) {
        let mut seen = 0;
        let mut found = None;
        for bin in self.bins() {
            seen += bin.count;
            let value = (bin.sum / bin.count as f64).clamp(self.min, self.max);
            if found.is_none() && first < seen {
                found = Some(value);
            }
            if let Some(low) = found
                && second < seen
            {
                // The extremes are exact.
                let at_end = |rank, value| match rank {
                    0 => self.min,
                    rank if rank + 1 == self.count => self.max,
                    _ => value,
                };
                return (at_end(first, low), at_end(second, value));
            }
        }
        (found.unwrap_or(self.max), self.max)
    }

    /// Bins in use, by value.
    fn bins(&self) -> impl Iterator<Item = Bin> {
        let zero = (self.zero > 0).then_some(Bin { count: self.zero, sum: 0.0 });
        let negative = self.negative.iter().flat_map(|side| side.bins().rev());
        let positive = self.positive.iter().flat_map(Side::bins);
        negative.copied().chain(zero).chain(positive.copied())
    }
}

/// The bin of a magnitude; `None` counts as zero.
fn bin_of(magnitude: f64) -> Option<usize> {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const BIAS: i32 = f64::MAX_EXP - 1;
    let bits = (magnitude.to_bits() >> (MANTISSA_BITS - SUB_BITS)) as i64;
    let lowest = i64::from(BIAS + MIN_EXPONENT) << SUB_BITS;
    let index = bits - lowest;
    let last = PAGES * PAGE_BINS - 1;
    usize::try_from(index).ok().map(|index| index.min(last))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ERROR: f64 = 1.0 / 1024.0;

    fn histogram(values: &[f64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    /// k6's definition, on the sorted values themselves.
    fn exact(sorted: &[f64], q: f64) -> f64 {
        let rank = q * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
        low + (high - low) * (rank - rank.floor())
    }

    #[test]
    fn an_empty_histogram_is_all_zero() {
        let empty = Histogram::default();
        assert_eq!((empty.count(), empty.min(), empty.max(), empty.mean()), (0, 0.0, 0.0, 0.0));
        assert_eq!((empty.quantile(0.5), empty.standard_deviation()), (0.0, 0.0));
    }

    #[test]
    fn one_value_is_every_quantile() {
        let one = histogram(&[3.7]);
        for q in [0.0, 0.5, 1.0] {
            assert_eq!(one.quantile(q), 3.7);
        }
    }

    #[test]
    fn small_whole_numbers_are_exact() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let histogram = histogram(&values);
        assert_eq!(histogram.quantile(0.5), 5.5);
        assert_eq!(histogram.quantile(0.9), 9.1);
        assert_eq!(histogram.mean(), 5.5);
        // By hand: the squared deviations of 1..=10 sum to 82.5; 82.5 / 9 = 9.1666….
        assert!((histogram.standard_deviation() - 3.027_650_354_097_49).abs() < 1e-12);
    }

    #[test]
    fn zero_and_negative_values_keep_their_order() {
        let histogram = histogram(&[-2.0, -1.0, 0.0, 1.0, 2.0]);
        let quartiles: Vec<f64> =
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| histogram.quantile(q)).to_vec();
        assert_eq!(quartiles, [-2.0, -1.0, 0.0, 1.0, 2.0]);
    }

    #[test]
    fn extreme_and_not_finite_values_are_harmless() {
        let histogram = histogram(&[f64::MAX, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, 1e300]);
        assert_eq!(histogram.count(), 3);
        assert_eq!((histogram.min(), histogram.max()), (f64::MIN_POSITIVE, f64::MAX));
        assert_eq!(histogram.quantile(1.0), f64::MAX);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_the_documented_error_of_an_exact_sort(
            mut values in prop::collection::vec(1e-6f64..1e9, 1..400),
            q in 0.0f64..=1.0,
        ) {
            let histogram = histogram(&values);
            values.sort_by(f64::total_cmp);
            let (got, want) = (histogram.quantile(q), exact(&values, q));
            prop_assert!((got - want).abs() <= want * ERROR * (1.0 + 1e-9), "{got} for {want}");
            prop_assert_eq!(histogram.min(), values[0]);
            prop_assert_eq!(histogram.max(), values[values.len() - 1]);
        }

        #[test]
        fn quantiles_never_decrease(values in prop::collection::vec(-1e6f64..1e6, 1..200)) {
            let histogram = histogram(&values);
            let quantiles: Vec<f64> = (0..=50).map(|i| histogram.quantile(f64::from(i) / 50.0)).collect();
            prop_assert!(quantiles.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9));
        }

        #[test]
        fn merging_equals_recording_everything_in_one(
            left in prop::collection::vec(-1e3f64..1e6, 0..200),
            right in prop::collection::vec(-1e3f64..1e6, 0..200),
        ) {
            let mut merged = histogram(&left);
            merged.merge(&histogram(&right));
            let whole = histogram(&[left, right].concat());
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert_eq!(merged.min(), whole.min());
            prop_assert_eq!(merged.max(), whole.max());
            for q in [0.0, 0.1, 0.5, 0.95, 1.0] {
                let (a, b) = (merged.quantile(q), whole.quantile(q));
                prop_assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()));
            }
            let (a, b) = (merged.standard_deviation(), whole.standard_deviation());
            prop_assert!((a - b).abs() <= 1e-6 * (1.0 + b));
        }
    }
}
