//! Latencies of responses, with enough resolution for percentiles over a few seconds. Each bucket is an eighth of its
//! lower bound wide, so a percentile is off by at most 1/8. Counts run since the start; the difference of two
//! readings is an interval.

use super::record::micros;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Buckets per power of two, and buckets of one microsecond below the first one.
const STEPS: u64 = 8;
const STEPS_LOG2: u32 = STEPS.ilog2();
/// Lower bound of the last bucket, about a minute; it has no upper bound.
const LARGEST_MICROS: u64 = 1 << 26;
const BUCKETS: usize = (LARGEST_MICROS.ilog2() - STEPS_LOG2 + 1) as usize * STEPS as usize + 1;

/// Up to this many threads count without sharing a cache line.
const STRIPES: usize = 8;

/// Numbers of responses by latency.
#[derive(Debug, Default)]
pub struct Latencies {
    stripes: [Stripe; STRIPES],
}

#[derive(Debug)]
#[repr(align(128))]
struct Stripe([AtomicU64; BUCKETS]);

impl Default for Stripe {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

thread_local! {
    static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The stripe of this thread; threads take turns.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    STRIPE.with(|own| {
        own.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
            own.set(Some(next));
            next
        })
    })
}

impl Latencies {
    pub fn observe(&self, took: Duration) {
        self.stripes[stripe()].0[bucket(micros(took))].fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> Reading {
        let mut counts = vec![0; BUCKETS];
        for stripe in &self.stripes {
            for (sum, count) in counts.iter_mut().zip(&stripe.0) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        Reading(counts)
    }
}

/// Counts at one moment, or of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading(Vec<u64>);

impl Reading {
    /// Counts of the interval since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Reading) -> Reading {
        let pairs = self.0.iter().zip(&earlier.0);
        Reading(pairs.map(|(now, then)| now.saturating_sub(*then)).collect())
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Latency in seconds within which this share (0 to 1) of the responses was made, interpolated within its bucket;
    /// `None` without responses.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts far below 2^53, and a rank between 0 and their sum"
    )]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let rank = (share * self.total() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (at, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            if below + count >= rank {
                let (from, to) = (lower(at) as f64, lower(at + 1) as f64);
                let within = (rank - below) as f64 / *count as f64;
                return Some((from + (to - from) * within) / 1e6);
            }
            below += count;
        }
        None
    }
}

fn bucket(micros: u64) -> usize {
    let micros = micros.min(LARGEST_MICROS);
    let shift = micros.max(STEPS).ilog2() - STEPS_LOG2;
    // In its power of two a shifted time is `STEPS` to `2 * STEPS - 1`; below, it is itself.
    usize::try_from(u64::from(shift) * STEPS + (micros >> shift)).unwrap_or(BUCKETS - 1)
}

/// Lower bound of a bucket, in microseconds.
fn lower(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    (bucket - shift * STEPS) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_the_bucket_that_holds_it() {
        let mut times: Vec<u64> = (0..5000).collect();
        times.extend((12..26).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1, 3 << (n - 1)]));
        for micros in times {
            let at = bucket(micros);
            assert!(lower(at) <= micros && micros < lower(at + 1), "{micros} in {at}");
            let width = lower(at + 1) - lower(at);
            assert!(width == 1 || width * STEPS <= lower(at), "{micros}: {width}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_within_an_eighth() {
        let latencies = Latencies::default();
        (1..=1000).for_each(|n| latencies.observe(Duration::from_micros(n * 100)));
        let reading = latencies.read();
        assert_eq!(reading.total(), 1000);
        for (share, exact) in [(0.5, 0.05), (0.95, 0.095), (0.99, 0.099)] {
            let found = reading.percentile(share).unwrap();
            assert!((found / exact - 1.0).abs() < 0.125, "{share}: {found}");
        }
    }

    #[test]
    fn only_what_came_since_is_in_a_difference() {
        let latencies = Latencies::default();
        latencies.observe(Duration::from_secs(3));
        let before = latencies.read();
        assert_eq!(latencies.read().since(&before).percentile(0.5), None);
        latencies.observe(Duration::from_millis(1));
        let since = latencies.read().since(&before);
        assert_eq!(since.total(), 1);
        assert!((since.percentile(0.99).unwrap() - 0.001).abs() < 0.000_125);
    }
}
