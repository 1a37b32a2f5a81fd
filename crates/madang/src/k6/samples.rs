//! Sums of k6's samples and messages.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use madang_lab::load_report::{
    Bytes, Check, Generator, Iterations, LoadReport, Requests, Sampled, Series, Step, Sum, Trend,
    Trouble,
};

/// Share of its CPUs above which k6 is the bottleneck.
const BUSY: f64 = 0.9;
/// Maximum number of distinct messages.
const MESSAGES: usize = 20;
/// Group of samples from `setup()` and `teardown()`.
const AROUND: [&str; 2] = ["::setup", "::teardown"];
/// Metrics whose samples are requests, with the highest status of success: HTTP, gRPC (0 is OK), browser.
const REQUESTS: [(&str, u32); 3] =
    [("http_req_duration", 399), ("grpc_req_duration", 0), ("browser_http_req_duration", 399)];

/// A line of k6's JSON output.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Line<'l> {
    Metric {
        #[serde(borrow)]
        data: Metric<'l>,
    },
    Point {
        #[serde(borrow)]
        metric: &'l str,
        #[serde(borrow)]
        data: Point<'l>,
    },
}

#[derive(Deserialize)]
struct Metric<'l> {
    name: &'l str,
    #[serde(rename = "type")]
    kind: MetricKind,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum MetricKind {
    Counter,
    Gauge,
    Rate,
    Trend,
}

#[derive(Deserialize)]
struct Point<'l> {
    time: &'l str,
    value: f64,
    #[serde(default)]
    tags: Option<BTreeMap<String, String>>,
}

/// Sums over the measured window, and over all.
#[derive(Default)]
pub(crate) struct Collector {
    warm_up: f64,
    /// Length of the window in seconds; `None`: up to the last sample.
    window: Option<f64>,
    start: Option<f64>,
    last: f64,
    kinds: BTreeMap<String, MetricKind>,
    requests: Requests,
    statuses: BTreeMap<String, u64>,
    failures: BTreeMap<String, u64>,
    trends: BTreeMap<String, Vec<f64>>,
    sampled: BTreeMap<String, Sampled>,
    overall: BTreeMap<String, Sum>,
    checks: BTreeMap<(String, String), (u64, u64)>,
    steps: Vec<(u64, u64, Vec<f64>)>,
}

impl Collector {
    pub(crate) fn new(warm_up: Duration, window: Option<Duration>) -> Self {
        let window = window.map(|window| window.as_secs_f64());
        Self { warm_up: warm_up.as_secs_f64(), window, ..Self::default() }
    }

    /// Start of the measured window, in seconds since 1970; `None` before the first iteration has a sample.
    pub(crate) fn window_start(&self) -> Option<f64> {
        self.start.map(|start| start + self.warm_up)
    }

