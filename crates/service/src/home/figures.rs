//! Rate and latency of responses: a sample each second, for the last minute (docs/decisions/0046-home-page.md).
//! Requests for the figures are not counted, and there are no labels.

use super::sampler::INTERVAL;
use crate::http::{Problem, not_stored};
use crate::ops::latency::{Latencies, Reading};
use crate::ops::metrics::ServerMetrics;
use axum::response::Response;
use madang_cache::Cache;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Number of samples kept.
const KEPT: usize = 60;
/// Samples per percentile: one second of a quiet service has too few responses.
const WINDOW: usize = 10;

/// Figures of one second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    /// Number of the sample since the start, from 1.
    number: u64,
    /// Responses in this second, divided by its measured length.
    requests_per_second: f64,
    /// Median time of the last ten seconds from a complete request head to the response's head; absent without
    /// responses.
    p50_milliseconds: Option<f64>,
    p95_milliseconds: Option<f64>,
    p99_milliseconds: Option<f64>,
    /// Share of the lookups of the last ten seconds that the cache answered, 0 to 1; absent without lookups.
    cache_hit_ratio: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    interval_seconds: f64,
    window_seconds: f64,
    /// Responses from the start to the last sample.
    requests: u64,
    samples: Vec<Sample>,
}

/// The samples of the last minute, and the number of responses since the start.
#[derive(Debug, Default)]
pub(super) struct Samples {
    kept: Mutex<(u64, VecDeque<Sample>)>,
}

/// Takes the samples.
#[derive(Debug)]
pub(super) struct Minute {
    metrics: Arc<ServerMetrics>,
    cache: Cache,
    past: VecDeque<Counts>,
    into: Arc<Samples>,
}

impl Minute {
    pub(super) fn new(metrics: Arc<ServerMetrics>, cache: Cache) -> Minute {
        let past = VecDeque::from([Counts::read(metrics.latencies(), &cache)]);
        Minute { metrics, cache, past, into: Arc::default() }
    }

    pub(super) fn samples(&self) -> Arc<Samples> {
        Arc::clone(&self.into)
    }

    /// Takes the sample of a second.
    pub(super) fn tick(&mut self) {
        self.past.push_back(Counts::read(self.metrics.latencies(), &self.cache));
        self.into.add(&self.past);
        if self.past.len() > WINDOW {
            self.past.pop_front();
        }
    }
}

/// All counts at one moment, since the start.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) at: Instant,
    pub(super) answers: Reading,
    look_ups: u64,
    hits: u64,
}

impl Counts {
    pub(super) fn read(latencies: &Latencies, cache: &Cache) -> Counts {
        let (mut look_ups, mut hits) = (0, 0);
        for (_, part) in cache.metrics() {
            let answered = part.hits + part.negative_hits + part.stale_served;
            hits += answered;
            look_ups += answered + part.misses + part.coalesced;
        }
        Counts { at: Instant::now(), answers: latencies.read(), look_ups, hits }
    }
}

