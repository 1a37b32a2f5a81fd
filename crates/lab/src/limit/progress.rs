//! Progress of a search, on stderr.

use std::io::{self, Write};
use std::time::Instant;

use super::blocks::Try;
use super::goal::{number, percent};
use super::plan::LimitPlan;
use super::search::{CONFIRMATIONS, Length, SearchResult};
use crate::{time, words};

/// Writes a line for each try.
#[derive(Debug)]
pub struct Console {
    is_silent: bool,
    begun: Instant,
    searches: u32,
    done: u32,
}

impl Default for Console {
    fn default() -> Self {
        Self { is_silent: false, begun: Instant::now(), searches: 0, done: 0 }
    }
}

impl Console {
    /// A console that prints nothing.
    pub(super) fn silent() -> Self {
        Self { is_silent: true, ..Self::default() }
    }

    fn print(&self, line: &str) {
        if !self.is_silent {
            // stderr may be closed.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    pub(super) fn begin(&mut self, plan: &LimitPlan) {
        self.begun = Instant::now();
        let (variants, blocks) = (plan.plan.variants.len(), plan.options.blocks);
        self.searches = blocks.saturating_mul(u32::try_from(variants).unwrap_or(u32::MAX));
        self.print(&format!(
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

    pub(super) fn resumed(&self, tries: usize) {
        self.print(&format!("going on after {tries} tries"));
    }

    pub(super) fn tried(&self, tried: &Try) {
        let long = if tried.length == Length::Long { ", long try," } else { "" };
        let place = format!("block {} {}: {}/s{long}", tried.block, tried.variant, tried.rate);
        let figures = tried.figures.map(|figures| {
            let p95 =
                figures.p95_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} ms", number(ms)));
            let (errors, dropped) = (percent(figures.errors), percent(figures.dropped));
            format!("p95 {p95}, errors {errors}, dropped {dropped}")
        });
        let figures = figures.unwrap_or_default();
        self.print(&match (&tried.void, &tried.missed) {
            (Some(why), _) => format!("{place} does not count: {why}"),
            (None, Some(why)) => format!("{place} missed the goal: {why}"),
            (None, None) => format!("{place} met the goal: {figures}"),
        });
    }

    pub(super) fn found(&mut self, block: u32, variant: &str, found: &SearchResult) {
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
        self.print(&format!("block {block} {variant}: {found}; about {} left", time::rough(left)));
    }
}
