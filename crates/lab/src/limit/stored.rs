//! A search as its directory keeps it: what was asked (`run.json`) and every try (`rounds.jsonl`).
//!
//! Neither answers nor rates are kept: a search is a function of its options and of what its tries
//! showed, so it is gone through again with the rounds in the journal in place of new ones. What is
//! left when they end goes on from there, or is reported as it is.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::{LimitOptions, LimitPlan, PlanError};
use super::steering::Steering;
use crate::file::experiment::Experiment;
use crate::journal::record::{FailureKind, Outcome, RoundRecord};
use crate::journal::stored::{DESCRIPTION, Description, Kind, StoredError, journal};

/// Kind of the run, which a comparison does not have.
pub(crate) const KIND: &str = "limit";

/// Options of a search.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Asked {
    options: LimitOptions,
    steering: Steering,
}

impl Asked {
    pub(super) fn new(plan: &LimitPlan) -> Self {
        Self { options: plan.options(), steering: plan.steering }
    }
}

impl Kind for Asked {
    const KIND: Option<&'static str> = Some(KIND);
    const FORMAT: u32 = 2;
}

/// A search read back.
#[derive(Debug, Clone)]
pub struct StoredLimit {
    pub dir: PathBuf,
    pub experiment: Experiment,
    /// What it was to do, with the seed it had.
    pub plan: LimitPlan,
    pub(super) description: Description<Asked>,
    pub(super) rounds: Vec<RoundRecord>,
    /// Bytes of the journal that hold whole lines.
    pub(super) journal_bytes: u64,
}

impl StoredLimit {
    /// Reads a search's directory. A last line that was torn when it was killed is left out, and so
    /// are tries that somebody stopped.
    pub fn read(dir: &Path) -> Result<Self, StoredError> {
        let description = Description::<Asked>::read(dir)?;
        let experiment = description.experiment(dir)?;
        let plan = LimitPlan::new(&experiment, description.asked.options.clone());
        let mut plan = plan.map_err(|error| match error {
            PlanError::NoQuick(error) => StoredError::NoQuick(error),
            PlanError::Variant { .. } | PlanError::Generator => {
                StoredError::NotReplayed(dir.join(DESCRIPTION))
            }
        })?;
        plan.steering = description.asked.steering;
        let (mut rounds, journal_bytes) = journal(dir)?;
        rounds.retain(|round| match &round.outcome {
            Outcome::Failed(failure) => failure.kind != FailureKind::Interrupted,
            Outcome::Measured(_) => true,
        });
        let dir = dir.to_owned();
        Ok(Self { dir, experiment, plan, description, rounds, journal_bytes })
    }
}
