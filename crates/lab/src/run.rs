//! Runs a plan: prepares the data, runs block after block, keeps every round.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    cancel::Cancel,
    experiment::Experiment,
    host::{Host, HostError},
    plan::Plan,
    progress::Progress,
    record::{FailureKind, Outcome, RoundRecord},
    report::{Ended, Report},
    round::{Bench, Slot},
    time,
};

/// Why a run could not begin or be kept. Broken rounds are no such error: they are in the report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data could not be made.
    #[error("cannot prepare the data: {0}")]
    Prepare(#[from] HostError),
    /// A result cannot be written.
    #[error("cannot write `{}`: {source}", .path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The results' directory has results in it.
    #[error("`{}` is not empty: results are never overwritten, choose another --out", .0.display())]
    NotEmpty(PathBuf),
}

/// The directory results go to when none is named: `results/NAME-TIME` below the current one.
#[must_use]
pub fn default_out(experiment: &Experiment) -> PathBuf {
    let stamp = time::stamp(SystemTime::now());
    Path::new("results").join(format!("{}-{stamp}", experiment.name))
}

/// What a variant's settings or the data have wrong, by name; empty when nothing is.
#[must_use]
pub fn check(experiment: &Experiment, host: &dyn Host) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Err(error) = host.check_data(&experiment.data, &experiment.dir) {
        wrong.push(format!("[data]: {error}"));
    }
    for variant in &experiment.variants {
        if let crate::experiment::Target::Serve(settings) = &variant.target
            && let Err(error) = host.check_serve(settings)
        {
            wrong.push(format!("`serve` of [variants.{}]: {error}", variant.name));
        }
    }
    wrong
}

/// Runs the plan and writes `rounds.jsonl` (round by round), `report.json` and `report.md` into
/// `out`, which is made if it is not there. When `cancel` is set, or a block stays broken, the
/// report is written from the complete blocks.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    experiment: &Experiment,
    plan: &Plan,
    host: &dyn Host,
    out: &Path,
    cancel: &Cancel,
    progress: &mut dyn Progress,
) -> Result<Report, RunError> {
    let started = SystemTime::now();
    let out = Out::create(out)?;
    progress.begin(plan);
    let template = out.work.join("template");
    let template = if !experiment.data.is_empty() && plan.starts_servers() {
        progress.preparing();
        create_dir(&template)?;
        host.prepare(&experiment.data, &experiment.dir, &template)?;
        Some(template)
    } else {
        None
    };
    let bench = Bench {
        experiment,
        settings: &plan.settings,
        host,
        template: template.as_deref(),
        work: &out.work,
        logs: &out.logs,
        cancel,
    };
    let mut blocks = Blocks { bench, plan, rounds: Vec::new(), journal: out.journal()? };
    let ended = blocks.run_all(progress)?;
    let rounds = blocks.rounds;
    progress.finish();
    out.clean()?;
    let report = Report::new(experiment, plan, host, rounds, ended, started);
    out.write("report.json", &report.to_json())?;
    out.write("report.md", &report.to_markdown())?;
    Ok(report)
}

struct Blocks<'r> {
    bench: Bench<'r>,
    plan: &'r Plan,
    rounds: Vec<RoundRecord>,
    journal: Journal,
}

impl Blocks<'_> {
    fn run_all(&mut self, progress: &mut dyn Progress) -> Result<Ended, RunError> {
        for block in 1..=self.plan.settings.blocks {
            let mut attempt = 1;
            loop {
                let first = self.rounds.len();
                let broke = self.run_block(block, attempt, progress)?;
                let rounds = &mut self.rounds[first..];
                match broke {
                    None => {
                        rounds.iter_mut().for_each(|round| round.counted = true);
                        break;
                    }
                    Some(FailureKind::Interrupted) => return Ok(Ended::Interrupted),
                    Some(_) if attempt > self.plan.settings.retries => {
                        return Ok(Ended::Broken { block, attempts: attempt });
                    }
                    Some(_) => attempt += 1,
                }
                progress.again(block, attempt);
            }
        }
        Ok(Ended::Complete)
    }

    /// Runs every variant once, and stops at the first round that breaks.
    fn run_block(
        &mut self,
        block: u32,
        attempt: u32,
        progress: &mut dyn Progress,
    ) -> Result<Option<FailureKind>, RunError> {
        for (position, index) in (1..).zip(self.plan.order(block)) {
            if self.bench.cancel.is_cancelled() {
                return Ok(Some(FailureKind::Interrupted));
            }
            let variant = &self.plan.variants[index];
            progress.round(block, &variant.name);
            let record = self.bench.round(Slot { block, attempt, position }, variant);
            progress.ended(&record);
            self.journal.append(&record)?;
            let broke = match &record.outcome {
                Outcome::Failed(failure) => Some(failure.kind),
                Outcome::Measured(_) => None,
            };
            self.rounds.push(record);
            if broke.is_some() {
                return Ok(broke);
            }
        }
        Ok(None)
    }
}

/// One line of JSON per round, written when the round ends: what is left when the lab is killed.
struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    fn append(&mut self, record: &RoundRecord) -> Result<(), RunError> {
        let written = serde_json::to_string(record)
            .map_err(io::Error::from)
            .and_then(|line| writeln!(self.file, "{line}"));
        written.map_err(|source| RunError::Write { path: self.path.clone(), source })
    }
}

/// The results' directory.
struct Out {
    dir: PathBuf,
    work: PathBuf,
    logs: PathBuf,
}

impl Out {
    fn create(dir: &Path) -> Result<Self, RunError> {
        create_dir(dir)?;
        let write = |source| RunError::Write { path: dir.to_owned(), source };
        // Absolute, because generator and servers run in other directories.
        let dir = dir.canonicalize().map_err(write)?;
        if fs::read_dir(&dir).map_err(write)?.next().is_some() {
            return Err(RunError::NotEmpty(dir));
        }
        let (work, logs) = (dir.join("work"), dir.join("logs"));
        create_dir(&work)?;
        create_dir(&logs)?;
        Ok(Self { dir, work, logs })
    }

    fn journal(&self) -> Result<Journal, RunError> {
        let path = self.dir.join("rounds.jsonl");
        let file = File::create(&path);
        let file = file.map_err(|source| RunError::Write { path: path.clone(), source })?;
        Ok(Journal { path, file })
    }

    fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|source| RunError::Write { path, source })
    }

    /// Removes the scratch space, and the logs if every round was good.
    fn clean(&self) -> Result<(), RunError> {
        let removed = fs::remove_dir_all(&self.work);
        removed.map_err(|source| RunError::Write { path: self.work.clone(), source })?;
        match fs::remove_dir(&self.logs) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(RunError::Write { path: self.logs.clone(), source: error })
            }
            _ => Ok(()),
        }
    }
}

fn create_dir(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|source| RunError::Write { path: path.to_owned(), source })
}
