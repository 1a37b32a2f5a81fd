//! The header and progress display of a run.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::metrics::{Contains, MetricKind, RequestStats};
use crate::options::Options;
use crate::options::duration::format_duration;
use crate::output::show;
use crate::run::Run;
use crate::summary::humanize;

/// Interval of request rates on a terminal, and of lines without one.
const INTERVAL: Duration = Duration::from_secs(1);

/// Width of the bar in characters.
const BAR: usize = 50;

/// Clears the line and everything below it.
pub(crate) const CLEAR: &str = "\r\x1b[J";

/// The header of k6 before a run.
pub(crate) fn header(script: &str, output: &str, options: &Options) -> String {
    let count = options.scenarios.len();
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!(
        "\n     execution: local\n        script: {script}\n        output: {output}\n\n     \
         scenarios: (100.00%) {count} scenario{plural}, {} max VUs, {} max duration (incl. graceful stop):\n",
        options.max_vus(),
        format_duration(options.latest_end()),
    );
    for scenario in &options.scenarios {
        text.push_str(&format!("              * {}\n", scenario.describe()));
    }
    text.push('\n');
    text
}

/// Shows the progress on standard output.
pub(crate) struct Progress {
    run: Arc<Run>,
    max_vus: u32,
    length: Duration,
    /// Time until no more iterations start.
    planned: Duration,
    /// Planned iterations, when only their number ends the run.
    iterations: Option<u64>,
    terminal: bool,
    quiet: bool,
    next_line: Duration,
    elapsed: Duration,
    /// Requests so far, and failed ones.
    totals: (u64, u64),
    /// Requests of the last whole second, and its end.
    last: (RequestStats, Duration),
}

impl Progress {
    pub(crate) fn new(run: &Arc<Run>, warm_up: Duration, quiet: bool) -> Self {
        let options = run.settings();
        let terminal = std::io::stdout().is_terminal();
        let scenarios = options.scenarios.iter();
        let iterations = scenarios.clone().map(|scenario| scenario.executor.iterations());
        let planned = scenarios.map(|scenario| scenario.start_time + scenario.executor.duration());
        run.live.is_watched.store(terminal && !quiet, Ordering::Relaxed);
        Self {
            run: run.clone(),
            max_vus: options.max_vus(),
            length: options.latest_end() + warm_up,
            planned: planned.max().unwrap_or_default() + warm_up,
            iterations: iterations.sum(),
            terminal,
            quiet,
            next_line: INTERVAL,
            elapsed: Duration::ZERO,
            totals: (0, 0),
            last: Default::default(),
        }
    }

    /// Shows the last line.
    pub(crate) fn finish(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
        if !self.quiet {
            let clear = if self.terminal { CLEAR } else { "" };
            show(&format!("{clear}\n{}\n", self.line(0)));
        }
    }

    fn line(&self, active: u64) -> String {
        let live = &self.run.live;
        let width = self.max_vus.to_string().len();
        format!(
            "running ({}), {active:0width$}/{} VUs, {} complete and {} interrupted iterations",
            fixed_length(self.elapsed, self.length),
            self.max_vus,
            live.complete.load(Ordering::Relaxed),
            live.interrupted.load(Ordering::Relaxed),
        )
    }

    /// Completed share of the run.
    fn share(&self) -> f64 {
        match self.iterations {
            Some(iterations) => {
                self.run.live.complete.load(Ordering::Relaxed) as f64 / iterations.max(1) as f64
            }
            None => self.elapsed.as_secs_f64() / self.planned.as_secs_f64().max(1e-3),
        }
    }

    /// Takes the requests of a second that is over.
    fn take_recent(&mut self) {
        let since = self.elapsed.saturating_sub(self.last.1);
        if since < INTERVAL {
            return;
        }
        let mut recent = std::mem::take(&mut *self.run.live.recent.lock());
        self.totals.0 += recent.requests;
        self.totals.1 += recent.failed;
        recent.requests = (recent.requests as f64 / since.as_secs_f64()).round() as u64;
        self.last = (recent, self.elapsed);
    }

