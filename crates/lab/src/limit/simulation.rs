//! Whole searches against simulated servers of known capacity, in simulated time.

use std::collections::VecDeque;

use serde_json::json;

use super::blocks::{RoundSpec, SearchEnd, SearchRun};
use super::goal::Goal;
use super::plan::{LimitOptions, LimitPlan, tests};
use super::progress::Console;
use super::summary::{self, Capacity};
use crate::journal::record::{Measured, Outcome, RoundRecord};

/// Serves one request after another, in the order in which they come.
#[derive(Clone, Copy)]
enum Server {
    /// D/D/1: arrivals by the clock and a constant service time; no request waits below the capacity.
    Fixed { per_second: f64 },
    /// M/M/1: Poisson arrivals and exponential service times. In the steady state response times are exponential
    /// with the rate μ − λ, so their 95th percentile is ln 20 / (μ − λ).
    Random { per_second: f64 },
}

impl Server {
    fn capacity(self, p95_seconds: f64) -> f64 {
        match self {
            Self::Fixed { per_second } => per_second,
            Self::Random { per_second } => per_second - 20.0_f64.ln() / p95_seconds,
        }
    }

    /// A try of `seconds`, from an empty server.
    fn round(self, rate: f64, seconds: f64, vus: usize, rng: &mut fastrand::Rng) -> Measured {
        let mut exponential = |mean: f64| -mean * (1.0 - rng.f64()).ln();
        let (mut arrives, mut free) = (0.0, 0.0_f64);
        let mut in_flight: VecDeque<f64> = VecDeque::new();
        let mut steps: Vec<Vec<f64>> = Vec::new();
        let mut times = Vec::new();
        let mut dropped = 0;
        while arrives < seconds {
            while in_flight.front().is_some_and(|ends| *ends <= arrives) {
                in_flight.pop_front();
            }
            if in_flight.len() < vus {
                let serves = match self {
                    Self::Fixed { per_second } => 1.0 / per_second,
                    Self::Random { per_second } => exponential(1.0 / per_second),
                };
                free = free.max(arrives) + serves;
                in_flight.push_back(free);
                let step = free as usize;
                steps.resize_with(steps.len().max(step + 1), Vec::new);
                steps[step].push((free - arrives) * 1000.0);
                times.push((free - arrives) * 1000.0);
            } else {
                dropped += 1;
            }
            arrives += match self {
                Self::Fixed { .. } => 1.0 / rate,
                Self::Random { .. } => exponential(1.0 / rate),
            };
        }
        let percentile = |times: &mut Vec<f64>, share: f64| {
            times.sort_by(f64::total_cmp);
            let rank = (times.len() as f64 * share).ceil() as usize;
            times.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        let series: Vec<_> = steps
            .iter_mut()
            .map(|step| json!({"requests": step.len(), "good": step.len(), "p95_ms": percentile(step, 0.95)}))
            .collect();
        let average = times.iter().sum::<f64>() / times.len() as f64;
        let trend = json!({
            "count": times.len(), "avg": average, "min": 0.0, "max": 0.0, "stddev": 0.0, "p50": 0.0, "p90": 0.0,
            "p95": percentile(&mut times, 0.95), "p99": percentile(&mut times, 0.99),
        });
        let lasts = free.max(seconds);
        serde_json::from_value(json!({
            "load": {
                "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": lasts, "duration_seconds": lasts,
                "arrivals_seconds": seconds, "requests": {"total": times.len(), "good": times.len()},
                "iterations": {"complete": times.len(), "dropped": dropped},
                "trends": {"http_req_duration": trend, "iteration_duration": trend},
                "series": {"step_seconds": 1, "peak_good_per_second": 0.0, "steps": series},
            },
            "server": null, "machine": null, "cpus": null, "warnings": [],
        }))
        .unwrap()
    }
}

fn plan(p95_seconds: f64, seed: u64) -> LimitPlan {
    let goal = Goal { p95_ms: Some(p95_seconds * 1000.0), ..tests::options().goal };
    let goal = Goal { errors: 0.01, max_dropped: 0.01, ..goal };
    let options = LimitOptions { goal, blocks: 5, seed: Some(seed), ..tests::options() };
    tests::plan(options)
}

fn search(server: Server, p95_seconds: f64, seed: u64) -> Capacity {
    let plan = plan(p95_seconds, seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut runner = |order: &RoundSpec| {
        let rate = f64::from(order.arrivals.unwrap().rate);
        let lasts = order.settings.duration.unwrap().as_secs_f64();
        let vus = order.settings.vus.unwrap() as usize;
        Some(RoundRecord {
            block: order.place.block,
            attempt: order.place.attempt,
            position: 1,
            variant: "server".to_owned(),
            beside: None,
            started: String::new(),
            took_seconds: lasts,
            counted: false,
            refused: Vec::new(),
            outcome: Outcome::Measured(Box::new(server.round(rate, lasts, vus, &mut rng))),
        })
    };
    let outcomes = SearchRun::new(&plan, Some(&mut runner), Vec::new()).run(&mut Console::silent());
    assert_eq!(outcomes.ended, SearchEnd::Complete);
    summary::summarise(&plan, &outcomes)[0].capacity.clone()
}

/// 19 of 20 searches find the true capacity within -7 % and +1 %.
#[track_caller]
fn assert_near(server: Server, p95_seconds: f64) {
    let truth = server.capacity(p95_seconds);
    let found = (0..20).map(|seed| match search(server, p95_seconds, seed) {
        Capacity::Exactly { rate, .. } => f64::from(rate) / truth,
        other => panic!("{other:?}"),
    });
    let found: Vec<f64> = found.collect();
    let near = found.iter().filter(|share| (0.93..=1.01).contains(*share));
    assert!(near.count() >= 19, "{found:.3?}");
}

#[test]
fn the_capacity_of_a_server_with_a_fixed_service_time_is_found() {
    assert_near(Server::Fixed { per_second: 200.0 }, 0.1);
    // Short tries find 1.19 times the true capacity: the queue needs longer to reach the goal.
    assert_near(Server::Fixed { per_second: 100.0 }, 1.0);
}

#[test]
fn the_capacity_of_a_server_with_random_times_is_found() {
    assert_near(Server::Random { per_second: 100.0 }, 0.2);
    assert_near(Server::Random { per_second: 500.0 }, 0.1);
}