    /// Adds one line. Lines that are not samples, such as those of `console.log`, are ignored.
    pub(crate) fn line(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Line::Metric { data }) => {
                self.kinds.insert(data.name.to_owned(), data.kind);
            }
            Ok(Line::Point { metric, data }) => self.point(metric, &data),
            Err(_) => {}
        }
    }

    fn point(&mut self, metric: &str, point: &Point<'_>) {
        let time = OffsetDateTime::parse(point.time, &Rfc3339);
        let (Some(kind), Ok(time)) = (self.kinds.get(metric).copied(), time) else { return };
        self.add_overall(metric, kind, point.value);
        let time = time.unix_timestamp_nanos() as f64 / 1e9;
        let none = BTreeMap::new();
        let tags = point.tags.as_ref().unwrap_or(&none);
        let tag = |name: &str| tags.get(name).map_or("", String::as_str);
        if tag("scenario").is_empty() || AROUND.contains(&tag("group")) {
            return;
        }
        if self.start.is_none() {
            // A sample's time is the end of what it measures.
            let before = if metric.ends_with("_duration") { point.value / 1e3 } else { 0.0 };
            self.start = Some(time - before);
        }
        let Some(start) = self.window_start() else { return };
        if time < start || self.window.is_some_and(|window| time > start + window) {
            return;
        }
        self.last = self.last.max(time);
        match kind {
            MetricKind::Trend => self.add_to_trend(metric, point.value, tag("scenario")),
            _ => self.add_sampled(metric, kind, point.value),
        }
        if metric == "checks" {
            let key = (tag("group").to_owned(), tag("check").to_owned());
            let (passes, fails) = self.checks.entry(key).or_default();
            *(if point.value > 0.0 { passes } else { fails }) += 1;
        }
        if let Some((_, most)) = REQUESTS.iter().find(|(name, _)| *name == metric) {
            let status = tag("status");
            let fails = match tag("expected_response") {
                "true" => false,
                "false" => true,
                _ => status.parse().is_ok_and(|status: u32| status > *most),
            };
            self.add_request(status, !fails, point.value, time - start);
            if fails && !tag("error").is_empty() {
                count(&mut self.failures, tag("error"));
            }
        }
    }

    fn add_request(&mut self, status: &str, is_good: bool, duration: f64, at: f64) {
        self.requests.total += 1;
        self.requests.good += u64::from(is_good);
        self.requests.failed += u64::from(!is_good);
        *self.statuses.entry(status.to_owned()).or_default() += 1;
        let step = at.max(0.0) as usize;
        if self.steps.len() <= step {
            self.steps.resize_with(step + 1, Default::default);
        }
        let (requests, good, durations) = &mut self.steps[step];
        *requests += 1;
        *good += u64::from(is_good);
        durations.push(duration);
    }

    fn add_to_trend(&mut self, metric: &str, value: f64, scenario: &str) {
        self.trends.entry(metric.to_owned()).or_default().push(value);
        if metric == "http_req_duration" {
            let name = format!("{metric}{{scenario:{scenario}}}");
            self.trends.entry(name).or_default().push(value);
        }
    }

    fn add_sampled(&mut self, metric: &str, kind: MetricKind, value: f64) {
        let first = match kind {
            MetricKind::Gauge => Sampled::Gauge { value, min: value, max: value },
            MetricKind::Rate => Sampled::Rate { rate: 0.0, passes: 0, fails: 0 },
            MetricKind::Counter | MetricKind::Trend => Sampled::Counter { count: 0.0 },
        };
        match self.sampled.entry(metric.to_owned()).or_insert(first) {
            Sampled::Counter { count } => *count += value,
            Sampled::Gauge { value: last, min, max } => {
                (*last, *min, *max) = (value, min.min(value), max.max(value));
            }
            Sampled::Rate { rate, passes, fails } => {
                *(if value > 0.0 { &mut *passes } else { &mut *fails }) += 1;
                *rate = *passes as f64 / (*passes + *fails) as f64;
            }
        }
    }

    fn add_overall(&mut self, metric: &str, kind: MetricKind, value: f64) {
        let first = match kind {
            MetricKind::Gauge => return,
            MetricKind::Counter => Sum::Counter { count: 0.0 },
            MetricKind::Rate => Sum::Rate { passes: 0, fails: 0 },
            MetricKind::Trend => Sum::Trend { count: 0 },
        };
        match self.overall.entry(metric.to_owned()).or_insert(first) {
            Sum::Counter { count } => *count += value,
            Sum::Rate { passes, fails } => *(if value > 0.0 { passes } else { fails }) += 1,
            Sum::Trend { count } => *count += 1,
        }
    }

    fn counted(&self, metric: &str) -> u64 {
        match self.sampled.get(metric) {
            Some(Sampled::Counter { count }) => *count as u64,
            _ => 0,
        }
    }

    /// The report; `None` without an iteration. `used` returns the CPU seconds between two times, and the number of
    /// CPUs.
    pub(crate) fn report(
        mut self,
        exceptions: &BTreeMap<String, u64>,
        used: impl FnOnce(f64, f64) -> (f64, u32),
    ) -> Option<LoadReport> {
        let start = self.window_start()?;
        let end = self.window.map_or(self.last, |window| start + window);
        let duration = (end - start).max(0.0);
        let (cpu_seconds, cores) = used(start, end);
        let share = cpu_seconds / (duration * f64::from(cores));
        let limited = share > BUSY;
        let reason = limited.then(|| format!("k6 used {:.0} % of its CPUs", 100.0 * share));
        let trends = std::mem::take(&mut self.trends);
        let trends = trends.into_iter().map(|(name, values)| (name, trend(values)));
        let whole = if self.window.is_some() {
            duration as usize
        } else {
            self.steps.len().saturating_sub(1)
        };
        let peak = self.steps.iter().take(whole).map(|(_, good, _)| *good).max().unwrap_or(0);
        let steps = std::mem::take(&mut self.steps).into_iter();
        let steps = steps.map(|(requests, good, durations)| Step {
            requests,
            good,
            p95_ms: trend(durations).p95,
        });
        let series =
            Series { step_seconds: 1, peak_good_per_second: peak as f64, steps: steps.collect() };
        let complete = self.counted("iterations");
        Some(LoadReport {
            version: 1,
            started_at_seconds: start,
            ended_at_seconds: end,
            duration_seconds: duration,
            arrivals_seconds: None,
            aborted: false,
            requests: self.requests,
            bytes: Bytes {
                sent: self.counted("data_sent"),
                received: self.counted("data_received"),
            },
            iterations: Iterations {
                complete,
                interrupted: 0,
                dropped: self.counted("dropped_iterations"),
                threw: exceptions.values().sum::<u64>().min(complete),
            },
            status_codes: self.statuses,
            trends: trends.collect(),
            metrics: self.sampled,
            overall: self.overall,
            checks: self
                .checks
                .into_iter()
                .map(|((group, name), (passes, fails))| Check { group, name, passes, fails })
                .collect(),
            failures: most_frequent(&self.failures),
            exceptions: most_frequent(exceptions),
            scenarios: BTreeMap::new(),
            names: BTreeMap::new(),
            groups: BTreeMap::new(),
            series: Some(series),
            generator: Generator {
                cpu_seconds,
                cores,
                lag_p99_ms: 0.0,
                limited,
                starved: false,
                reason,
            },
        })
    }
}

