//! Question, options and circumstances of a run: `run.json`, for `compare` and `limit`.

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

/// The file.
pub(crate) const DESCRIPTION: &str = "run.json";

/// Options of one command's runs.
pub(crate) trait Kind: Serialize + DeserializeOwned {
    /// Name of the command in the file; a comparison has none.
    const KIND: Option<&'static str>;
    /// Version of the file's shape.
    const FORMAT: u32;
}

/// Question, options and circumstances of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Description<A> {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// The experiment's file and the directory its paths start from.
    file: PathBuf,
    dir: PathBuf,
    sources: Sources,
    /// RFC 3339 in UTC.
    started: String,
    /// When it was resumed, likewise.
    resumed: Vec<String>,
    machine: MachinePart,
    versions: Vec<(String, String)>,
    /// `None` of a run by a version that did not look at them.
    #[serde(default)]
    files: Option<Vec<KeptFile>>,
    /// Digest of each variant's container image, by the variant's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// `None` of a run that was killed.
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

    /// Reads the description in a run's directory.
    ///
    /// # Errors
    /// When there is none of this command and format.
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

    /// Where and when it ran.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            started: self.started.clone(),
            resumed: self.resumed.clone(),
            finished: self.finished.clone(),
            machine: self.machine.clone(),
            versions: self.versions.clone(),
        }
    }

    /// Its file's text.
    ///
    /// # Errors
    /// When the path of the experiment is no UTF-8, which JSON cannot say.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The experiment, whose script need not be there any more; `dir` holds the run.
    ///
    /// # Errors
    /// When this version accepts less than the one that stored it.
    pub(crate) fn experiment(&self, dir: &Path) -> Result<Experiment, StoredError> {
        let experiment = Experiment::stored(&self.file, &self.dir, &self.sources);
        experiment.map_err(|source| StoredError::Experiment { path: dir.join(DESCRIPTION), source })
    }

    /// Refuses to go on with another experiment, script, program, machine, or file of those that
    /// `provenance.rs` knows.
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

    /// Refuses to go on with other container images.
    ///
    /// # Errors
    /// With the variants whose image changed.
    pub(crate) fn check_images(&self, now: &BTreeMap<String, String>) -> Result<(), StoredError> {
        let others = self.images.iter().filter(|(name, id)| now.get(*name) != Some(id));
        let changed: Vec<String> =
            others.map(|(name, _)| format!("the image of variant `{name}`")).collect();
        if changed.is_empty() { Ok(()) } else { Err(StoredError::Changed(changed)) }
    }
}
