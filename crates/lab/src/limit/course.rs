//! Runs the searches: block after block, the variants in turn, try by try.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::goal::{Breach, Figures, Reason, Whose};
use super::plan::LimitPlan;
use super::progress::Progress;
use super::search::{Length, Next, Search, SearchResult};
use crate::journal::record::{Failure, FailureKind, Measured, Outcome, RoundRecord, Warning};
use crate::load::generator::Arrivals;
use crate::plan::Settings;
use crate::round::RoundPosition;

/// Disturbed tries may be repeated this often per search, before the machine counts as too noisy.
const REPEATS_PER_SEARCH: u32 = 5;
/// Tries in a row at one rate that the generator must have spoilt until it counts as its limit: on a
/// busy machine its event loops are late now and then, whatever the rate.
const SPOILT: u32 = 4;
/// Disturbances that make a server look worse than it is.
const DISTURBING: [Warning; 2] = [Warning::Steal, Warning::ForeignCpu];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Try {
    /// Which block, from 1.
    pub block: u32,
    pub variant: String,
    /// Which try of that variant in the block, from 1.
    pub number: u32,
    /// Iterations per second that were asked for.
    pub rate: u32,
    /// Long tries confirm a rate or refute it, short ones only get near.
    pub length: Length,
    /// What was seen; `None` when the round broke.
    pub figures: Option<Figures>,
    /// Cores the server used; `None` for a `url`.
    pub server_cores: Option<f64>,
    /// Why the goal was missed; `None` when it was reached or the try does not count.
    pub missed: Option<Reason>,
    /// Why it does not count: it was disturbed and repeated, or the round broke.
    pub void: Option<String>,
    /// Invariants that did not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_invariants: Vec<String>,
    /// How long it took, preparation and stop included.
    pub took_seconds: f64,
}

/// How a search of limits ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum SearchEnd {
    /// All blocks are complete.
    Complete,
    Interrupted,
    /// A try broke again and again.
    Broken {
        /// In which block.
        block: u32,
        /// The last failure, in words.
        why: String,
        /// Of what kind the last failure was.
        #[serde(skip)]
        kind: FailureKind,
    },
}

/// What came of all searches.
pub(crate) struct Outcomes {
    pub tries: Vec<Try>,
    /// What was found, by block and variant's index.
    pub found: BTreeMap<(u32, usize), SearchResult>,
    pub ended: SearchEnd,
    pub noisy: bool,
    /// All tries of before were those that the options ask for.
    pub is_replayed: bool,
}

/// A round that is to be run.
pub(crate) struct Order {
    pub place: RoundPosition,
    /// The variant's index.
    pub index: usize,
    pub settings: Settings,
    pub arrivals: Option<Arrivals>,
}

/// Runs a round; `None` when somebody stopped it.
pub(crate) type Runner<'r> = dyn FnMut(&Order) -> Option<RoundRecord> + 'r;

pub(crate) struct Course<'p, 'r> {
    plan: &'p LimitPlan,
    /// `None` when a stored search is only gone through again.
    runner: Option<&'r mut Runner<'r>>,
    /// Tries of before, which are gone through in place of new ones.
    earlier: VecDeque<RoundRecord>,
    outcomes: Outcomes,
    /// How long an iteration took at a rate that held, at least, by variant.
    unhurried_ms: Vec<Option<f64>>,
    repeats: u32,
}

/// One variant's search in the current block.
struct Seat {
    index: usize,
    search: Search,
    tries: u32,
    /// Tries in a row that broke.
    broken: u32,
    /// Tries in a row that the generator spoilt.
    spoilt: u32,
}

impl<'p, 'r> Course<'p, 'r> {
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

    pub(crate) fn run(mut self, progress: &mut dyn Progress) -> Outcomes {
        for block in 1..=self.plan.options.blocks {
            if let Err(ended) = self.block(block, progress) {
                self.outcomes.ended = ended;
                break;
            }
        }
        // Whatever is left was made by other rules.
        self.outcomes.is_replayed &= self.earlier.is_empty();
        self.outcomes
    }

    fn block(&mut self, block: u32, progress: &mut dyn Progress) -> Result<(), SearchEnd> {
        let plan = self.plan;
        let seat = |index: usize| Seat {
            index,
            search: plan.search(block, index, self.last(block, index)),
            tries: 0,
            broken: 0,
            spoilt: 0,
        };
        let mut seats: Vec<Seat> = plan.plan.order(block).into_iter().map(seat).collect();
        while seats.iter().any(|seat| seat.search.next().is_some()) {
            for seat in &mut seats {
                let Some(next) = seat.search.next() else { continue };
                self.attempt(block, seat, next, progress)?;
                if let Some(found) = seat.search.found() {
                    let variant = &plan.plan.variants[seat.index].name;
                    if self.earlier.is_empty() {
                        progress.found(block, variant, &found);
                    }
                    self.outcomes.found.insert((block, seat.index), found);
                }
            }
        }
        Ok(())
    }

