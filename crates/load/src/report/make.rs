//! Builds the report from the measurements.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    Bytes, Check, Checks, Generator, Iterations, LifecycleReport, Metric, NameReport, OpenModel,
    REPORT_VERSION, Report, Requests, ScenarioReport, SeriesReport, Step, ThresholdReport, Trend,
    Trouble, overall,
};
use crate::engine::{Finished, Plan};
use crate::generator;
use crate::metrics::{
    Builtin, CheckCount, GroupMeasured, Histogram, Measured, Registry, RequestKey, RequestStats,
    ScenarioStats, Series, Sink, Troubles,
};
use crate::options::Scenario;
use crate::run::Run;
use crate::summary::ThresholdResult;

const MOST_TROUBLES: usize = 10;

pub(crate) fn report(
    run: &Run,
    plan: &Plan<'_>,
    finished: &Finished,
    registry: &Registry,
    thresholds: &[(&str, &ThresholdResult)],
) -> Report {
    let all_scenarios = &run.settings().scenarios;
    let measured = &finished.measured;
    let counter = |metric: Builtin| match measured.sinks.get(metric as usize) {
        Some(Sink::Counter { sum, .. }) => *sum as u64,
        _ => 0,
    };
    let (trends, metrics) = trends_and_metrics(registry, measured);
    Report {
        version: REPORT_VERSION,
        script: plan.config.script.display().to_string(),
        started_at_seconds: seconds_since_epoch(finished.started_at),
        ended_at_seconds: seconds_since_epoch(finished.ended_at),
        duration_seconds: finished.duration.as_secs_f64(),
        warm_up_seconds: plan.config.warm_up.as_secs_f64(),
        arrivals_seconds: arrivals(all_scenarios).map(|span| span.as_secs_f64()),
        aborted: finished.aborted || finished.stopped.is_some(),
        vus_max: finished.max_vus,
        requests: Requests {
            unanswered: measured.waits.unanswered(),
            ..name_report(&measured.requests(|_| true)).requests
        },
        bytes: Bytes { sent: counter(Builtin::DataSent), received: counter(Builtin::DataReceived) },
        status_codes: measured.statuses.iter().map(|(code, n)| (code.to_string(), *n)).collect(),
        iterations: Iterations {
            complete: run.live.complete.load(Ordering::Relaxed),
            interrupted: run.live.interrupted.load(Ordering::Relaxed),
            dropped: counter(Builtin::DroppedIterations),
            threw: measured.threw,
        },
        trends,
        names: grouped(measured, |key| Some(&key.name)),
        groups: grouped(measured, |key| Some(&key.group)),
        scenarios: scenarios(measured, all_scenarios),
        thresholds: thresholds.iter().map(threshold).collect(),
        setup: lifecycle(&finished.lifecycle.setup, finished.lifecycle.setup_took),
        teardown: lifecycle(&finished.lifecycle.teardown, finished.lifecycle.teardown_took),
        metrics,
        overall: overall::sums(finished, registry),
        checks: checks(&measured.groups),
        failures: troubles(&measured.failures),
        exceptions: troubles(&measured.exceptions),
        generator: generator_report(finished, plan.event_loops),
        series: series(&measured.series, finished.duration),
    }
}

/// Time from the first to the last possible start by the clock.
fn arrivals(scenarios: &[Scenario]) -> Option<Duration> {
    let open = scenarios.iter().filter(|scenario| scenario.executor.open().is_some());
    let begin = open.clone().map(|scenario| scenario.start_time).min()?;
    let end = open.map(|scenario| scenario.start_time + scenario.executor.duration()).max()?;
    Some(end - begin)
}