/// A line of k6's log.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    level: String,
    #[serde(default)]
    msg: String,
    /// `stacktrace` of an exception.
    #[serde(default)]
    source: String,
    #[serde(default)]
    scenario: String,
}

/// Reads messages until k6 has ended; counts exceptions of iterations and prints the others.
pub(crate) fn read_messages(lines: impl BufRead) -> BTreeMap<String, u64> {
    let mut exceptions = BTreeMap::new();
    for line in lines.lines().map_while(Result::ok) {
        match serde_json::from_str::<Message>(&line) {
            Ok(Message { msg, source, scenario, .. })
                if source == "stacktrace" && !scenario.is_empty() =>
            {
                count(&mut exceptions, &one_line(&msg));
            }
            Ok(Message { level, msg, .. }) => eprintln!("{level}: {}", msg.trim_end()),
            Err(_) => eprintln!("{line}"),
        }
    }
    exceptions
}

/// `Error: text (file:///script.js:12:23)` of an exception and its stack.
fn one_line(message: &str) -> String {
    let mut lines = message.lines().map(str::trim);
    let what = lines.next().unwrap_or_default();
    let place = lines.next().and_then(|line| {
        let at = line.split_once("file://")?.1;
        Some(at.split_once('(').map_or(at, |(place, _)| place).trim_end_matches(')').to_owned())
    });
    place.map_or_else(|| what.to_owned(), |place| format!("{what} ({place})"))
}

/// Counts a message; under "(other)" once there are many distinct ones.
fn count(counts: &mut BTreeMap<String, u64>, message: &str) {
    let is_room = counts.len() < MESSAGES || counts.contains_key(message);
    *counts.entry(if is_room { message } else { "(other)" }.to_owned()).or_default() += 1;
}

fn most_frequent(counts: &BTreeMap<String, u64>) -> Vec<Trouble> {
    let all =
        counts.iter().map(|(message, count)| Trouble { message: message.clone(), count: *count });
    let mut all: Vec<Trouble> = all.collect();
    all.sort_by_key(|trouble| std::cmp::Reverse(trouble.count));
    all
}

