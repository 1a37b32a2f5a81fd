//! The goal, and the judgement of a try against it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::judge::stats;
use crate::load::report::LoadReport;

/// An iteration that takes this many times as long as at a rate that met the goal is slowed by the server.
const SLOWED: f64 = 2.0;
/// A queue grows if response times increase by this much per unit of time: the server is slower than the rate by this
/// share.
const GROWTH: f64 = 0.005;
/// Minimum share of the variance of response times explained by a straight line.
const STRAIGHT: f64 = 0.5;
/// Minimum number of steps for a line.
const FEWEST_STEPS: usize = 10;

/// A service level objective, of which all parts have to be met.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Maximum 95th percentile of response times, in milliseconds.
    pub p95_ms: Option<f64>,
    /// Maximum 99th percentile, in milliseconds.
    pub p99_ms: Option<f64>,
    /// Maximum share of requests that failed or had a failed check.
    pub errors: f64,
    /// Maximum share of iterations that could not start, or did not end in time.
    pub max_dropped: f64,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, limit) in [("p95", self.p95_ms), ("p99", self.p99_ms)] {
            if let Some(limit) = limit {
                write!(f, "{name} ≤ {} ms, ", number(limit))?;
            }
        }
        let (errors, dropped) = (percent(self.errors), percent(self.max_dropped));
        write!(f, "errors ≤ {errors}, dropped ≤ {dropped}")
    }
}

/// Figures of one try.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// 95th percentile of response times from the intended start of the iteration, in milliseconds;
    /// the worst of several scenarios. `None` without a request.
    pub p95_ms: Option<f64>,
    /// 99th percentile, likewise.
    pub p99_ms: Option<f64>,
    /// Share of requests that were not good; 1 without any.
    pub errors: f64,
    /// Share of iterations that could not start, or did not end in time.
    pub dropped: f64,
    /// Iterations that were started or dropped, per second.
    pub arrivals_per_second: f64,
    /// Good requests per second.
    pub goodput: f64,
    /// Mean duration of an iteration, in milliseconds.
    pub iteration_ms: Option<f64>,
    /// Linear growth of the 95th percentile of response times, in seconds per second: the server falls behind by this
    /// share. `None` without such growth, or if the try is too short to show it.
    pub queue_growth: Option<f64>,
    /// Whether the generator reports itself as the bottleneck.
    pub generator_limited: bool,
}

impl Figures {
    /// Figures of a load report. `window` is the requested duration, unless the report has that of the script.
    pub fn from_report(load: &LoadReport, window: Duration) -> Self {
        let trends = load.response_times();
        let iterations = load.iterations;
        let arrivals = iterations.complete + iterations.interrupted + iterations.dropped;
        let undone = iterations.interrupted + iterations.dropped;
        let seconds = load.arrivals_seconds.filter(|seconds| *seconds > 0.0);
        Self {
            p95_ms: trends.iter().map(|trend| trend.p95).max_by(f64::total_cmp),
            p99_ms: trends.iter().map(|trend| trend.p99).max_by(f64::total_cmp),
            errors: load.good_share().map_or(1.0, |good| 1.0 - good),
            dropped: if arrivals == 0 { 0.0 } else { undone as f64 / arrivals as f64 },
            arrivals_per_second: arrivals as f64 / seconds.unwrap_or(window.as_secs_f64()),
            goodput: load.requests.good as f64 / load.duration_seconds,
            iteration_ms: load.trends.get("iteration_duration").map(|trend| trend.avg),
            queue_growth: queue_growth(load),
            generator_limited: load.generator.limited,
        }
    }
}

