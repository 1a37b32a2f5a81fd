//! Runs the searches: block by block, the variants in turn, try by try.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::goal::{Bottleneck, Breach, Figures, Reason};
use super::plan::LimitPlan;
use super::progress::Console;
use super::search::{Length, Next, Search, SearchResult};
use crate::journal::record::{Failure, FailureKind, Measured, Outcome, RoundRecord, Warning};
use crate::load::generator::Arrivals;
use crate::plan::Settings;
use crate::round::RoundPosition;

/// Maximum number of repeated tries per search, before the machine counts as too noisy.
const REPEATS_PER_SEARCH: u32 = 5;
/// Consecutive tries at one rate limited by the generator, until the limit counts as the generator's: on a
/// busy machine its event loops are late now and then, at any rate.
const SPOILT: u32 = 4;
/// Disturbances that can make a server appear worse.
const DISTURBING: [Warning; 2] = [Warning::Steal, Warning::ForeignCpu];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Try {
    /// Block, from 1.
    pub block: u32,
    pub variant: String,
    /// Number of the try of this variant in the block, from 1.
    pub number: u32,
    /// Requested iterations per second.
    pub rate: u32,
    pub length: Length,
    /// `None` when the round failed.
    pub figures: Option<Figures>,
    /// Cores used by the server; `None` for a `url`.
    pub server_cores: Option<f64>,
    /// Reason for missing the goal; `None` if it was met or the try does not count.
    pub missed: Option<Reason>,
    /// Reason for not counting: a disturbance, after which it was repeated, or a failed round.
    pub void: Option<String>,
    /// Violated invariants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_invariants: Vec<String>,
    /// Including preparation and stop.
    pub took_seconds: f64,
}

/// End of all searches.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum SearchEnd {
    Complete,
    Interrupted,
    /// A try failed repeatedly.
    Broken {
        block: u32,
        /// The last failure.
        why: String,
        /// Kind of the last failure.
        #[serde(skip)]
        kind: FailureKind,
    },
}

/// Results of all searches.
pub(crate) struct Outcomes {
    pub tries: Vec<Try>,
    /// Results by block and variant's index.
    pub found: BTreeMap<(u32, usize), SearchResult>,
    pub ended: SearchEnd,
    pub noisy: bool,
    /// Whether the earlier tries are those that this version would make.
    pub is_replayed: bool,
}

/// A round to run.
pub(crate) struct RoundSpec {
    pub place: RoundPosition,
    /// The variant's index.
    pub index: usize,
    pub settings: Settings,
    pub arrivals: Option<Arrivals>,
}

/// Runs a round; `None` when it was cancelled.
pub(crate) type Runner<'r> = dyn FnMut(&RoundSpec) -> Option<RoundRecord> + 'r;

pub(crate) struct SearchRun<'p, 'r> {
    plan: &'p LimitPlan,
    /// `None` when a stored search is only replayed.
    runner: Option<&'r mut Runner<'r>>,
    /// Earlier tries, which are replayed.
    earlier: VecDeque<RoundRecord>,
    outcomes: Outcomes,
    /// Shortest mean duration of an iteration at a rate that met the goal, by variant.
    unhurried_ms: Vec<Option<f64>>,
    repeats: u32,
}

/// One variant's search in the current block.
struct VariantSearch {
    index: usize,
    search: Search,
    tries: u32,
    /// Consecutive failed tries.
    broken: u32,
    /// Consecutive tries limited by the generator.
    spoilt: u32,
}

impl<'p, 'r> SearchRun<'p, 'r> {
    pub(crate) fn new(
        plan: &'p LimitPlan,
        runner: Option<&'r mut Runner<'r>>,
        earlier: Vec<RoundRecord>,
    ) -> Self {
        let variants = plan.plan.variants.len();
        let searches = u32::try_from(variants).unwrap_or(1) * plan.options.blocks;
        let outcomes = Outcomes {
            tries: Vec::new(),
            found: BTreeMap::new(),
            ended: SearchEnd::Complete,
            noisy: false,
            is_replayed: true,
        };
        let repeats = searches.saturating_mul(REPEATS_PER_SEARCH);
        let unhurried_ms = vec![None; variants];
        Self { plan, runner, earlier: earlier.into(), outcomes, unhurried_ms, repeats }
    }

