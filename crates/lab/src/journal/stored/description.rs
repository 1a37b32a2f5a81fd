//! `run.json`: question, options and circumstances of a run, for `compare` and `limit`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StoredError;
use crate::file::experiment::{COMMAND_LINE, Experiment, Sources};
use crate::journal::provenance::{self, KeptFile};
use crate::plan::Plan;
use crate::report::{MachinePart, Origin};
use crate::round::host::Host;
use crate::time;

pub(crate) const DESCRIPTION: &str = "run.json";

/// Options of runs of one command.
pub(crate) trait Kind: Serialize + DeserializeOwned {
    /// Name of the command in the file; `None` for a comparison.
    const KIND: Option<&'static str>;
    /// Version of the file format.
    const FORMAT: u32;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Description<A> {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// The experiment file, and the base of its relative paths.
    file: PathBuf,
    dir: PathBuf,
    sources: Sources,
    /// RFC 3339 in UTC.
    started: String,
    /// RFC 3339 in UTC.
    resumed: Vec<String>,
    machine: MachinePart,
    versions: Vec<(String, String)>,
    /// `None` for runs of versions without digests.
    #[serde(default)]
    files: Option<Vec<KeptFile>>,
    /// Digests of container images by variant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// `None` for a killed run.
    finished: Option<String>,
    #[serde(flatten)]
    pub asked: A,
}

impl<A: Kind> Description<A> {
    pub(crate) fn new(experiment: &Experiment, plan: &Plan, host: &dyn Host, asked: A) -> Self {
        Self {
            format: A::FORMAT,
            kind: A::KIND.map(str::to_owned),
            file: experiment.file.clone(),
            dir: experiment.dir.clone(),
            sources: experiment.sources.clone(),
            started: time::rfc3339(SystemTime::now()),
            resumed: Vec::new(),
            machine: MachinePart::read(),
            versions: host.versions(),
            files: Some(provenance::read(experiment, plan, host)),
            images: BTreeMap::new(),
            finished: None,
            asked,
        }
    }

    /// # Errors
    /// If there is none of this command and format.
    pub(crate) fn read(dir: &Path) -> Result<Self, StoredError> {
        let path = dir.join(DESCRIPTION);
        let shape = |source| StoredError::Shape { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(|source| StoredError::Read {
            dir: dir.to_owned(),
            file: DESCRIPTION,
            source,
        })?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(shape)?;
        if value["kind"].as_str() != A::KIND {
            let other = if A::KIND.is_some() { "compare" } else { "limit" };
            return Err(StoredError::Kind { path, other });
        }
        let found = value["format"].as_u64().and_then(|format| u32::try_from(format).ok());
        if let Some(found) = found.filter(|found| *found != A::FORMAT) {
            return Err(StoredError::Format { path, found, known: A::FORMAT });
        }
        serde_json::from_value(value).map_err(shape)
    }

    pub(crate) fn resume(&mut self) {
        self.resumed.push(time::rfc3339(SystemTime::now()));
        self.finished = None;
    }

    pub(crate) fn end(&mut self) {
        self.finished = Some(time::rfc3339(SystemTime::now()));
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin {
            started: self.started.clone(),
            resumed: self.resumed.clone(),
            finished: self.finished.clone(),
            machine: self.machine.clone(),
            versions: self.versions.clone(),
        }
    }

    /// # Errors
    /// If the path of the experiment is not UTF-8.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Parses the experiment of the run in `dir`; its script may be missing.
    ///
    /// # Errors
    /// If this version accepts less than the one that stored it.
    pub(crate) fn experiment(&self, dir: &Path) -> Result<Experiment, StoredError> {
        let experiment = Experiment::stored(&self.file, &self.dir, &self.sources);
        experiment.map_err(|source| StoredError::Experiment { path: dir.join(DESCRIPTION), source })
    }

    /// # Errors
    /// If the experiment, the script, the program, the machine, or a file that `provenance.rs` knows has changed.
    pub(crate) fn check_unchanged(
        &self,
        experiment: &Experiment,
        plan: &Plan,
        host: &dyn Host,
    ) -> Result<(), StoredError> {
        let has_file = self.file != Path::new(COMMAND_LINE);
        let is_same = || fs::read_to_string(&self.file).is_ok_and(|now| now == self.sources.file);
        let changes = [
            (has_file && !is_same(), format!("`{}`", self.file.display())),
            (host.versions() != self.versions, "the program".to_owned()),
            (MachinePart::read() != self.machine, "the machine".to_owned()),
        ];
        let changes = changes.into_iter();
        let mut changed: Vec<String> =
            changes.filter_map(|(is_other, what)| is_other.then_some(what)).collect();
        if let Some(files) = &self.files {
            let now = provenance::read(experiment, plan, host);
            changed.extend(provenance::changed(files, &now));
        }
        if changed.is_empty() { Ok(()) } else { Err(StoredError::Changed(changed)) }
    }

    /// # Errors
    /// With the variants whose container image changed.
    pub(crate) fn check_images(&self, now: &BTreeMap<String, String>) -> Result<(), StoredError> {
        let others = self.images.iter().filter(|(name, id)| now.get(*name) != Some(id));
        let changed: Vec<String> =
            others.map(|(name, _)| format!("the image of variant `{name}`")).collect();
        if changed.is_empty() { Ok(()) } else { Err(StoredError::Changed(changed)) }
    }
}
