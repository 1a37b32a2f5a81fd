//! Figures of a variant as in reports of other load-testing tools.

use serde::Serialize;

use super::counted;
use crate::file::experiment::Variant;
use crate::journal::record::{Measured, RoundRecord};
use crate::judge::metric::{Absent, Metric};

/// Figures of a variant over its counted rounds. Means are arithmetic for comparison with other tools; ratios come from
/// the rows with intervals instead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    pub rounds: usize,
    pub requests: u64,
    /// Mean of the rounds.
    pub good_per_second: f64,
    /// Best second of any round; `None` if the generator does not report it.
    pub peak_good_per_second: Option<f64>,
    /// `None` if a round has no response times.
    pub response_ms: Option<Times>,
    /// Received; units of 1,000 bytes.
    pub kilobytes_per_second: f64,
    /// Share of requests without an expected response.
    pub failed_share: f64,
    pub not_good_share: f64,
    /// Mean of the rounds.
    pub cpu_us_per_good_request: Option<f64>,
    /// Peak of all rounds; shared memory counts once.
    pub peak_memory_bytes: Option<u64>,
    /// Peak of all rounds.
    pub peak_rss_bytes: Option<u64>,
    /// Cost at the file's `price_per_hour` and this goodput; `None` without a price or a good request. The machine may
    /// have a higher capacity.
    pub cost_per_million_good: Option<f64>,
}

/// Response times in milliseconds: means of the rounds, but extremes of all rounds, and the root of the mean variance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    pub avg: f64,
    pub min: f64,
    pub max: f64,
    pub stddev: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
}

/// `None` without a counted round.
pub(crate) fn figures(rounds: &[RoundRecord], variant: &Variant) -> Option<Figures> {
    let alone: Vec<&Measured> = counted(rounds, &variant.name).map(|(_, round)| round).collect();
    let rounds = match alone.is_empty() {
        true => super::all(rounds, &variant.name).map(|(_, round)| round).collect(),
        false => alone,
    };
    if rounds.is_empty() {
        return None;
    }
    let sum = |get: fn(&Measured) -> u64| rounds.iter().map(|round| get(round)).sum::<u64>();
    let requests = sum(|round| round.load.requests.total);
    let share = |part: u64| if requests == 0 { 0.0 } else { part as f64 / requests as f64 };
    let good = sum(|round| round.load.requests.good);
    let peak = |round: &&Measured| Some(round.load.series.as_ref()?.peak_good_per_second);
    let cpu = rounds.iter().map(|round| Metric::CpuPerGoodRequest.level(round));
    let cpu: Result<Vec<f64>, Absent> = cpu.collect();
    let memory = |round: &&Measured| Some(round.server.as_ref()?.memory());
    let rss = |round: &&Measured| Some(round.server.as_ref()?.peak_rss_bytes);
    let good_per_second = mean(rounds.iter().map(|round| {
        let load = &round.load;
        load.requests.good as f64 / load.duration_seconds
    }));
    let cost = |price: f64| cost_per_million(price, good_per_second);
    Some(Figures {
        rounds: rounds.len(),
        requests,
        good_per_second,
        cost_per_million_good: variant.price_per_hour.and_then(cost),
        peak_good_per_second: rounds.iter().filter_map(peak).reduce(f64::max),
        response_ms: times(&rounds),
        kilobytes_per_second: mean(rounds.iter().map(|round| {
            let load = &round.load;
            load.bytes.received as f64 / 1000.0 / load.duration_seconds
        })),
        failed_share: share(sum(|round| round.load.requests.failed)),
        not_good_share: share(requests.saturating_sub(good)),
        cpu_us_per_good_request: cpu.ok().map(|all| mean(all.into_iter())),
        peak_memory_bytes: rounds.iter().filter_map(memory).max(),
        peak_rss_bytes: rounds.iter().filter_map(rss).max(),
    })
}

fn cost_per_million(price_per_hour: f64, good_per_second: f64) -> Option<f64> {
    (good_per_second > 0.0).then(|| price_per_hour / 3600.0 / good_per_second * 1e6)
}

fn times(rounds: &[&Measured]) -> Option<Times> {
    let trends = rounds.iter().map(|round| round.load.http_req_duration());
    let trends = trends.collect::<Option<Vec<_>>>()?;
    let of = |get: fn(&crate::load::report::Trend) -> f64| mean(trends.iter().map(|one| get(one)));
    Some(Times {
        avg: of(|one| one.avg),
        min: trends.iter().map(|one| one.min).fold(f64::INFINITY, f64::min),
        max: trends.iter().map(|one| one.max).fold(0.0, f64::max),
        stddev: of(|one| one.stddev * one.stddev).sqrt(),
        p50: of(|one| one.p50),
        p90: of(|one| one.p90),
        p95: of(|one| one.p95),
        p99: of(|one| one.p99),
    })
}

/// Zero without values.
pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len().max(1) as f64;
    values.sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.36 an hour is 0.0001 a second; at 50 a second, a million takes 20,000 seconds: 2.
    #[test]
    fn a_million_requests_cost_the_time_they_take() {
        let cost = cost_per_million(0.36, 50.0).unwrap();
        assert!((cost - 2.0).abs() < 1e-12, "{cost}");
        assert_eq!(cost_per_million(0.36, 0.0), None);
    }
}
