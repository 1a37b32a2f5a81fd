//! Runs blocks and stores their rounds.

use std::time::{Duration, Instant};

use super::out::Journal;
use crate::journal::record::{FailureKind, RoundRecord, Warning};
use crate::journal::stored;
use crate::plan::{BlockStep, Plan};
use crate::report::RunEnd;
use crate::round::{Bench, RoundPosition};
use crate::run::progress::Progress;

/// Pause after the first disturbed round.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Backups and updates take minutes, not hours.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Assumed length of a run if only the script knows it.
const UNKNOWN_LENGTH: Duration = Duration::from_secs(60);
/// Interval of checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Blocks<'r> {
    bench: Bench<'r>,
    plan: &'r Plan,
    pub rounds: Vec<RoundRecord>,
    pub journal: Journal,
    /// Remaining repeats of refused rounds.
    repeats: u32,
    /// The loads of some pair overlapped, so others can.
    met: bool,
    /// Number of pairs whose loads did not overlap.
    apart: u32,
    /// Consecutive disturbed rounds.
    in_a_row: u32,
    /// Remaining time for pauses.
    patience: Duration,
    /// A disturbed round was kept because no repeats were left: figures are reported, and the verdict stays open.
    pub noisy: bool,
}

impl<'r> Blocks<'r> {
    /// `rounds` are those before the run was resumed.
    pub(crate) fn new(
        bench: Bench<'r>,
        plan: &'r Plan,
        rounds: Vec<RoundRecord>,
        journal: Journal,
    ) -> Self {
        let refused = rounds.iter().filter(|round| !round.refused.is_empty()).count();
        let refused = u32::try_from(refused).unwrap_or(u32::MAX);
        let repeats = plan.repeats().saturating_sub(refused);
        let noisy = stored::is_noisy(plan, &rounds);
        let met = rounds.iter().any(stored::has_met);
        // Pauses may take half as long as the rounds.
        let patience = plan.estimate().unwrap_or(UNKNOWN_LENGTH) / 2;
        Self { bench, plan, rounds, journal, repeats, met, apart: 0, in_a_row: 0, patience, noisy }
    }

    pub(crate) fn run_all(&mut self, progress: &mut dyn Progress) -> RunEnd {
        let ended = self.run_blocks(progress);
        stored::count(self.plan, &mut self.rounds);
        ended
    }

    fn run_blocks(&mut self, progress: &mut dyn Progress) -> RunEnd {
        let first = stored::complete_blocks(&self.rounds) + 1;
        for block in first..=self.plan.settings.blocks {
            let earlier = self.rounds.iter().filter(|round| round.block == block);
            let earlier = earlier.map(|round| round.attempt).max().unwrap_or(0);
            let mut attempt = earlier + 1;
            loop {
                match self.run_block(block, attempt, progress) {
                    None => break,
                    Some(FailureKind::Interrupted) => return RunEnd::Interrupted,
                    // Earlier attempts do not count: the cause may be fixed.
                    Some(_) if attempt - earlier > self.plan.settings.retries => {
                        return RunEnd::Broken { block, attempts: attempt };
                    }
                    Some(_) => attempt += 1,
                }
                progress.again(block, attempt);
            }
        }
        RunEnd::Complete
    }

    /// Runs the steps of a block until one breaks.
    fn run_block(
        &mut self,
        block: u32,
        attempt: u32,
        progress: &mut dyn Progress,
    ) -> Option<FailureKind> {
        let mut position = 1;
        for step in self.plan.steps(block) {
            let place = RoundPosition { block, attempt, position };
            // Repeats refused steps.
            while let Some(ended) = self.run_step(place, step, progress) {
                if let Some(broke) = ended {
                    return Some(broke);
                }
            }
            position += if matches!(step, BlockStep::Pair(_)) { 2 } else { 1 };
        }
        None
    }

    /// Runs a round or a pair. Returns `None` on success, `Some(None)` if it was refused, else the failure.
    fn run_step(
        &mut self,
        place: RoundPosition,
        step: BlockStep,
        progress: &mut dyn Progress,
    ) -> Option<Option<FailureKind>> {
        if self.bench.cancel.is_cancelled() {
            return Some(Some(FailureKind::Interrupted));
        }
        let variant = |index: usize| &self.plan.variants[index];
        let records = match step {
            BlockStep::Alone(one) => {
                progress.round(place.block, &variant(one).name);
                vec![self.bench.round(place, variant(one))]
            }
            BlockStep::Pair([one, other]) => {
                let names = format!("{} beside {}", variant(one).name, variant(other).name);
                progress.round(place.block, &names);
                self.bench.pair(place, [variant(one), variant(other)])
            }
        };
        let is_refused = self.refuses(&records);
        let mut ended = None;
        for mut record in records {
            if is_refused {
                record.refused = stored::refusals(self.plan, &record);
            }
            progress.ended(&record);
            self.journal.append(&record);
            self.sit_out(&record.refused, progress);
            let failed = record.failure().map(|failure| Some(failure.kind));
            let refused = (!record.refused.is_empty()).then_some(None);
            ended = failed.or(refused).or(ended);
            self.rounds.push(record);
        }
        ended
    }

    /// Pauses after disturbed rounds, twice as long each time: most disturbances last, and would use up all repeats.
    fn sit_out(&mut self, refused: &[Warning], progress: &mut dyn Progress) {
        if !refused.iter().any(|reason| matches!(reason, Warning::Steal | Warning::ForeignCpu)) {
            self.in_a_row = 0;
            return;
        }
        let pause = SHORTEST_PAUSE.saturating_mul(1 << self.in_a_row.min(10));
        let pause = pause.min(LONGEST_PAUSE).min(self.patience);
        self.in_a_row += 1;
        self.patience -= pause;
        if self.repeats == 0 || pause.is_zero() {
            return;
        }
        progress.waiting(pause);
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.bench.cancel.is_cancelled() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK));
        }
    }

    /// True if a step is refused and repeated. Both rounds of a pair are refused, or neither.
    fn refuses(&mut self, records: &[RoundRecord]) -> bool {
        let reasons: Vec<Warning> =
            records.iter().flat_map(|record| stored::refusals(self.plan, record)).collect();
        let is_disturbed = reasons.iter().any(|reason| *reason != Warning::Apart);
        let is_apart = reasons.contains(&Warning::Apart);
        self.met |= records.iter().any(stored::has_met);
        self.apart += u32::from(is_apart);
        // If two pairs were apart and none overlapped, these loads differ in length.
        let may_meet = is_apart && (self.met || self.apart < 2);
        if !is_disturbed && !may_meet {
            return false;
        }
        if self.repeats == 0 {
            self.noisy |= is_disturbed;
            return false;
        }
        self.repeats -= 1;
        true
    }
}