fn seconds_since_epoch(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn trend(histogram: &Histogram) -> Trend {
    Trend {
        count: histogram.count(),
        avg: histogram.mean(),
        min: histogram.min(),
        med: histogram.quantile(0.5),
        max: histogram.max(),
        stddev: histogram.standard_deviation(),
        p50: histogram.quantile(0.5),
        p90: histogram.quantile(0.9),
        p95: histogram.quantile(0.95),
        p99: histogram.quantile(0.99),
        p999: histogram.quantile(0.999),
    }
}

fn trends_and_metrics(
    registry: &Registry,
    measured: &Measured,
) -> (BTreeMap<String, Trend>, BTreeMap<String, Metric>) {
    let (mut trends, mut metrics) = (BTreeMap::new(), BTreeMap::new());
    for ((id, metric), sink) in registry.iter().zip(&measured.sinks) {
        if sink.is_empty() {
            continue;
        }
        let name = metric.name.clone();
        let value = match sink {
            Sink::Trend(histogram) => {
                trends.insert(name, trend(histogram));
                continue;
            }
            // Built-in metrics have fields of their own.
            _ if Builtin::is_builtin(id) => continue,
            Sink::Counter { sum, .. } => Metric::Counter { count: *sum },
            Sink::Gauge { value, min, max, .. } => {
                Metric::Gauge { value: *value, min: *min, max: *max }
            }
            Sink::Rate { trues, total } => Metric::Rate {
                rate: *trues as f64 / (*total).max(1) as f64,
                passes: *trues,
                fails: total - trues,
            },
        };
        metrics.insert(name, value);
    }
    (trends, metrics)
}

/// Requests by a part of their key; `None` leaves them out.
fn grouped<'m>(
    measured: &'m Measured,
    part: impl Fn(&'m RequestKey) -> Option<&'m String>,
) -> BTreeMap<String, NameReport> {
    let mut joined: BTreeMap<&String, RequestStats> = BTreeMap::new();
    for (key, stats) in &measured.names {
        if let Some(part) = part(key) {
            joined.entry(part).or_default().merge(stats);
        }
    }
    joined.into_iter().map(|(name, stats)| (name.clone(), name_report(&stats))).collect()
}

fn name_report(stats: &RequestStats) -> NameReport {
    let RequestStats { requests: total, good, failed, .. } = *stats;
    let requests = Requests { total, good, failed, unanswered: 0 };
    NameReport { requests, http_req_duration: trend(&stats.duration) }
}

fn scenarios(measured: &Measured, scenarios: &[Scenario]) -> BTreeMap<String, ScenarioReport> {
    let nothing = ScenarioStats::default();
    let report = |(index, scenario): (usize, &Scenario)| {
        let stats = measured.scenarios.get(index).unwrap_or(&nothing);
        let all = measured.requests(|key| key.scenario == index);
        let NameReport { requests, http_req_duration } = name_report(&all);
        let report = ScenarioReport {
            executor: scenario.executor.name().to_owned(),
            requests,
            http_req_duration,
            names: grouped(measured, |key| (key.scenario == index).then_some(&key.name)),
            iterations: Iterations {
                complete: stats.complete,
                interrupted: stats.interrupted,
                dropped: stats.dropped,
                threw: 0,
            },
            iteration_duration: trend(&stats.iteration_duration),
            checks: Checks { passes: stats.checks.passes, fails: stats.checks.fails },
            open_model: scenario.executor.open().map(|_| OpenModel {
                start_lag_ms: trend(&stats.start_lag),
                http_req_response_ms: trend(&all.response),
                iteration_response_ms: trend(&stats.iteration_response),
            }),
        };
        (scenario.name.clone(), report)
    };
    scenarios.iter().enumerate().map(report).collect()
}

fn troubles(troubles: &Troubles) -> Vec<Trouble> {
    let most = troubles.most(MOST_TROUBLES).into_iter();
    most.map(|(message, count)| Trouble { message, count }).collect()
}

fn threshold((metric, result): &(&str, &ThresholdResult)) -> ThresholdReport {
    ThresholdReport {
        metric: (*metric).to_owned(),
        threshold: result.source.clone(),
        value: result.value,
        ok: result.ok,
    }
}

/// `None` when the function was not called.
fn lifecycle(measured: &Measured, took: Duration) -> Option<LifecycleReport> {
    let NameReport { requests, http_req_duration } = name_report(&measured.requests(|_| true));
    let duration_seconds = took.as_secs_f64();
    (!took.is_zero()).then_some(LifecycleReport { duration_seconds, requests, http_req_duration })
}

fn checks(groups: &[GroupMeasured]) -> Vec<Check> {
    let check = |group: &GroupMeasured, (name, count): &(String, CheckCount)| Check {
        group: group.path.clone(),
        name: name.clone(),
        passes: count.passes,
        fails: count.fails,
    };
    groups.iter().flat_map(|group| group.checks.iter().map(|entry| check(group, entry))).collect()
}

fn generator_report(finished: &Finished, event_loops: usize) -> Generator {
    let lag = &finished.health.lag;
    let start_lag = Some(&finished.health.start_lag).filter(|lag| lag.count() > 0);
    let cpu_seconds = finished.cpu.as_secs_f64();
    let limit = generator::exhausted(finished.measured.exhausted);
    let limit = limit.or_else(|| {
        generator::verdict(&finished.health, cpu_seconds, finished.duration.as_secs_f64())
    });
    Generator {
        cpu_seconds,
        cores: generator::available_cores(),
        event_loops,
        busiest_loop: finished.health.busiest,
        wanting_loop: finished.health.wanting,
        lag_p50_ms: lag.quantile(0.5),
        lag_p99_ms: lag.quantile(0.99),
        lag_max_ms: lag.max(),
        start_lag_p99_ms: start_lag.map(|lag| lag.quantile(0.99)),
        start_lag_max_ms: start_lag.map(Histogram::max),
        limited: limit.is_some(),
        starved: limit.as_ref().is_some_and(|limit| limit.starved),
        reason: limit.map(|limit| limit.reason),
    }
}

fn series(series: &Series, duration: Duration) -> SeriesReport {
    let length = f64::from(series.step_seconds);
    let whole = (duration.as_secs_f64() / length).floor() as usize;
    let steps: Vec<Step> = series
        .steps
        .iter()
        .map(|step| Step {
            requests: step.requests,
            good: step.good,
            p95_ms: step.durations.quantile(0.95),
        })
        .collect();
    let peak = steps.iter().take(whole).map(|step| step.good).max().unwrap_or(0);
    SeriesReport {
        step_seconds: series.step_seconds,
        peak_good_per_second: peak as f64 / length,
        steps,
    }
}