/// Figures of a distribution. Quantiles are interpolated between the two nearest values, as k6 does.
fn trend(mut values: Vec<f64>) -> Trend {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let mean = values.iter().sum::<f64>() / count.max(1) as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let quantile = |share: f64| {
        let at = share * count.saturating_sub(1) as f64;
        let low = values.get(at as usize).copied().unwrap_or(0.0);
        let high = values.get(at as usize + 1).copied().unwrap_or(low);
        low + (high - low) * at.fract()
    };
    Trend {
        count: count as u64,
        avg: mean,
        min: values.first().copied().unwrap_or(0.0),
        max: values.last().copied().unwrap_or(0.0),
        stddev: (squares / count.max(1) as f64).sqrt(),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p95: quantile(0.95),
        p99: quantile(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as k6 1.8.1 prints them, with shorter tags.
    fn collected(window: Option<Duration>) -> Option<LoadReport> {
        let metric = |name: &str, kind: &str| {
            format!(
                r#"{{"type":"Metric","data":{{"name":"{name}","type":"{kind}","contains":"default"}},"metric":"{name}"}}"#
            )
        };
        let point = |name: &str, second: &str, value: f64, tags: &str| {
            format!(
                r#"{{"metric":"{name}","type":"Point","data":{{"time":"2026-11-24T17:07:{second}Z","value":{value},"tags":{{{tags}}}}}}}"#
            )
        };
        let scenario = r#""scenario":"default","group":"""#;
        let good = format!(r#"{scenario},"status":"200","expected_response":"true""#);
        let bad = format!(
            r#"{scenario},"status":"0","expected_response":"false","error":"dial: refused""#
        );
        let mut collector = Collector::new(Duration::from_secs(1), window);
        for line in [
            metric("http_req_duration", "trend"),
            metric("checks", "rate"),
            metric("iterations", "counter"),
            metric("vus", "gauge"),
            point("http_req_duration", "09.5", 20.0, r#""group":"::setup","status":"200""#),
            // The window begins a second after this request did.
            point("http_req_duration", "10.5", 500.0, &good),
            point("http_req_duration", "11.25", 10.0, &good),
            point("checks", "11.25", 0.0, &format!(r#"{scenario},"check":"is right""#)),
            point("iterations", "11.25", 1.0, scenario),
            "printed by console.log".to_owned(),
            point("vus", "11.3", 3.0, ""),
            point("http_req_duration", "12.75", 30.0, &bad),
            point("iterations", "12.75", 1.0, scenario),
            point("http_req_duration", "13.5", 50.0, &good),
            metric("no", "such kind"),
        ] {
            collector.line(&line);
        }
        let log = "{\"level\":\"error\",\"msg\":\"Error: bad\\n\\tat default (file:///s.js:12:23(42))\\n\",\
                   \"scenario\":\"default\",\"source\":\"stacktrace\"}\n";
        let exceptions = read_messages(log.as_bytes());
        collector.report(&exceptions, |from, to| (0.95 * (to - from), 1))
    }

    #[test]
    fn samples_of_the_window_become_a_report() {
        let report = collected(Some(Duration::from_secs(2))).unwrap();
        assert!((report.ended_at_seconds - report.started_at_seconds - 2.0).abs() < 1e-6);
        assert_eq!(report.requests, Requests { total: 2, good: 1, failed: 1, unanswered: 0 });
        let durations = report.http_req_duration().unwrap();
        assert_eq!([durations.min, durations.p50, durations.max], [10.0, 20.0, 30.0]);
        assert_eq!((durations.count, durations.stddev), (2, 10.0));
        assert_eq!((report.iterations.complete, report.iterations.threw), (2, 1));
        assert_eq!((report.checks[0].passes, report.checks[0].fails), (0, 1));
        assert_eq!(report.failures[0].message, "dial: refused");
        assert_eq!(report.exceptions[0].message, "Error: bad (/s.js:12:23)");
        let steps = report.series.unwrap().steps;
        assert_eq!([steps[0].good, steps[1].requests, steps[1].good], [1, 1, 0]);
        assert!(report.generator.limited);
        // Requests of setup() and of the warm-up count for invariants.
        assert_eq!(report.overall["http_req_duration"], Sum::Trend { count: 5 });
    }

    #[test]
    fn without_a_duration_the_last_sample_ends_the_window() {
        let report = collected(None).unwrap();
        assert_eq!(report.requests.total, 3);
        assert!((report.duration_seconds - 2.5).abs() < 1e-6, "{}", report.duration_seconds);
        assert!(Collector::default().report(&BTreeMap::new(), |_, _| (0.0, 1)).is_none());
    }
}
