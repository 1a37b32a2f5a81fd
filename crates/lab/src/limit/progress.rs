//! Tells a person how far a search is.

use std::io::{self, Write};
use std::time::Instant;

use super::course::Try;
use super::goal::{number, percent};
use super::plan::LimitPlan;
use super::search::{CONFIRMATIONS, Length, Next, SearchResult};
use crate::{time, words};

/// Follows a search. Every method has an empty default.
pub trait Progress {
    fn begin(&mut self, _plan: &LimitPlan) {}
    /// That many tries are there already, of a search that goes on.
    fn resumed(&mut self, _tries: usize) {}
    /// A try begins: its block, variant, and what it is.
    fn trying(&mut self, _block: u32, _variant: &str, _next: Next) {}
    /// A try ended, well or not.
    fn tried(&mut self, _tried: &Try) {}
    /// A variant's search in a block is over.
    fn found(&mut self, _block: u32, _variant: &str, _found: &SearchResult) {}
}

/// Writes a line for each try to stderr: a try takes seconds, and what it showed is worth reading.
#[derive(Debug)]
pub struct Console {
    begun: Instant,
    searches: u32,
    done: u32,
}

impl Default for Console {
    fn default() -> Self {
        Self { begun: Instant::now(), searches: 0, done: 0 }
    }
}

/// Nobody reads a closed stderr.
fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

impl Progress for Console {
    fn begin(&mut self, plan: &LimitPlan) {
        self.begun = Instant::now();
        let (variants, blocks) = (plan.plan.variants.len(), plan.options.blocks);
        self.searches = blocks.saturating_mul(u32::try_from(variants).unwrap_or(u32::MAX));
        say(&format!(
            "goal: {}\nshort tries of {:?} to get near, then long ones of {:?}: {CONFIRMATIONS} have to meet the goal\n\
             one search for each of {} in {}, about {}, or {} if a server stops answering beyond its limit (seed {})",
            plan.options.goal,
            plan.lasts(Length::Short),
            plan.lasts(Length::Long),
            words::some(variants, "variant"),
            words::some(blocks as usize, "block"),
            time::rough(plan.estimate()),
            time::rough(plan.estimate_of_hanging()),
            plan.plan.seed,
        ));
    }

    fn resumed(&mut self, tries: usize) {
        say(&format!("going on after {tries} tries"));
    }

    fn tried(&mut self, tried: &Try) {
        let long = if tried.length == Length::Long { ", long try," } else { "" };
        let place = format!("block {} {}: {}/s{long}", tried.block, tried.variant, tried.rate);
        let seen = tried.figures.map(|seen| {
            let p95 = seen.p95_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} ms", number(ms)));
            let (errors, dropped) = (percent(seen.errors), percent(seen.dropped));
            format!("p95 {p95}, errors {errors}, dropped {dropped}")
        });
        let seen = seen.unwrap_or_default();
        say(&match (&tried.void, &tried.missed) {
            (Some(why), _) => format!("{place} does not count: {why}"),
            (None, Some(why)) => format!("{place} missed the goal: {why}"),
            (None, None) => format!("{place} met the goal: {seen}"),
        });
    }

    fn found(&mut self, block: u32, variant: &str, found: &SearchResult) {
        self.done += 1;
        let left = self.searches.saturating_sub(self.done);
        let left = self.begun.elapsed() / self.done.max(1) * left;
        let found = match (found.confirmed, found.refuted) {
            (Some(confirmed), Some(refuted)) => {
                format!("{confirmed}/s confirmed, {refuted}/s refuted")
            }
            (Some(rate), None) => format!("{rate}/s or more"),
            (None, refuted) => format!("less than {}/s", refuted.unwrap_or_default()),
        };
        say(&format!("block {block} {variant}: {found}; about {} left", time::rough(left)));
    }
}
