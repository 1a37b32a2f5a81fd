//! Prometheus' native histogram, whose buckets grow by a fixed factor.

use std::collections::BTreeMap;

use super::series::Distribution;

/// Bounds of the eight buckets between two powers of two, 2^(n/8 − 1): the largest steps below k6's factor of 1.1.
const BOUNDS: [f64; 8] = [
    0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048, 0.7071067811865475,
    0.7711054127039704, 0.8408964152537144, 0.9170040432046711,
];

/// Prometheus' number for eight buckets per power of two.
pub(super) const SCHEMA: i32 = 3;

/// Magnitudes up to 2^−128 count as zero; Prometheus' default.
pub(super) const ZERO_THRESHOLD: f64 = 2.938735877055719e-39;

/// Largest gap of empty buckets within a span; Prometheus' number.
const MAX_GAP: i32 = 2;

#[derive(Debug, Clone, Default)]
pub(super) struct NativeHistogram {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) zeros: u64,
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
}

/// Buckets of one sign in the wire format.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Buckets {
    /// Distance of each run of buckets from the one before, and its length.
    pub(super) spans: Vec<(i32, u32)>,
    /// Differences of each count to the one before.
    pub(super) deltas: Vec<i64>,
}

impl Distribution for NativeHistogram {
    fn record(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        let buckets = match value {
            _ if value > ZERO_THRESHOLD => &mut self.positive,
            _ if value < -ZERO_THRESHOLD => &mut self.negative,
            _ => {
                self.zeros += 1;
                return;
            }
        };
        *buckets.entry(index(value.abs())).or_default() += 1;
    }
}

impl NativeHistogram {
    pub(super) fn positive(&self) -> Buckets {
        buckets(&self.positive)
    }

    pub(super) fn negative(&self) -> Buckets {
        buckets(&self.negative)
    }
}

/// The bucket of a value above [`ZERO_THRESHOLD`]: number n is (2^(n/8 − 1/8), 2^(n/8)].
fn index(value: f64) -> i32 {
    // A product of a fraction in [0.5, 1) and a power of two.
    let value = value.min(f64::MAX);
    let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    let fraction = value / 2f64.powi(exponent - 1) / 2.0;
    let within = BOUNDS.partition_point(|bound| *bound < fraction) as i32;
    within + (exponent - 1) * BOUNDS.len() as i32
}

fn buckets(counts: &BTreeMap<i32, u64>) -> Buckets {
    let mut buckets = Buckets::default();
    let mut next = 0;
    let mut last = 0;
    for (index, count) in counts {
        let gap = index - next;
        match buckets.spans.last_mut() {
            Some((_, length)) if gap <= MAX_GAP => {
                for _ in 0..gap {
                    buckets.deltas.push(-last);
                    last = 0;
                    *length += 1;
                }
                *length += 1;
            }
            _ => buckets.spans.push((gap, 1)),
        }
        buckets.deltas.push(*count as i64 - last);
        last = *count as i64;
        next = index + 1;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_with_its_bound() {
        for (value, expected) in
            [(1.0, 0), (1.0000001, 1), (2.0, 8), (0.5, -8), (0.3, -13), (1e300, 7973), (1.05, 1)]
        {
            assert_eq!(index(value), expected, "{value}");
            let upper = 2f64.powf(f64::from(index(value)) / 8.0);
            assert!(value <= upper * 1.000_000_001 && value > upper / 1.0906, "{value} {upper}");
        }
    }

    #[test]
    fn small_gaps_are_filled_and_large_ones_begin_a_span() {
        let counts = BTreeMap::from([(-3, 2), (-2, 5), (1, 1), (5, 4)]);
        let expected = Buckets { spans: vec![(-3, 5), (3, 1)], deltas: vec![2, 3, -5, 0, 1, 3] };
        assert_eq!(buckets(&counts), expected);
        assert_eq!(buckets(&BTreeMap::new()), Buckets::default());
    }

    #[test]
    fn every_value_is_counted_once() {
        let mut histogram = NativeHistogram::default();
        for value in [0.0, 1.0, 1.0, -2.0, f64::INFINITY] {
            histogram.record(value);
        }
        assert_eq!((histogram.count, histogram.zeros), (5, 1));
        assert_eq!(histogram.positive().deltas.len(), 2);
        assert_eq!(histogram.negative(), Buckets { spans: vec![(8, 1)], deltas: vec![1] });
    }
}
