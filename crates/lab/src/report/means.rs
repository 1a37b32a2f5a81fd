//! Means over rounds, for plots and tables.

use std::collections::BTreeMap;

use crate::journal::record::Measured;
use crate::judge::stats;
use crate::load::report::{LoadReport, Subset};
use crate::report::figures::mean;
use crate::report::{Report, counted};

/// Mean and its interval: geometric, or arithmetic if a value is not positive.
pub(crate) fn typical(values: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    if values.iter().all(|value| *value > 0.0) {
        let pairs: Vec<(f64, f64)> = values.iter().map(|value| (1.0, *value)).collect();
        return stats::estimate(&pairs).map(|one| (one.ratio, one.interval));
    }
    stats::level(values).map(|level| (level.value, level.interval))
}

pub(crate) fn rounds<'r>(report: &'r Report, variant: &'r str) -> Vec<&'r Measured> {
    counted(&report.rounds, variant).map(|(_, round)| round).collect()
}

/// A subset of a variant's requests over its rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summed {
    pub requests: u64,
    pub failed: u64,
    pub good_per_second: f64,
    /// Milliseconds; mean of the rounds with such requests.
    pub avg: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Subsets of the requests of a load, by name.
pub(crate) type Subsets = fn(&LoadReport) -> Vec<(&String, &Subset)>;

/// Sums each subset over the rounds.
pub(crate) fn summed(rounds: &[&Measured], subsets: Subsets) -> BTreeMap<String, Summed> {
    let mut by_name: BTreeMap<&String, Vec<(&Subset, f64)>> = BTreeMap::new();
    for round in rounds {
        for (name, part) in subsets(&round.load) {
            by_name.entry(name).or_default().push((part, round.load.duration_seconds));
        }
    }
    let all = rounds.len().max(1) as f64;
    let sum = |(name, parts): (&String, Vec<(&Subset, f64)>)| {
        let of = |get: fn(&Subset) -> f64| mean(parts.iter().map(|(part, _)| get(part)));
        let good: f64 =
            parts.iter().map(|(part, seconds)| part.requests.good as f64 / seconds).sum();
        let summed = Summed {
            requests: parts.iter().map(|(part, _)| part.requests.total).sum(),
            failed: parts.iter().map(|(part, _)| part.requests.failed).sum(),
            // Rounds without such requests count as zero.
            good_per_second: good / all,
            avg: of(|part| part.http_req_duration.avg),
            p95: of(|part| part.http_req_duration.p95),
            p99: of(|part| part.http_req_duration.p99),
        };
        (name.clone(), summed)
    };
    by_name.into_iter().map(sum).collect()
}

/// Means over rounds at each time that at least half of them have.
pub(crate) fn over_time(
    rounds: &[&Measured],
    step: f64,
    get: &dyn Fn(&Measured) -> Vec<f64>,
) -> Vec<(f64, f64)> {
    let series: Vec<Vec<f64>> = rounds.iter().map(|round| get(round)).collect();
    let longest = series.iter().map(Vec::len).max().unwrap_or(0);
    let at = |place: usize| {
        let values: Vec<f64> = series.iter().filter_map(|one| one.get(place).copied()).collect();
        let is_common = values.len() * 2 >= series.len() && !values.is_empty();
        is_common.then(|| (place as f64 * step, mean(values.into_iter())))
    };
    (0..longest).filter_map(at).collect()
}
