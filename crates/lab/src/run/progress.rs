//! Tells a person how far a run is: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::journal::record::{Outcome, RoundRecord};
use crate::judge::metric::{Metric, Statistic};
use crate::plan::Plan;
use crate::{time, words};

/// Follows a run. Every method has an empty default.
pub trait Progress {
    fn begin(&mut self, _plan: &Plan) {}
    /// That many rounds are there already, of a run that goes on.
    fn resumed(&mut self, _rounds: usize) {}
    fn building(&mut self) {}
    fn preparing(&mut self) {}
    /// A round begins: its block, from 1, and its variant.
    fn round(&mut self, _block: u32, _variant: &str) {}
    /// A round ended, well or not.
    fn ended(&mut self, _record: &RoundRecord) {}
    /// Nothing is measured for so long, because others keep the machine busy.
    fn waiting(&mut self, _pause: Duration) {}
    /// A block is run again because a round of it broke.
    fn again(&mut self, _block: u32, _attempt: u32) {}
    fn finish(&mut self) {}
}

#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {}

#[derive(Debug)]
pub struct Console {
    /// `None` where stderr is no terminal.
    bar: Option<ProgressBar>,
    begun: Instant,
    rounds: u32,
    done: u32,
    /// Those of `done` that were there before this run went on.
    earlier: u32,
    block: u32,
    /// Rounds done when the current run of the block began.
    before_attempt: u32,
}

impl Default for Console {
    /// A bar if stderr is a terminal, lines otherwise.
    fn default() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} rounds  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let (begun, rounds, done, earlier) = (Instant::now(), 0, 0, 0);
        Self { bar, begun, rounds, done, earlier, block: 0, before_attempt: 0 }
    }
}

impl Console {
    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // Nobody reads a closed stderr.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// From the rounds so far.
    fn left(&self) -> Option<Duration> {
        let left = self.rounds.saturating_sub(self.done);
        let own = self.done - self.earlier;
        (own > 0).then(|| self.begun.elapsed() / own * left)
    }
}

impl Progress for Console {
    fn begin(&mut self, plan: &Plan) {
        self.begun = Instant::now();
        self.rounds = plan.rounds();
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(self.rounds));
        }
        let time = match plan.estimate() {
            Some(estimate) => format!("about {}", time::rough(estimate)),
            None => "for as long as the script runs each time".to_owned(),
        };
        self.say(&format!(
            "{} rounds: {} of {}, {time} (seed {})",
            self.rounds,
            words::some(plan.settings.blocks as usize, "block"),
            words::some(plan.variants.len(), "variant"),
            plan.seed
        ));
    }

    fn resumed(&mut self, rounds: usize) {
        self.earlier = u32::try_from(rounds).unwrap_or(u32::MAX);
        self.done = self.earlier;
        self.before_attempt = self.done;
        self.rounds = self.rounds.max(self.done);
        self.say(&format!("going on after {rounds} rounds"));
    }

    fn building(&mut self) {
        self.say("building and fetching images");
    }

    fn preparing(&mut self) {
        self.say("preparing the data");
    }

    fn round(&mut self, block: u32, variant: &str) {
        if block != self.block {
            self.block = block;
            self.before_attempt = self.done;
        }
        if let Some(bar) = &self.bar {
            let left = self
                .left()
                .map_or_else(String::new, |left| format!(", about {} left", time::rough(left)));
            bar.set_message(format!("block {block}: {variant}{left}"));
            bar.tick();
        }
    }

    fn ended(&mut self, record: &RoundRecord) {
        self.done += 1;
        if !record.refused.is_empty() {
            // It will be repeated at once.
            self.rounds += 1;
            self.before_attempt += 1;
            if let Some(bar) = &self.bar {
                bar.set_length(u64::from(self.rounds));
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_position(u64::from(self.done));
        }
        let place = format!("[{}/{}] block {}", self.done, self.rounds, record.block);
        match &record.outcome {
            Outcome::Failed(failure) => {
                self.say(&format!("{place}: {} broke: {}", record.variant, failure.message));
            }
            Outcome::Measured(_) if !record.refused.is_empty() => {
                let why: Vec<&str> = record.refused.iter().map(|reason| reason.text()).collect();
                let (variant, why) = (&record.variant, why.join("; "));
                self.say(&format!("{place}: {variant} refused and repeated: {why}"));
            }
            Outcome::Measured(measured) if self.bar.is_none() => {
                let show = |metric: Metric| {
                    metric
                        .level(measured)
                        .map_or_else(|_| "-".to_owned(), |value| metric.show(value))
                };
                let variant = &record.variant;
                let figures = match record.beside {
                    Some(_) => format!("{} of CPU per request", show(Metric::CpuPerGoodRequest)),
                    None => {
                        let p95 = show(Metric::Latency(Statistic::P95));
                        format!("{}, p95 {p95}", show(Metric::Goodput))
                    }
                };
                self.say(&format!("{place}: {variant}: {figures}"));
            }
            Outcome::Measured(_) => {}
        }
    }

    fn waiting(&mut self, pause: Duration) {
        self.say(&format!(
            "others keep this machine busy: waiting {} s",
            pause.as_secs_f64().ceil()
        ));
    }

    fn again(&mut self, block: u32, attempt: u32) {
        self.say(&format!("running block {block} again (attempt {attempt})"));
        self.rounds += self.done - self.before_attempt;
        self.before_attempt = self.done;
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(self.rounds));
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