/// See [`Figures::queue_growth`].
fn queue_growth(load: &LoadReport) -> Option<f64> {
    let (step_seconds, whole) = load.whole_steps()?;
    let steps =
        load.series.as_ref()?.steps.get(..whole).filter(|steps| steps.len() >= FEWEST_STEPS)?;
    let seconds: Vec<f64> = steps.iter().map(|step| step.p95_ms / 1000.0).collect();
    let line = stats::Line::through(&seconds)?;
    let growth = line.slope / step_seconds;
    (growth >= GROWTH && line.fit >= STRAIGHT).then_some(growth)
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Breach {
    Errors {
        share: f64,
    },
    /// `None` without a request.
    P95 {
        ms: Option<f64>,
    },
    /// `None` without a request.
    P99 {
        ms: Option<f64>,
    },
    /// Response times grew continuously, in seconds per second: no steady state at this rate.
    QueueGrew {
        growth: f64,
    },
    /// Iterations could not start because all virtual users were busy.
    Dropped {
        share: f64,
    },
    /// The server ended under load.
    Died {
        message: String,
    },
    /// An invariant was violated.
    Invariant {
        name: String,
    },
}

/// [`Breach::word`] of a dead server, a clause of its own.
pub(crate) const DIED: &str = "the server died";

impl Breach {
    /// Key for counting.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Errors { .. } => "errors",
            Self::P95 { .. } => "p95",
            Self::P99 { .. } => "p99",
            Self::QueueGrew { .. } => "a growing queue",
            Self::Dropped { .. } => "dropped iterations",
            Self::Died { .. } => DIED,
            Self::Invariant { .. } => "an invariant",
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = |ms: &Option<f64>| {
            ms.map_or_else(|| "of no request".to_owned(), |ms| format!("{} ms", number(ms)))
        };
        match self {
            Self::Errors { share } => write!(f, "errors {}", percent(*share)),
            Self::P95 { ms } => write!(f, "p95 {}", latency(ms)),
            Self::P99 { ms } => write!(f, "p99 {}", latency(ms)),
            Self::QueueGrew { growth } => {
                write!(
                    f,
                    "the queue grew: response times by {} ms each second",
                    number(growth * 1000.0)
                )
            }
            Self::Dropped { share } => write!(f, "dropped {}", percent(*share)),
            Self::Died { message } => f.write_str(message),
            Self::Invariant { name } => write!(f, "broken invariant: {name}"),
        }
    }
}

/// The part that reached its limit first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    Server,
    /// The load generator could not keep up, so nothing is known of the server.
    Generator,
    /// Virtual users ran out although the server responded in time.
    VirtualUsers,
}

/// Reason for missing the goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    #[serde(rename = "whose")]
    pub bottleneck: Bottleneck,
    /// Most important first.
    pub breaches: Vec<Breach>,
}

impl Reason {
    pub fn is_servers(&self) -> bool {
        self.bottleneck == Bottleneck::Server
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let breaches: Vec<String> = self.breaches.iter().map(ToString::to_string).collect();
        f.write_str(&breaches.join(", "))?;
        match self.bottleneck {
            Bottleneck::Server => Ok(()),
            Bottleneck::Generator => f.write_str(" (the load generator was the limit)"),
            Bottleneck::VirtualUsers => f.write_str(" (there were too few virtual users)"),
        }
    }
}

impl Goal {
    /// Reason for missing the goal, if it was missed. `unhurried_ms` is the duration of an iteration at a
    /// rate that met the goal.
    ///
    /// A generator at its limit measures itself, not the server. If only virtual users ran out, the server
    /// is the bottleneck only if it made iterations much longer than at that rate; otherwise there were
    /// too few users for the script.
    pub fn missed(&self, figures: &Figures, unhurried_ms: Option<f64>) -> Option<Reason> {
        let over = |limit: Option<f64>, value: Option<f64>| {
            limit.is_some_and(|limit| value.is_none_or(|value| value > limit))
        };
        let mut breaches = Vec::new();
        if figures.errors > self.errors {
            breaches.push(Breach::Errors { share: figures.errors });
        }
        if over(self.p95_ms, figures.p95_ms) {
            breaches.push(Breach::P95 { ms: figures.p95_ms });
        }
        if over(self.p99_ms, figures.p99_ms) {
            breaches.push(Breach::P99 { ms: figures.p99_ms });
        }
        if let Some(growth) = figures.queue_growth {
            breaches.push(Breach::QueueGrew { growth });
        }
        let answered_in_time = breaches.is_empty();
        if figures.dropped > self.max_dropped {
            breaches.push(Breach::Dropped { share: figures.dropped });
        }
        if breaches.is_empty() {
            return None;
        }
        let slowed = unhurried_ms
            .zip(figures.iteration_ms)
            .is_some_and(|(unhurried, now)| now > unhurried * SLOWED);
        let bottleneck = match (figures.generator_limited, answered_in_time && !slowed) {
            (true, _) => Bottleneck::Generator,
            (_, true) => Bottleneck::VirtualUsers,
            _ => Bottleneck::Server,
        };
        Some(Reason { bottleneck, breaches })
    }
}

