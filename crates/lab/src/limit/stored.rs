//! A search stored in its directory: options (`run.json`) and all tries (`rounds.jsonl`).
//!
//! Results and rates are not stored: a search is a function of its options and of its tries, so it is
//! replayed with the rounds of the journal, and then resumed or reported.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::{LimitOptions, LimitPlan, PlanError};
use super::steering::Steering;
use crate::file::experiment::Experiment;
use crate::journal::record::{FailureKind, Outcome, RoundRecord};
use crate::journal::stored::{DESCRIPTION, Description, Kind, StoredError, journal};

/// Kind of the run; a comparison has none.
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

/// A stored search.
#[derive(Debug, Clone)]
pub struct StoredLimit {
    pub dir: PathBuf,
    pub experiment: Experiment,
    /// The plan, with its seed.
    pub plan: LimitPlan,
    pub(super) description: Description<Asked>,
    pub(super) rounds: Vec<RoundRecord>,
    /// Size in bytes of the complete lines of the journal.
    pub(super) journal_bytes: u64,
}

impl StoredLimit {
    /// Reads a search's directory, without an incomplete last line and interrupted tries.
    ///
    /// # Errors
    /// When a file cannot be read, or this version cannot plan the search.
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
