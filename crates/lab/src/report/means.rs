//! What plots and tables need of many rounds: means by name and by moment.

use std::collections::BTreeMap;

use crate::journal::record::Measured;
use crate::load::report::{LoadReport, Subset};
use crate::report::figures::mean;
use crate::report::{Report, counted};

pub(crate) fn rounds<'r>(report: &'r Report, variant: &'r str) -> Vec<&'r Measured> {
    counted(&report.rounds, variant).map(|(_, round)| round).collect()
}

/// Some requests of a variant over its rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summed {
    pub requests: u64,
    pub failed: u64,
    /// Mean of the rounds.
    pub good_per_second: f64,
    /// Milliseconds, means of the rounds in which there were any.
    pub avg: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Requests of each name in a kind of part, over the rounds.
pub(crate) fn summed<'r, F, P>(rounds: &[&'r Measured], parts: F) -> BTreeMap<String, Summed>
where
    F: Fn(&'r LoadReport) -> P,
    P: Iterator<Item = (&'r String, &'r Subset)>,
{
    let mut by_name: BTreeMap<&String, Vec<(&Subset, f64)>> = BTreeMap::new();
    for round in rounds {
        for (name, part) in parts(&round.load) {
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
            // In a round without it, there was none.
            good_per_second: good / all,
            avg: of(|part| part.http_req_duration.avg),
            p95: of(|part| part.http_req_duration.p95),
            p99: of(|part| part.http_req_duration.p99),
        };
        (name.clone(), summed)
    };
    by_name.into_iter().map(sum).collect()
}

/// The mean over rounds at each moment that at least half of them have: the last moments of one
/// long round are no mean.
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