/// `12.3`, `234`: three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `0.1 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Goal = Goal { p95_ms: Some(200.0), p99_ms: None, errors: 0.001, max_dropped: 0.01 };
    const FINE: Figures = Figures {
        p95_ms: Some(20.0),
        p99_ms: Some(50.0),
        errors: 0.0,
        dropped: 0.0,
        arrivals_per_second: 100.0,
        goodput: 100.0,
        iteration_ms: Some(15.0),
        queue_growth: None,
        generator_limited: false,
    };

    fn missed(figures: Figures) -> Option<(Bottleneck, Vec<&'static str>)> {
        let reason = GOAL.missed(&figures, Some(10.0))?;
        Some((reason.bottleneck, reason.breaches.iter().map(Breach::word).collect()))
    }

    #[test]
    fn what_reaches_all_of_the_goal_holds_and_limits_belong_to_it() {
        assert_eq!(missed(FINE), None);
        let on_the_edge = Figures { p95_ms: Some(200.0), errors: 0.001, dropped: 0.01, ..FINE };
        assert_eq!(missed(on_the_edge), None);
        // A generator near its limit has shown nothing wrong.
        assert_eq!(missed(Figures { generator_limited: true, ..FINE }), None);
    }

    #[test]
    fn every_part_of_the_goal_can_be_missed_by_the_server() {
        let server = |words: &[&'static str]| Some((Bottleneck::Server, words.to_vec()));
        assert_eq!(missed(Figures { p95_ms: Some(201.0), ..FINE }), server(&["p95"]));
        assert_eq!(missed(Figures { p95_ms: None, ..FINE }), server(&["p95"]));
        assert_eq!(missed(Figures { errors: 0.002, ..FINE }), server(&["errors"]));
        let growing = Figures { queue_growth: Some(0.01), ..FINE };
        assert_eq!(missed(growing), server(&["a growing queue"]));
        let all = Figures { p95_ms: Some(900.0), errors: 0.5, dropped: 0.5, ..FINE };
        assert_eq!(missed(all), server(&["errors", "p95", "dropped iterations"]));
    }

    #[test]
    fn a_generator_at_its_limit_is_never_taken_for_the_server() {
        let limited = Figures { p95_ms: Some(900.0), generator_limited: true, ..FINE };
        assert_eq!(missed(limited), Some((Bottleneck::Generator, vec!["p95"])));
    }

    #[test]
    fn virtual_users_that_run_out_blame_the_server_only_when_it_held_them_up() {
        let dropped = Figures { dropped: 0.2, ..FINE };
        assert_eq!(missed(dropped), Some((Bottleneck::VirtualUsers, vec!["dropped iterations"])));
        let stalled = Figures { iteration_ms: Some(21.0), ..dropped };
        assert_eq!(missed(stalled), Some((Bottleneck::Server, vec!["dropped iterations"])));
        // Undecidable without a comparison.
        let unknown = GOAL.missed(&stalled, None).map(|reason| reason.bottleneck);
        assert_eq!(unknown, Some(Bottleneck::VirtualUsers));
    }

    #[test]
    fn a_goal_reads_as_it_was_asked() {
        assert_eq!(GOAL.to_string(), "p95 ≤ 200 ms, errors ≤ 0.10 %, dropped ≤ 1 %");
    }

    #[test]
    fn response_times_count_from_the_intended_start_where_there_is_one() {
        let trend = |p95: f64| {
            serde_json::json!({"count": 4, "avg": 1.0, "min": 0.5, "max": 9.0, "stddev": 2.0,
                               "p50": 0.9, "p90": 5.0, "p95": p95, "p99": 80.0})
        };
        let mut report = serde_json::json!({
            "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": 2.0,
            "duration_seconds": 2.0, "requests": {"total": 10, "good": 9, "failed": 1},
            "iterations": {"complete": 6, "interrupted": 1, "dropped": 3},
            "trends": {"http_req_duration": trend(6.0), "iteration_duration": trend(7.0)},
        });
        let read = |report: &serde_json::Value| {
            let load: LoadReport = serde_json::from_value(report.clone()).unwrap();
            Figures::from_report(&load, Duration::from_secs(1))
        };
        let figures = read(&report);
        assert_eq!((figures.p95_ms, figures.dropped, figures.goodput), (Some(6.0), 0.4, 4.5));
        assert!((figures.errors - 0.1).abs() < 1e-12);
        assert_eq!(figures.arrivals_per_second, 10.0);
        // Two seconds in place of one.
        report["arrivals_seconds"] = 2.0.into();
        assert_eq!(read(&report).arrivals_per_second, 5.0);
        let open =
            |p95: f64| serde_json::json!({"open_model": {"http_req_response_ms": trend(p95)}});
        report["scenarios"] = serde_json::json!({"a": open(30.0), "b": open(40.0), "c": {}});
        assert_eq!(read(&report).p95_ms, Some(40.0));
    }
}
