//! A search as its directory keeps it: what was asked (`run.json`) and every try (`rounds.jsonl`).
//!
//! Neither answers nor rates are kept: a search is a function of its options and of what its tries
//! showed, so it is gone through again with the rounds in the journal in place of new ones. What is
//! left when they end goes on from there, or is reported as it is.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::{
    bare,
    plan::{LimitOptions, LimitPlan, PlanError},
    steering::Steering,
};
use crate::{
    experiment::{Experiment, Sources, Target},
    host::Host,
    provenance::{self, KeptFile},
    record::{FailureKind, Outcome, RoundRecord},
    report::MachinePart,
    stored::{self, StoredError, journal},
    time,
};

/// Version of the description's shape.
const FORMAT: u32 = 1;
/// What tells it from that of a comparison.
pub(crate) const KIND: &str = "limit";

/// What was asked and where it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Description {
    format: u32,
    kind: String,
    /// The experiment's file, or the script, and the directory paths start from.
    file: PathBuf,
    dir: PathBuf,
    sources: Sources,
    /// Of a script without an experiment: the server's address and the script's environment.
    bare: Option<(String, Vec<(String, String)>)>,
    options: LimitOptions,
    steering: Steering,
    /// RFC 3339 in UTC.
    pub(super) started: String,
    pub(super) resumed: Vec<String>,
    /// `None` of a search that was killed.
    pub(super) finished: Option<String>,
    pub(super) machine: MachinePart,
    pub(super) versions: Vec<(String, String)>,
    files: Vec<KeptFile>,
}

impl Description {
    /// Of a search that begins now.
    pub(super) fn new(experiment: &Experiment, plan: &LimitPlan, host: &dyn Host) -> Self {
        let bare = match &experiment.variants[..] {
            [only] if experiment.sources.file.is_empty() => match &only.target {
                Target::Url(url) => Some((url.clone(), experiment.load.env.clone())),
                _ => None,
            },
            _ => None,
        };
        Self {
            format: FORMAT,
            kind: KIND.to_owned(),
            file: experiment.file.clone(),
            dir: experiment.dir.clone(),
            sources: experiment.sources.clone(),
            bare,
            options: plan.options(),
            steering: plan.steering,
            started: time::rfc3339(SystemTime::now()),
            resumed: Vec::new(),
            finished: None,
            machine: MachinePart::read(),
            versions: host.versions(),
            files: provenance::read(experiment, &plan.plan, host),
        }
    }

    /// Notes that it goes on.
    pub(super) fn resume(&mut self) {
        self.resumed.push(time::rfc3339(SystemTime::now()));
        self.finished = None;
    }

    /// Notes that it ended.
    pub(super) fn end(&mut self) {
        self.finished = Some(time::rfc3339(SystemTime::now()));
    }

    pub(super) fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    fn experiment(&self, path: &Path) -> Result<Experiment, StoredError> {
        if let Some((url, env)) = &self.bare {
            return Ok(bare::stored(&self.file, &self.sources.scripts, url, env));
        }
        let experiment = Experiment::stored(&self.file, &self.dir, &self.sources);
        let path = path.to_owned();
        experiment.map_err(|source| StoredError::Experiment { path, source })
    }
}

/// A search read back.
#[derive(Debug, Clone)]
pub struct StoredLimit {
    /// Its directory.
    pub dir: PathBuf,
    /// What it asked.
    pub experiment: Experiment,
    /// What it was to do, with the seed it had.
    pub plan: LimitPlan,
    pub(super) description: Description,
    pub(super) rounds: Vec<RoundRecord>,
    /// Bytes of the journal that hold whole lines.
    pub(super) journal_bytes: u64,
}

impl StoredLimit {
    /// Reads a search's directory. A last line that was torn when it was killed is left out, and so
    /// are tries that somebody stopped.
    ///
    /// # Errors
    /// See [`StoredError`].
    pub fn read(dir: &Path) -> Result<Self, StoredError> {
        let (path, description): (_, Description) = stored::description(dir, Some(KIND), FORMAT)?;
        let experiment = description.experiment(&path)?;
        let plan = LimitPlan::new(&experiment, description.options.clone());
        let mut plan = plan.map_err(|error| match error {
            PlanError::NoQuick(error) => StoredError::NoQuick(error),
            PlanError::Variant { .. } => StoredError::NotReplayed(path.clone()),
        })?;
        plan.steering = description.steering;
        let (mut rounds, journal_bytes) = journal(dir)?;
        rounds.retain(|round| match &round.outcome {
            Outcome::Failed(failure) => failure.kind != FailureKind::Interrupted,
            Outcome::Measured(_) => true,
        });
        let dir = dir.to_owned();
        Ok(Self { dir, experiment, plan, description, rounds, journal_bytes })
    }

    /// Refuses to go on with another experiment, script, program or machine.
    pub(super) fn check_unchanged(&self, host: &dyn Host) -> Result<(), StoredError> {
        let Description { file, sources, machine, versions, files, .. } = &self.description;
        let mut changed = stored::changed(file, sources, machine, versions, host);
        let now = provenance::read(&self.experiment, &self.plan.plan, host);
        changed.extend(provenance::changed(files, &now));
        if changed.is_empty() { Ok(()) } else { Err(StoredError::Changed(changed)) }
    }
}