    pub(crate) fn run(mut self, progress: &mut Console) -> Outcomes {
        for block in 1..=self.plan.options.blocks {
            if let Err(ended) = self.block(block, progress) {
                self.outcomes.ended = ended;
                break;
            }
        }
        // Remaining tries were made by other rules.
        self.outcomes.is_replayed &= self.earlier.is_empty();
        self.outcomes
    }

    fn block(&mut self, block: u32, progress: &mut Console) -> Result<(), SearchEnd> {
        let plan = self.plan;
        let current = |index: usize| VariantSearch {
            index,
            search: plan.search(block, index, self.last(block, index)),
            tries: 0,
            broken: 0,
            spoilt: 0,
        };
        let mut searches: Vec<VariantSearch> =
            plan.plan.order(block).into_iter().map(current).collect();
        while searches.iter().any(|current| current.search.next().is_some()) {
            for current in &mut searches {
                let Some(next) = current.search.next() else { continue };
                self.attempt(block, current, next, progress)?;
                if let Some(found) = current.search.result() {
                    let variant = &plan.plan.variants[current.index].name;
                    if self.earlier.is_empty() {
                        progress.found(block, variant, &found);
                    }
                    self.outcomes.found.insert((block, current.index), found);
                }
            }
        }
        Ok(())
    }

    /// Highest rate confirmed by the variant's last search.
    fn last(&self, block: u32, index: usize) -> Option<u32> {
        self.outcomes.found.get(&(block - 1, index))?.confirmed
    }

    fn attempt(
        &mut self,
        block: u32,
        current: &mut VariantSearch,
        next: Next,
        progress: &mut Console,
    ) -> Result<(), SearchEnd> {
        current.tries += 1;
        let variant = &self.plan.plan.variants[current.index];
        let is_earlier = !self.earlier.is_empty();
        let record = match self.earlier.pop_front() {
            Some(record) => record,
            None => self.round(block, current, next)?,
        };
        let place = (record.block, record.variant.as_str(), record.attempt);
        if place != (block, variant.name.as_str(), current.tries) {
            self.outcomes.is_replayed = false;
            return Err(SearchEnd::Interrupted);
        }
        let mut tried = Try {
            block,
            variant: variant.name.clone(),
            number: current.tries,
            rate: next.rate,
            length: next.length,
            figures: None,
            server_cores: None,
            missed: None,
            void: None,
            broken_invariants: Vec::new(),
            took_seconds: record.took_seconds,
        };
        let step = match &record.outcome {
            Outcome::Measured(measured) => {
                self.judge(current, measured, &mut tried);
                Ok(())
            }
            Outcome::Failed(failure) => self.broke(current, failure, &mut tried),
        };
        if !is_earlier {
            progress.tried(&tried);
        }
        self.outcomes.tries.push(tried);
        match step {
            // The search was given up and resumed, or is resumed now: with all repeats again.
            Err(SearchEnd::Broken { .. })
                if is_earlier && (self.runner.is_some() || !self.earlier.is_empty()) =>
            {
                current.broken = 0;
                Ok(())
            }
            step => step,
        }
    }

    fn round(
        &mut self,
        block: u32,
        current: &VariantSearch,
        next: Next,
    ) -> Result<RoundRecord, SearchEnd> {
        let Some(runner) = &mut self.runner else { return Err(SearchEnd::Interrupted) };
        let order = RoundSpec {
            place: RoundPosition { block, attempt: current.tries, position: 1 },
            index: current.index,
            settings: self.plan.round(next),
            arrivals: self.plan.arrivals(next.rate, self.unhurried_ms[current.index]),
        };
        runner(&order).ok_or(SearchEnd::Interrupted)
    }

