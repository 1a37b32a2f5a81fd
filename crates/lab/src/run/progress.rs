//! Progress of a run: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::journal::record::{Outcome, RoundRecord};
use crate::judge::metric::{Metric, Statistic};
use crate::plan::Plan;
use crate::{time, words};

/// Follows a run.
pub trait Progress {
    fn begin(&mut self, _plan: &Plan) {}
    /// A run with this many rounds is resumed.
    fn resumed(&mut self, _rounds: usize) {}
    fn building(&mut self) {}
    fn preparing(&mut self) {}
    /// A round of this block, from 1, and variant starts.
    fn round(&mut self, _block: u32, _variant: &str) {}
    fn ended(&mut self, _record: &RoundRecord) {}
    /// The run pauses because other processes keep the machine busy.
    fn waiting(&mut self, _pause: Duration) {}
    /// A block is repeated because one of its rounds broke.
    fn again(&mut self, _block: u32, _attempt: u32) {}
    fn finish(&mut self) {}
}

#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {}

#[derive(Debug)]
pub struct Console {
    /// Counts the rounds; hidden if stderr is no terminal.
    bar: ProgressBar,
    begun: Instant,
    /// Rounds before the run was resumed.
    earlier: u64,
    block: u32,
    /// Rounds before the current attempt at the block.
    before_attempt: u64,
}

impl Default for Console {
    fn default() -> Self {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        } else {
            ProgressBar::hidden()
        };
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} rounds  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, begun: Instant::now(), earlier: 0, block: 0, before_attempt: 0 }
    }
}

impl Console {
    fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            // A closed stderr is ignored.
            drop(writeln!(io::stderr(), "{line}"));
        } else {
            self.bar.println(line);
        }
    }

    fn rounds(&self) -> u64 {
        self.bar.length().unwrap_or_default()
    }

    /// Estimate of the remaining time from the rounds so far.
    fn left(&self) -> Option<Duration> {
        let done = self.bar.position();
        let (own, left) = (done - self.earlier, self.rounds().saturating_sub(done));
        (own > 0).then(|| self.begun.elapsed().mul_f64(left as f64 / own as f64))
    }
}

impl Progress for Console {
    fn begin(&mut self, plan: &Plan) {
        self.begun = Instant::now();
        let rounds = plan.rounds();
        self.bar.set_length(u64::from(rounds));
        let time = match plan.estimate() {
            Some(estimate) => format!("about {}", time::rough(estimate)),
            None => "for as long as the script runs each time".to_owned(),
        };
        self.say(&format!(
            "{rounds} rounds: {} of {}, {time} (seed {})",
            words::some(plan.settings.blocks as usize, "block"),
            words::some(plan.variants.len(), "variant"),
            plan.seed
        ));
    }

    fn resumed(&mut self, rounds: usize) {
        self.earlier = rounds as u64;
        self.before_attempt = self.earlier;
        self.bar.set_length(self.rounds().max(self.earlier));
        self.bar.set_position(self.earlier);
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
            self.before_attempt = self.bar.position();
        }
        let left = self.left().map(|left| format!(", about {} left", time::rough(left)));
        self.bar.set_message(format!("block {block}: {variant}{}", left.unwrap_or_default()));
        self.bar.tick();
    }

    fn ended(&mut self, record: &RoundRecord) {
        if !record.refused.is_empty() {
            self.before_attempt += 1;
            self.bar.inc_length(1);
        }
        self.bar.inc(1);
        let (done, rounds) = (self.bar.position(), self.rounds());
        let RoundRecord { block, variant, .. } = record;
        let place = format!("[{done}/{rounds}] block {block}");
        match &record.outcome {
            Outcome::Failed(failure) => {
                self.say(&format!("{place}: {variant} broke: {}", failure.message));
            }
            Outcome::Measured(_) if !record.refused.is_empty() => {
                let why: Vec<&str> = record.refused.iter().map(|reason| reason.text()).collect();
                let why = why.join("; ");
                self.say(&format!("{place}: {variant} refused and repeated: {why}"));
            }
            Outcome::Measured(measured) if self.bar.is_hidden() => {
                let show = |metric: Metric| {
                    let level = metric.level(measured);
                    level.map_or_else(|_| "-".to_owned(), |value| metric.show(value))
                };
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
        let done = self.bar.position();
        self.bar.inc_length(done - self.before_attempt);
        self.before_attempt = done;
    }

    fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}