impl Samples {
    /// Adds the sample between the last two counts; percentiles cover all of `past`.
    fn add(&self, past: &VecDeque<Counts>) {
        let (Some(first), Some(now)) = (past.front(), past.back()) else { return };
        let before = past.iter().rev().nth(1).unwrap_or(first);
        let total = now.answers.total();
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let window = now.answers.since(&first.answers);
        let milliseconds = |share| window.percentile(share).map(|s| rounded(s * 1e3, 3));
        let mut kept = self.kept.lock();
        let (requests, samples) = &mut *kept;
        *requests = total;
        let sample = Sample {
            number: samples.back().map_or(1, |last| last.number + 1),
            requests_per_second: rounded(ratio(total - before.answers.total(), seconds), 1),
            p50_milliseconds: milliseconds(0.5),
            p95_milliseconds: milliseconds(0.95),
            p99_milliseconds: milliseconds(0.99),
            cache_hit_ratio: hit_ratio(first, now),
        };
        if samples.len() == KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Samples after this number; all of them when the number is not known, as after a restart.
    fn after(&self, number: u64) -> Figures {
        let kept = self.kept.lock();
        let (requests, samples) = &*kept;
        let known = samples.back().is_some_and(|last| number <= last.number);
        let from = if known { number } else { 0 };
        Figures {
            interval_seconds: INTERVAL.as_secs_f64(),
            window_seconds: INTERVAL.as_secs_f64() * WINDOW as f64,
            requests: *requests,
            samples: samples.iter().filter(|sample| sample.number > from).copied().collect(),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of seconds are far below 2^53")]
pub(super) fn ratio(count: u64, whole: f64) -> f64 {
    if whole > 0.0 { count as f64 / whole } else { 0.0 }
}

#[allow(clippy::cast_precision_loss, reason = "counts of seconds are far below 2^53")]
pub(super) fn hit_ratio(first: &Counts, now: &Counts) -> Option<f64> {
    let look_ups = now.look_ups.saturating_sub(first.look_ups);
    let hits = now.hits.saturating_sub(first.hits);
    (look_ups > 0).then(|| rounded(ratio(hits, look_ups as f64), 4))
}

pub(super) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

/// The response to `?after=NUMBER`.
pub(super) fn answer(samples: &Samples, query: &str) -> Result<Response, Problem> {
    Ok(not_stored(samples.after(asked_after(query)?)))
}

/// The number in `?after=NUMBER`, or 0.
pub(super) fn asked_after(query: &str) -> Result<u64, Problem> {
    let after = form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == "after")
        .map(|(_, value)| value.parse::<u64>())
        .transpose()
        .map_err(|_| Problem::invalid_field("after", "the number of a sample"))?;
    Ok(after.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Counts at a second after `start`, with new responses of a millisecond.
    fn counts(start: Instant, second: u32, latencies: &Latencies, answers: u32) -> Counts {
        (0..answers).for_each(|_| latencies.observe(Duration::from_millis(1)));
        Counts {
            at: start + INTERVAL * second,
            answers: latencies.read(),
            look_ups: u64::from(second) * 4,
            hits: u64::from(second) * 3,
        }
    }

    #[test]
    fn a_rate_is_that_of_a_second_and_a_percentile_that_of_the_window() {
        let (start, latencies, samples) =
            (Instant::now(), Latencies::default(), Samples::default());
        let mut past = VecDeque::from([counts(start, 0, &latencies, 5)]);
        past.push_back(counts(start, 1, &latencies, 20));
        samples.add(&past);
        past.push_back(counts(start, 3, &latencies, 0));
        samples.add(&past);
        past.push_back(counts(start, 5, &latencies, 30));
        samples.add(&past);
        let figures = samples.after(0);
        let rates: Vec<f64> = figures.samples.iter().map(|s| s.requests_per_second).collect();
        assert_eq!(rates, [20.0, 0.0, 15.0]);
        assert_eq!(figures.requests, 55);
        assert_eq!(figures.samples[2].cache_hit_ratio, Some(0.75));
        let p99 = figures.samples[1].p99_milliseconds.unwrap();
        assert!((p99 - 1.0).abs() < 0.125, "{p99}");
        assert_eq!(samples.after(2).samples.len(), 1);
        assert_eq!(samples.after(3).samples.len(), 0);
        assert_eq!(samples.after(4).samples.len(), 3, "of a server that has started anew");
    }

    #[test]
    fn a_minute_is_kept_and_a_silence_has_no_percentile() {
        let (start, latencies, samples) =
            (Instant::now(), Latencies::default(), Samples::default());
        let mut past = VecDeque::from([counts(start, 0, &latencies, 0)]);
        for second in 1..100 {
            past.push_back(counts(start, second, &latencies, 0));
            samples.add(&past);
        }
        let figures = samples.after(0);
        assert_eq!(figures.samples.len(), KEPT);
        assert_eq!(figures.samples[0].number, 40);
        assert_eq!(figures.samples[0].p50_milliseconds, None);
    }
}