    pub(crate) fn initialising(&self, ready: u64, of: u32) {
        if self.terminal && !self.quiet {
            show(&format!("\rInit      [{ready}/{of}] VUs initialized\x1b[K"));
        }
    }

    /// Shows the state `elapsed` after the start, warm-up included.
    pub(crate) fn running(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
        if self.quiet {
            return;
        }
        let active = self.run.live.active.load(Ordering::Relaxed);
        if self.terminal {
            self.take_recent();
            let view = view(&self.line(active), self.share(), self.totals, &self.last.0);
            // Back to the first line, where messages and the next view begin.
            show(&format!("{CLEAR}{view}\x1b[{}A\r", view.matches('\n').count()));
        } else if elapsed >= self.next_line {
            self.next_line += INTERVAL;
            show(&format!("{}\n", self.line(active)));
        }
    }
}

/// The display on a terminal. `recent.requests` is a rate per second.
fn view(line: &str, share: f64, (requests, failed): (u64, u64), recent: &RequestStats) -> String {
    let done = (share.clamp(0.0, 1.0) * BAR as f64) as usize;
    let bar = format!("{}{}", "=".repeat(done), " ".repeat(BAR - done));
    let percent = 100.0 * failed as f64 / requests.max(1) as f64;
    let times = match recent.duration.count() {
        0 => "no answer in the last second".to_owned(),
        _ => {
            let time = |value| humanize(value, MetricKind::Trend, Contains::Time, None);
            let at = |q: f64| time(recent.duration.quantile(q));
            let max = time(recent.duration.max());
            format!("p50={} p95={} max={max} in the last second", at(0.5), at(0.95))
        }
    };
    format!(
        "{line}\n[{bar}] {:3.0}%\nrequests: {requests}, {}/s, {failed} failed ({percent:.2}%)\ntimes: {times}\n",
        share.clamp(0.0, 1.0) * 100.0,
        recent.requests,
    )
}

/// A duration in the width of `longest`: `03.1s`, `0m03.1s`, `1h02m03.1s`.
fn fixed_length(duration: Duration, longest: Duration) -> String {
    // Truncated to tenths: rounding could show 60 seconds.
    let tenths = duration.as_millis() / 100;
    let (minutes, seconds) = (tenths / 600, tenths % 600);
    let seconds = format!("{:02}.{}s", seconds / 10, seconds % 10);
    if longest < Duration::from_secs(60) && minutes == 0 {
        return seconds;
    }
    if longest < Duration::from_secs(3600) && minutes < 60 {
        return format!("{minutes}m{seconds}");
    }
    format!("{}h{:02}m{seconds}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_how_far_a_run_is_and_what_it_measures() {
        let mut recent = RequestStats { requests: 1034, ..RequestStats::default() };
        let shown = view("running", 0.5, (12345, 12), &recent);
        let lines: Vec<_> = shown.lines().collect();
        let bar = format!("[{}{}]  50%", "=".repeat(25), " ".repeat(25));
        assert_eq!(
            lines,
            [
                "running",
                &bar,
                "requests: 12345, 1034/s, 12 failed (0.10%)",
                "times: no answer in the last second"
            ]
        );
        recent.duration.record(4.0);
        let shown = view("running", 2.0, (0, 0), &recent);
        assert!(shown.contains("] 100%") && shown.contains("p50=4ms p95=4ms max=4ms"), "{shown}");
    }

    #[test]
    fn the_time_keeps_its_width_during_a_run() {
        let at =
            |ms, longest| fixed_length(Duration::from_millis(ms), Duration::from_secs(longest));
        assert_eq!(at(1_049, 32), "01.0s");
        assert_eq!(at(3_100, 90), "0m03.1s");
        assert_eq!(at(69_390, 90), "1m09.3s");
        assert_eq!(at(3_723_000, 4000), "1h02m03.0s");
    }
}