    /// Records a measured try in the search, unless it is to be repeated.
    fn judge(&mut self, current: &mut VariantSearch, measured: &Measured, tried: &mut Try) {
        current.broken = 0;
        let plan = self.plan;
        let lang = plan.plan.language;
        let figures = Figures::from_report(&measured.load, plan.lasts(tried.length));
        tried.figures = Some(figures);
        let cpu = measured.server.as_ref().and_then(|server| server.cpu_seconds);
        tried.server_cores = cpu.map(|cpu| cpu / measured.load.duration_seconds);
        let broken = measured.invariants.iter().filter(|checked| !checked.holds);
        tried.broken_invariants = broken.map(|checked| checked.name.clone()).collect();
        let mut missed = plan.options.goal.missed(&figures, self.unhurried_ms[current.index]);
        let limited = missed.as_ref().is_some_and(|why| why.bottleneck == Bottleneck::Generator);
        current.spoilt = if limited { current.spoilt + 1 } else { 0 };
        if limited && current.spoilt < SPOILT {
            tried.void = Some(lang.warning(Warning::GeneratorLimited).to_owned());
            return;
        }
        current.spoilt = 0;
        if missed.is_some() && !limited && self.repeats_for(measured, tried) {
            return;
        }
        if !tried.broken_invariants.is_empty() {
            let names = tried.broken_invariants.iter().cloned();
            let breaches = names.map(|name| Breach::Invariant { name });
            let reason = missed
                .get_or_insert(Reason { bottleneck: Bottleneck::Server, breaches: Vec::new() });
            reason.bottleneck = Bottleneck::Server;
            reason.breaches.splice(0..0, breaches);
        }
        tried.missed.clone_from(&missed);
        if missed.is_none() {
            let fastest = &mut self.unhurried_ms[current.index];
            *fastest = figures.iteration_ms.map(|now| fastest.map_or(now, |known| known.min(now)));
        }
        current.search.record(missed);
    }

    /// Whether a try that missed the goal was disturbed and is to be repeated. One that met the goal
    /// in spite of a disturbance counts.
    fn repeats_for(&mut self, measured: &Measured, tried: &mut Try) -> bool {
        let lang = self.plan.plan.language;
        let accept = &self.plan.plan.settings.accept;
        let disturbed =
            |warning: &&Warning| DISTURBING.contains(warning) && !accept.contains(warning);
        let why: Vec<&str> = measured
            .warnings
            .iter()
            .filter(disturbed)
            .map(|warning| lang.warning(*warning))
            .collect();
        if why.is_empty() {
            return false;
        }
        if self.repeats == 0 {
            self.outcomes.noisy = true;
            return false;
        }
        self.repeats -= 1;
        tried.void = Some(why.join("; "));
        true
    }

    /// A server that dies under load has reached its limit. Other failures are repeated, up to the
    /// experiment's number of retries.
    fn broke(
        &mut self,
        current: &mut VariantSearch,
        failure: &Failure,
        tried: &mut Try,
    ) -> Result<(), SearchEnd> {
        match failure.kind {
            FailureKind::Interrupted => {
                tried.void = Some(self.plan.plan.language.failure(failure));
                Err(SearchEnd::Interrupted)
            }
            FailureKind::ServerDied => {
                let breaches = vec![Breach::Died { message: failure.message.clone() }];
                let why = Reason { bottleneck: Bottleneck::Server, breaches };
                tried.missed = Some(why.clone());
                current.search.record(Some(why));
                Ok(())
            }
            _ => {
                tried.void = Some(self.plan.plan.language.failure(failure));
                current.broken += 1;
                if current.broken > self.plan.plan.settings.retries {
                    let why = self.plan.plan.language.failure(failure);
                    return Err(SearchEnd::Broken { block: tried.block, why, kind: failure.kind });
                }
                Ok(())
            }
        }
    }
}
