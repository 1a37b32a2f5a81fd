//! The goal a rate has to reach, and what one try says about it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::judge::stats;
use crate::load::report::LoadReport;

/// An iteration that takes this much longer than at a rate that held is held up by the server.
const SLOWED: f64 = 2.0;
/// A queue grows when response times get longer by this much in each unit of time: the server is slower than the rate
/// by that share.
const GROWTH: f64 = 0.005;
/// A straight line has to explain this share of the variance of response times over time.
const STRAIGHT: f64 = 0.5;
/// A line through fewer steps than this is chance.
const FEWEST_STEPS: usize = 10;

/// A service level objective: all of it has to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Longest 95th percentile of response times, in milliseconds.
    pub p95_ms: Option<f64>,
    /// Longest 99th percentile, in milliseconds.
    pub p99_ms: Option<f64>,
    /// Largest share of requests that are not good: that failed, or one of whose checks failed.
    pub errors: f64,
    /// Largest share of iterations that could not start, or did not end in time.
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

/// What one try showed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// 95th percentile of the response times, counted from when the iteration should have started,
    /// in milliseconds; of several scenarios, the worst. `None` without a request.
    pub p95_ms: Option<f64>,
    /// The 99th percentile, likewise.
    pub p99_ms: Option<f64>,
    /// Share of requests that were not good; 1 without any.
    pub errors: f64,
    /// Share of iterations that could not start, or did not end in time.
    pub dropped: f64,
    /// Iterations that were started or dropped, per second.
    pub arrivals_per_second: f64,
    /// Good requests per second.
    pub goodput: f64,
    /// How long an iteration took on average, in milliseconds.
    pub iteration_ms: Option<f64>,
    /// By how many seconds the 95th percentile of response times grew in each second, if it grew in a line: the
    /// server falls behind by that share. `None` where it did not, and of tries too short to show it.
    pub queue_growth: Option<f64>,
    /// Whether the generator says that it was the limit.
    pub generator_limited: bool,
}

impl Figures {
    /// Reads a report of a load that was asked for over `window`. What its script says of its own
    /// length comes first.
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
    /// Requests failed.
    Errors { share: f64 },
    /// The 95th percentile was too long.
    P95 {
        /// In milliseconds; `None` without a request.
        ms: Option<f64>,
    },
    /// The 99th percentile was too long.
    P99 {
        /// In milliseconds; `None` without a request.
        ms: Option<f64>,
    },
    /// Response times grew all the time: no steady state at this rate.
    QueueGrew {
        /// By so many seconds in each second.
        growth: f64,
    },
    /// Iterations could not start because all virtual users were waiting.
    Dropped { share: f64 },
    /// The server ended under load.
    Died { message: String },
    /// Something that must hold did not.
    Invariant { name: String },
}

/// The word for [`Breach::Died`], a sentence of its own.
pub(crate) const DIED: &str = "the server died";

impl Breach {
    /// One word, to count by.
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

/// Whose limit it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    Server,
    /// The generator's: it could not keep up, so nothing is known of the server.
    Generator,
    /// That of the number of virtual users: they ran out although the server answered in time.
    VirtualUsers,
}

/// Why a try missed the goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    pub whose: Whose,
    /// What was missed, first what matters most.
    pub breaches: Vec<Breach>,
}

impl Reason {
    pub fn is_servers(&self) -> bool {
        self.whose == Whose::Server
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let breaches: Vec<String> = self.breaches.iter().map(ToString::to_string).collect();
        f.write_str(&breaches.join(", "))?;
        match self.whose {
            Whose::Server => Ok(()),
            Whose::Generator => f.write_str(" (the load generator was the limit)"),
            Whose::VirtualUsers => f.write_str(" (there were too few virtual users)"),
        }
    }
}

impl Goal {
    /// Why the goal was missed, if it was. `unhurried_ms` is how long an iteration took at a rate
    /// that held.
    ///
    /// A generator that was the limit measures itself, so what it missed is not the server's. When
    /// virtual users ran out while all else was reached, the server is to blame only if it made
    /// iterations much longer than they are at rest; otherwise there were too few for this script,
    /// and more of them would tell.
    pub fn missed(&self, seen: &Figures, unhurried_ms: Option<f64>) -> Option<Reason> {
        let over = |limit: Option<f64>, value: Option<f64>| {
            limit.is_some_and(|limit| value.is_none_or(|value| value > limit))
        };
        let mut breaches = Vec::new();
        if seen.errors > self.errors {
            breaches.push(Breach::Errors { share: seen.errors });
        }
        if over(self.p95_ms, seen.p95_ms) {
            breaches.push(Breach::P95 { ms: seen.p95_ms });
        }
        if over(self.p99_ms, seen.p99_ms) {
            breaches.push(Breach::P99 { ms: seen.p99_ms });
        }
        if let Some(growth) = seen.queue_growth {
            breaches.push(Breach::QueueGrew { growth });
        }
        let answered_in_time = breaches.is_empty();
        if seen.dropped > self.max_dropped {
            breaches.push(Breach::Dropped { share: seen.dropped });
        }
        if breaches.is_empty() {
            return None;
        }
        let slowed = unhurried_ms
            .zip(seen.iteration_ms)
            .is_some_and(|(unhurried, now)| now > unhurried * SLOWED);
        let whose = match (seen.generator_limited, answered_in_time && !slowed) {
            (true, _) => Whose::Generator,
            (_, true) => Whose::VirtualUsers,
            _ => Whose::Server,
        };
        Some(Reason { whose, breaches })
    }
}

/// `12.3`, `234`: three digits, no more than are known.
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

    fn missed(seen: Figures) -> Option<(Whose, Vec<&'static str>)> {
        let reason = GOAL.missed(&seen, Some(10.0))?;
        Some((reason.whose, reason.breaches.iter().map(Breach::word).collect()))
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
        let server = |words: &[&'static str]| Some((Whose::Server, words.to_vec()));
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
        assert_eq!(missed(limited), Some((Whose::Generator, vec!["p95"])));
    }

    #[test]
    fn virtual_users_that_run_out_blame_the_server_only_when_it_held_them_up() {
        let dropped = Figures { dropped: 0.2, ..FINE };
        assert_eq!(missed(dropped), Some((Whose::VirtualUsers, vec!["dropped iterations"])));
        let stalled = Figures { iteration_ms: Some(21.0), ..dropped };
        assert_eq!(missed(stalled), Some((Whose::Server, vec!["dropped iterations"])));
        // Nothing to compare with: it cannot be told.
        let unknown = GOAL.missed(&stalled, None).map(|reason| reason.whose);
        assert_eq!(unknown, Some(Whose::VirtualUsers));
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
        let figures = |report: &serde_json::Value| {
            let load: LoadReport = serde_json::from_value(report.clone()).unwrap();
            Figures::from_report(&load, Duration::from_secs(1))
        };
        let seen = figures(&report);
        assert_eq!((seen.p95_ms, seen.dropped, seen.goodput), (Some(6.0), 0.4, 4.5));
        assert!((seen.errors - 0.1).abs() < 1e-12);
        assert_eq!(seen.arrivals_per_second, 10.0);
        // Two seconds in place of one.
        report["arrivals_seconds"] = 2.0.into();
        assert_eq!(figures(&report).arrivals_per_second, 5.0);
        let open =
            |p95: f64| serde_json::json!({"open_model": {"http_req_response_ms": trend(p95)}});
        report["scenarios"] = serde_json::json!({"a": open(30.0), "b": open(40.0), "c": {}});
        assert_eq!(figures(&report).p95_ms, Some(40.0));
    }
}