    /// Highest rate that the variant's last search confirmed.
    fn last(&self, block: u32, index: usize) -> Option<u32> {
        self.outcomes.found.get(&(block - 1, index))?.confirmed
    }

    fn attempt(
        &mut self,
        block: u32,
        seat: &mut Seat,
        next: Next,
        progress: &mut dyn Progress,
    ) -> Result<(), SearchEnd> {
        seat.tries += 1;
        let variant = &self.plan.plan.variants[seat.index];
        let is_earlier = !self.earlier.is_empty();
        let record = match self.earlier.pop_front() {
            Some(record) => record,
            None => self.round(block, seat, next, progress)?,
        };
        let place = (record.block, record.variant.as_str(), record.attempt);
        if place != (block, variant.name.as_str(), seat.tries) {
            self.outcomes.is_replayed = false;
            return Err(SearchEnd::Interrupted);
        }
        let mut tried = Try {
            block,
            variant: variant.name.clone(),
            number: seat.tries,
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
                self.judge(seat, measured, &mut tried);
                Ok(())
            }
            Outcome::Failed(failure) => self.broke(seat, failure, &mut tried),
        };
        if !is_earlier {
            progress.tried(&tried);
        }
        self.outcomes.tries.push(tried);
        match step {
            // It was given up and went on, or is to go on now: with as many repeats as at first.
            Err(SearchEnd::Broken { .. })
                if is_earlier && (self.runner.is_some() || !self.earlier.is_empty()) =>
            {
                seat.broken = 0;
                Ok(())
            }
            step => step,
        }
    }

    fn round(
        &mut self,
        block: u32,
        seat: &Seat,
        next: Next,
        progress: &mut dyn Progress,
    ) -> Result<RoundRecord, SearchEnd> {
        let Some(runner) = &mut self.runner else { return Err(SearchEnd::Interrupted) };
        progress.trying(block, &self.plan.plan.variants[seat.index].name, next);
        let order = Order {
            place: RoundPosition { block, attempt: seat.tries, position: 1 },
            index: seat.index,
            settings: self.plan.round(next),
            arrivals: self.plan.arrivals(next.rate, self.unhurried_ms[seat.index]),
        };
        runner(&order).ok_or(SearchEnd::Interrupted)
    }

    /// Tells the search what a measured try showed, unless it is to be repeated.
    fn judge(&mut self, seat: &mut Seat, measured: &Measured, tried: &mut Try) {
        seat.broken = 0;
        let plan = self.plan;
        let lang = plan.plan.language;
        let seen = Figures::from_report(&measured.load, plan.lasts(tried.length));
        tried.figures = Some(seen);
        let cpu = measured.server.as_ref().and_then(|server| server.cpu_seconds);
        tried.server_cores = cpu.map(|cpu| cpu / measured.load.duration_seconds);
        let broken = measured.invariants.iter().filter(|checked| !checked.holds);
        tried.broken_invariants = broken.map(|checked| checked.name.clone()).collect();
        let mut missed = plan.options.goal.missed(&seen, self.unhurried_ms[seat.index]);
        let limited = missed.as_ref().is_some_and(|why| why.whose == Whose::Generator);
        seat.spoilt = if limited { seat.spoilt + 1 } else { 0 };
        if limited && seat.spoilt < SPOILT {
            tried.void = Some(lang.warning(Warning::GeneratorLimited).to_owned());
            return;
        }
        seat.spoilt = 0;
        if missed.is_some() && !limited && self.repeats_for(measured, tried) {
            return;
        }
        if !tried.broken_invariants.is_empty() {
            let names = tried.broken_invariants.iter().cloned();
            let breaches = names.map(|name| Breach::Invariant { name });
            let reason =
                missed.get_or_insert(Reason { whose: Whose::Server, breaches: Vec::new() });
            reason.whose = Whose::Server;
            reason.breaches.splice(0..0, breaches);
        }
        tried.missed.clone_from(&missed);
        if missed.is_none() {
            let fastest = &mut self.unhurried_ms[seat.index];
            *fastest = seen.iteration_ms.map(|now| fastest.map_or(now, |known| known.min(now)));
        }
        seat.search.tell(missed);
    }

    /// Whether others disturbed a try that missed the goal, so that it is to be repeated. One that
    /// reached it in spite of them counts.
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

    /// A server that dies under load has a limit; whatever else breaks a round is repeated, up to
    /// as often as the experiment allows.
    fn broke(
        &mut self,
        seat: &mut Seat,
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
                let why = Reason { whose: Whose::Server, breaches };
                tried.missed = Some(why.clone());
                seat.search.tell(Some(why));
                Ok(())
            }
            _ => {
                tried.void = Some(self.plan.plan.language.failure(failure));
                seat.broken += 1;
                if seat.broken > self.plan.plan.settings.retries {
                    let why = self.plan.plan.language.failure(failure);
                    return Err(SearchEnd::Broken { block: tried.block, why, kind: failure.kind });
                }
                Ok(())
            }
        }
    }
}
