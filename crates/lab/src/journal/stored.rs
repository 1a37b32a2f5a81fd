//! Stored runs: a description (`run.json`) and every round (`rounds.jsonl`). Both exist from the first round, so a
//! killed run can be resumed, and a later version can report any run. Conclusions are derived, not stored.

mod description;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::file::experiment::{Experiment, FileError};
use crate::journal::record::{Measured, RoundRecord, Warning};
use crate::judge::rules;
use crate::plan::{Design, NoQuick, Options, Plan};
use crate::report::{Course, Language, Report, RunEnd};
pub(crate) use description::{DESCRIPTION, Description, Kind};

/// One line per round.
pub(crate) const JOURNAL: &str = "rounds.jsonl";
/// Options of a comparison, and its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    options: Options,
    /// `None` for a killed run.
    pub ended: Option<RunEnd>,
}

impl Asked {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { options: plan.options(), ended: None }
    }
}

impl Kind for Asked {
    const KIND: Option<&'static str> = None;
    const FORMAT: u32 = 1;
}

#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    #[error("`{}` is no stored run of this version: cannot read `{file}`", .dir.display())]
    Read { dir: PathBuf, file: &'static str, source: io::Error },
    #[error("cannot understand `{}`", .path.display())]
    Shape { path: PathBuf, source: serde_json::Error },
    #[error("`{}`:{line}: this is no round of this run: {why}", .path.display())]
    Round {
        path: PathBuf,
        /// From 1.
        line: usize,
        why: String,
    },
    #[error("`{}` has format {found}, this version understands {known}", .path.display())]
    Format { path: PathBuf, found: u32, known: u32 },
    /// This version rejects the experiment.
    #[error("the experiment in `{}`", .path.display())]
    Experiment { path: PathBuf, source: FileError },
    #[error(transparent)]
    NoQuick(#[from] NoQuick),
    #[error("`{}` is of madang {other}", .path.display())]
    Kind { path: PathBuf, other: &'static str },
    /// This version would have made other tries.
    #[error("the tries in `{}` do not follow from its options in this version", .0.display())]
    NotReplayed(PathBuf),
    /// Resuming would mix rounds of different builds.
    #[error("cannot resume: {} changed since the run began; start a new one", .0.join(", "))]
    Changed(Vec<String>),
}

#[derive(Debug, Clone)]
pub struct Stored {
    pub dir: PathBuf,
    pub experiment: Experiment,
    /// With the original seed.
    pub plan: Plan,
    pub(crate) description: Description<Asked>,
    pub(crate) rounds: Vec<RoundRecord>,
    /// Length of the journal's complete lines.
    pub(crate) journal_bytes: u64,
}

impl Stored {
    /// Reads a run's directory, without an incomplete last line of a killed run.
    ///
    /// # Errors
    /// If a file is missing, unreadable or of another command or version.
    pub fn read(dir: &Path) -> Result<Self, StoredError> {
        let description = Description::<Asked>::read(dir)?;
        let experiment = description.experiment(dir)?;
        let plan = Plan::new(&experiment, &description.asked.options)?;
        let (mut rounds, journal_bytes) = journal(dir)?;
        check_rounds(dir, &plan, &rounds)?;
        count(&plan, &mut rounds);
        let dir = dir.to_owned();
        Ok(Self { dir, experiment, plan, description, rounds, journal_bytes })
    }

    /// The report, as if the run had just ended.
    pub fn report(&self) -> Report {
        self.report_in(self.plan.language)
    }

    fn ended(&self) -> RunEnd {
        match self.description.asked.ended {
            _ if self.is_complete() => RunEnd::Complete,
            Some(ended) => ended,
            // Killed.
            None => RunEnd::Interrupted,
        }
    }

    pub(crate) fn report_in(&self, language: Language) -> Report {
        let plan = Plan { language, ..self.plan.clone() };
        let ended = self.ended();
        let noisy = is_noisy(&self.plan, &self.rounds);
        let course = Course { rounds: self.rounds.clone(), ended, noisy };
        Report::new(&self.experiment, &plan, self.description.origin(), course)
    }

    pub fn is_complete(&self) -> bool {
        complete_blocks(&self.rounds) == self.plan.settings.blocks
    }
}

/// Rounds of a directory's journal, and the length of its complete lines in bytes.
pub(crate) fn journal(dir: &Path) -> Result<(Vec<RoundRecord>, u64), StoredError> {
    let unreadable = |source| StoredError::Read { dir: dir.to_owned(), file: JOURNAL, source };
    let mut journal = fs::read(dir.join(JOURNAL)).map_err(unreadable)?;
    // As bytes: the last line may end inside a character.
    let whole = journal.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    journal.truncate(whole);
    let journal = String::from_utf8(journal).map_err(io::Error::other).map_err(unreadable)?;
    let rounds: Result<Vec<RoundRecord>, _> = journal.lines().map(serde_json::from_str).collect();
    let shape = |source| StoredError::Shape { path: dir.join(JOURNAL), source };
    Ok((rounds.map_err(shape)?, whole as u64))
}

/// Rejects rounds that the run cannot have made, as in two concatenated journals.
fn check_rounds(dir: &Path, plan: &Plan, rounds: &[RoundRecord]) -> Result<(), StoredError> {
    let mut ended = BTreeSet::new();
    for (index, round) in rounds.iter().enumerate() {
        let RoundRecord { block, attempt, variant, beside, .. } = round;
        let is_known = plan.variants.iter().any(|known| known.name == *variant);
        let why = if !is_known {
            format!("the run has no variant `{variant}`")
        } else if !(1..=plan.settings.blocks).contains(block) {
            format!("the run has no block {block}")
        } else if ended.contains(&(block, attempt, variant, beside)) {
            format!("block {block}, attempt {attempt} of `{variant}` is there already")
        } else {
            // Only refused rounds are repeated in the same attempt.
            if round.refused.is_empty() {
                ended.insert((block, attempt, variant, beside));
            }
            continue;
        };
        return Err(StoredError::Round { path: dir.join(JOURNAL), line: index + 1, why });
    }
    Ok(())
}

/// Marks the rounds that count: those of an attempt in which all rounds of the block were measured and none was refused.
pub(crate) fn count(plan: &Plan, rounds: &mut [RoundRecord]) {
    /// A variant and its partner.
    type Sides = (String, Option<String>);
    let mut good: BTreeMap<(u32, u32), BTreeSet<Sides>> = BTreeMap::new();
    let mut broken: BTreeSet<(u32, u32)> = BTreeSet::new();
    for round in &*rounds {
        let place = (round.block, round.attempt);
        if round.failure().is_some() {
            broken.insert(place);
        } else if round.refused.is_empty() {
            let sides = (round.variant.clone(), round.beside.clone());
            good.entry(place).or_default().insert(sides);
        }
    }
    let mut expected: BTreeMap<u32, usize> = BTreeMap::new();
    for round in rounds {
        let place = (round.block, round.attempt);
        let expected =
            expected.entry(round.block).or_insert_with(|| plan.expected(round.block).len());
        let is_complete = good.get(&place).is_some_and(|made| made.len() == *expected)
            && !broken.contains(&place);
        round.counted = is_complete && round.refused.is_empty();
    }
}

/// Number of complete blocks. Blocks run in order, so all up to the last that counts are complete.
pub(crate) fn complete_blocks(rounds: &[RoundRecord]) -> u32 {
    let counted = rounds.iter().filter(|round| round.counted);
    counted.map(|round| round.block).max().unwrap_or(0)
}

/// Reasons to repeat a round, if repeats are left.
pub(crate) fn refusals(plan: &Plan, record: &RoundRecord) -> Vec<Warning> {
    let Some(measured) = record.measured() else { return Vec::new() };
    // A disturbance affects both sides of a pair. In a design of pairs, rounds alone have no influence.
    let decides_nothing = record.beside.is_some() || plan.settings.design == Design::Duet;
    let is_shared = |warning: &Warning| {
        decides_nothing && matches!(warning, Warning::Steal | Warning::ForeignCpu)
    };
    refusing(plan, measured).filter(|warning| !is_shared(warning)).collect()
}

/// Warnings for which a round is refused, if repeats are left.
pub(crate) fn refusing<'m>(
    plan: &'m Plan,
    measured: &'m Measured,
) -> impl Iterator<Item = Warning> + 'm {
    let refuses =
        |warning: &Warning| rules::repeats(*warning) && !plan.settings.accept.contains(warning);
    measured.warnings.iter().copied().filter(refuses)
}

/// True if a disturbed round was kept because no repeats were left.
pub(crate) fn is_noisy(plan: &Plan, rounds: &[RoundRecord]) -> bool {
    let is_disturbed =
        |round: &RoundRecord| refusals(plan, round).iter().any(|reason| *reason != Warning::Apart);
    rounds.iter().any(|round| round.refused.is_empty() && is_disturbed(round))
}

/// True for a pair whose loads overlapped.
pub(crate) fn has_met(round: &RoundRecord) -> bool {
    let overlaps = |measured: &Measured| !measured.warnings.contains(&Warning::Apart);
    round.beside.is_some() && round.measured().is_some_and(overlaps)
}
