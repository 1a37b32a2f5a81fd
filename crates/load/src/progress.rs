//! What a person sees before and during a run.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::engine::Observer;
use crate::options::Options;
use crate::options::duration::format_duration;
use crate::run::Run;

/// Without a terminal a line is written this often.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// The lines before a run, as k6 has them.
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

/// Shows the progress line on standard output.
pub(crate) struct Progress {
    run: Arc<Run>,
    max_vus: u32,
    length: Duration,
    terminal: bool,
    quiet: bool,
    next_line: Duration,
    elapsed: Duration,
}

impl Progress {
    pub(crate) fn new(run: Arc<Run>, options: &Options, warm_up: Duration, quiet: bool) -> Self {
        Self {
            run,
            max_vus: options.max_vus(),
            length: options.latest_end() + warm_up,
            terminal: std::io::stdout().is_terminal(),
            quiet,
            next_line: LINE_INTERVAL,
            elapsed: Duration::ZERO,
        }
    }

    /// The last line, when everything is over.
    pub(crate) fn finish(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
        if !self.quiet {
            self.show(&format!("\n{}\n", self.line(0)));
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

    fn show(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        // Whoever closed the pipe does not want to see more.
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

impl Observer for Progress {
    fn initialising(&mut self, ready: u64, of: u32) {
        if self.terminal && !self.quiet {
            self.show(&format!("\rInit      [{ready}/{of}] VUs initialized\x1b[K"));
        }
    }

    fn running(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
        if self.quiet {
            return;
        }
        let active = self.run.live.active.load(Ordering::Relaxed);
        if self.terminal {
            self.show(&format!("\r{}\x1b[K", self.line(active)));
        } else if elapsed >= self.next_line {
            self.next_line += LINE_INTERVAL;
            self.show(&format!("{}\n", self.line(active)));
        }
    }
}

/// A duration with as many digits as `longest` needs: `03.1s`, `0m03.1s`, `1h02m03.1s`.
fn fixed_length(duration: Duration, longest: Duration) -> String {
    // Cut to tenths: rounding could show a 60th second.
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
    fn the_time_keeps_its_width_during_a_run() {
        let at =
            |ms, longest| fixed_length(Duration::from_millis(ms), Duration::from_secs(longest));
        assert_eq!(at(1_049, 32), "01.0s");
        assert_eq!(at(3_100, 90), "0m03.1s");
        assert_eq!(at(69_390, 90), "1m09.3s");
        assert_eq!(at(3_723_000, 4000), "1h02m03.0s");
    }
}
