//! Runs a plan: prepares the data, runs block after block, keeps every round.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    action::{Runner, Surroundings},
    cancel::Cancel,
    experiment::{Experiment, Target, Variant},
    host::{Host, HostError},
    launch::{self, LaunchError},
    plan::Plan,
    progress::Progress,
    record::{FailureKind, Outcome, RoundRecord, Warning},
    report::{Course, Ended, Report},
    round::{Bench, Slot},
    time, words,
};

/// Why a run could not begin or be kept. Broken rounds are no such error: they are in the report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data could not be made.
    #[error("cannot prepare the data")]
    Prepare(#[source] HostError),
    /// A `url` variant does not run.
    #[error("variant `{variant}`")]
    Nobody {
        /// Its name.
        variant: String,
        /// What its address says.
        source: LaunchError,
    },
    /// A result cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Scratch space cannot be removed.
    #[error("cannot remove `{}`", .path.display())]
    Remove {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The results' directory has results in it.
    #[error("`{}` is not empty: results are never overwritten, choose another --out", .0.display())]
    NotEmpty(PathBuf),
}

/// What came of a run that began.
#[derive(Debug)]
pub struct Finished {
    /// The report, complete even if it could not be written.
    pub report: Report,
    /// Whether `report.json` and `report.md` are in the results' directory.
    pub written: Result<(), RunError>,
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
        if let Target::Serve(settings) = &variant.target
            && let Err(error) = host.check_serve(settings)
        {
            wrong.push(format!("`serve` of [variants.{}]: {error}", variant.name));
        }
    }
    if experiment.asks_sql() {
        let unknown = |variant: &&Variant| match &variant.target {
            Target::Serve(settings) => host.database(settings, Path::new("/")).is_none(),
            _ => false,
        };
        for variant in experiment.variants.iter().filter(unknown) {
            let name = &variant.name;
            wrong.push(format!("[variants.{name}]: its database cannot be asked by `sql`"));
        }
    }
    wrong
}

/// Runs the plan and writes `rounds.jsonl` (round by round), `report.json` and `report.md` into
/// `out`, which is made if it is not there. When `cancel` is set, or a block stays broken, the
/// report is written from the complete blocks.
///
/// # Errors
/// See [`RunError`]: why no round was run. `out` is then as it was. What fails later is in
/// [`Finished`]: hours of rounds are not thrown away for a full disk.
pub fn run(
    experiment: &Experiment,
    plan: &Plan,
    host: &dyn Host,
    out: &Path,
    cancel: &Cancel,
    progress: &mut dyn Progress,
) -> Result<Finished, RunError> {
    let started = SystemTime::now();
    let out = Out::create(out)?;
    progress.begin(plan);
    let prepared = out.journal().and_then(|journal| {
        Ok((journal, prepare(experiment, plan, host, &out, cancel, progress)?))
    });
    let (journal, template) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            progress.finish();
            out.abandon();
            return Err(error);
        }
    };
    let bench = Bench {
        experiment,
        settings: &plan.settings,
        host,
        template: template.as_deref(),
        work: &out.work,
        logs: &out.logs,
        rate: None,
        cancel,
    };
    let mut blocks =
        Blocks { bench, plan, rounds: Vec::new(), journal, repeats: plan.repeats(), noisy: false };
    let ended = blocks.run_all(progress);
    progress.finish();
    let course = Course { rounds: blocks.rounds, ended, noisy: blocks.noisy, started };
    let mut report = Report::new(experiment, plan, host, course);
    report.warnings.extend(blocks.journal.trouble);
    let written = keep(&out, &mut report);
    Ok(Finished { report, written })
}

/// What has to be there before the first round: servers that should run already, and the data.
fn prepare(
    experiment: &Experiment,
    plan: &Plan,
    host: &dyn Host,
    out: &Out,
    cancel: &Cancel,
    progress: &mut dyn Progress,
) -> Result<Option<PathBuf>, RunError> {
    for variant in &plan.variants {
        if let Target::Url(url) = &variant.target {
            let nobody = |source| RunError::Nobody { variant: variant.name.clone(), source };
            launch::probe(url).map_err(nobody)?;
        }
    }
    let makes_data = !experiment.data.is_empty() && plan.starts_servers();
    let hook = experiment.hooks.prepare.as_deref();
    if !makes_data && hook.is_none() {
        return Ok(None);
    }
    progress.preparing();
    let template = out.work.join("template");
    create_dir(&template)?;
    // What is half made is not used: no round begins once the run is cancelled.
    let made = if makes_data {
        host.prepare(&experiment.data, &experiment.dir, &template, cancel)
    } else {
        Ok(())
    };
    let made = made.and_then(|()| {
        let Some(argv) = hook else { return Ok(()) };
        let time_limit = experiment.hooks.time_limit;
        let runner = Runner { host, dir: &experiment.dir, time_limit, cancel };
        let around = Surroundings { data: Some(&template), ..Surroundings::default() };
        runner.run(argv, &around).map(drop).map_err(HostError)
    });
    match made {
        Err(error) if !cancel.is_cancelled() => Err(RunError::Prepare(error)),
        _ => Ok(Some(template)),
    }
}

/// Writes the report first and tidies up then, so that nothing that fails in between costs it.
fn keep(out: &Out, report: &mut Report) -> Result<(), RunError> {
    let written = out.write_report(report);
    let cleaned = out.clean();
    if let Err(error) = &cleaned {
        report.warnings.push(words::chain(error));
    }
    // Again when there is more to say, or more room on the disk.
    if written.is_ok() && cleaned.is_ok() { written } else { out.write_report(report) }
}

struct Blocks<'r> {
    bench: Bench<'r>,
    plan: &'r Plan,
    rounds: Vec<RoundRecord>,
    journal: Journal,
    /// Rounds that may still be refused.
    repeats: u32,
    /// A round should have been refused when none might be any more. From then on rounds are taken
    /// as they come: the figures are reported, and the verdict is left open.
    noisy: bool,
}

impl Blocks<'_> {
    fn run_all(&mut self, progress: &mut dyn Progress) -> Ended {
        for block in 1..=self.plan.settings.blocks {
            let mut attempt = 1;
            loop {
                let first = self.rounds.len();
                let broke = self.run_block(block, attempt, progress);
                let rounds = &mut self.rounds[first..];
                match broke {
                    None => {
                        rounds
                            .iter_mut()
                            .for_each(|round| round.counted = round.refused.is_empty());
                        break;
                    }
                    Some(FailureKind::Interrupted) => return Ended::Interrupted,
                    Some(_) if attempt > self.plan.settings.retries => {
                        return Ended::Broken { block, attempts: attempt };
                    }
                    Some(_) => attempt += 1,
                }
                progress.again(block, attempt);
            }
        }
        Ended::Complete
    }

    /// Runs every variant once, and stops at the first round that breaks.
    fn run_block(
        &mut self,
        block: u32,
        attempt: u32,
        progress: &mut dyn Progress,
    ) -> Option<FailureKind> {
        for (position, index) in (1..).zip(self.plan.order(block)) {
            let slot = Slot { block, attempt, position };
            // Until it is not refused, or breaks.
            while let Some(ended) = self.run_round(slot, index, progress) {
                if let Some(broke) = ended {
                    return Some(broke);
                }
            }
        }
        None
    }

    /// Runs one round. `None` when it is good, `Some(None)` when it was refused, else how it broke.
    fn run_round(
        &mut self,
        slot: Slot,
        index: usize,
        progress: &mut dyn Progress,
    ) -> Option<Option<FailureKind>> {
        if self.bench.cancel.is_cancelled() {
            return Some(Some(FailureKind::Interrupted));
        }
        let variant = &self.plan.variants[index];
        progress.round(slot.block, &variant.name);
        let mut record = self.bench.round(slot, variant);
        record.refused = self.refusal(&record);
        progress.ended(&record);
        self.journal.append(&record);
        let ended = match &record.outcome {
            Outcome::Failed(failure) => Some(Some(failure.kind)),
            Outcome::Measured(_) => (!record.refused.is_empty()).then_some(None),
        };
        self.rounds.push(record);
        ended
    }

    /// Why a round is refused, as long as rounds may be.
    fn refusal(&mut self, record: &RoundRecord) -> Vec<Warning> {
        let Outcome::Measured(measured) = &record.outcome else { return Vec::new() };
        let refuses = |warning: &&Warning| {
            Warning::REFUSING.iter().any(|(_, refusing)| refusing == *warning)
                && !self.plan.settings.accept.contains(warning)
        };
        let reasons: Vec<Warning> = measured.warnings.iter().filter(refuses).copied().collect();
        if reasons.is_empty() {
            return reasons;
        }
        if self.repeats == 0 {
            self.noisy = true;
            return Vec::new();
        }
        self.repeats -= 1;
        reasons
    }
}

/// One line of JSON per round, written when the round ends: what is left when the lab is killed.
struct Journal {
    path: PathBuf,
    file: File,
    /// Why it is not complete. Nothing follows a line that may have been torn.
    trouble: Option<String>,
}

impl Journal {
    fn append(&mut self, record: &RoundRecord) {
        if self.trouble.is_some() {
            return;
        }
        if let Err(error) = line(record).and_then(|line| self.file.write_all(line.as_bytes())) {
            let place = self.path.display();
            self.trouble = Some(format!("`{place}` is not complete: {error}"));
        }
    }
}

/// Whether a round counts is not known yet when its line is written.
fn line(record: &RoundRecord) -> io::Result<String> {
    let mut value = serde_json::to_value(record)?;
    if let Some(keys) = value.as_object_mut() {
        keys.remove("counted");
    }
    Ok(format!("{value}\n"))
}

/// The results' directory.
struct Out {
    dir: PathBuf,
    /// It was not there before.
    is_new: bool,
    work: PathBuf,
    logs: PathBuf,
}

impl Out {
    fn create(dir: &Path) -> Result<Self, RunError> {
        let is_new = !dir.exists();
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
        Ok(Self { dir, is_new, work, logs })
    }

    fn journal(&self) -> Result<Journal, RunError> {
        let path = self.journal_path();
        let file = File::create(&path);
        let file = file.map_err(|source| RunError::Write { path: path.clone(), source })?;
        Ok(Journal { path, file, trouble: None })
    }

    fn journal_path(&self) -> PathBuf {
        self.dir.join("rounds.jsonl")
    }

    /// Both files, even if one fails.
    fn write_report(&self, report: &Report) -> Result<(), RunError> {
        let json = self.write("report.json", &report.to_json());
        self.write("report.md", &report.to_markdown()).and(json)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|source| RunError::Write { path, source })
    }

    /// Removes the scratch space, and the logs if every round was good.
    fn clean(&self) -> Result<(), RunError> {
        let removed = |path: &Path, result: io::Result<()>| match result {
            Err(source)
                if !matches!(
                    source.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Err(RunError::Remove { path: path.to_owned(), source })
            }
            _ => Ok(()),
        };
        let work = removed(&self.work, fs::remove_dir_all(&self.work));
        removed(&self.logs, fs::remove_dir(&self.logs)).and(work)
    }

    /// Leaves nothing behind of a run that did not begin. The caller has an error to report that
    /// says more than one about this could.
    fn abandon(&self) {
        let _ = fs::remove_dir_all(&self.work);
        let _ = fs::remove_dir_all(&self.logs);
        let _ = fs::remove_file(self.journal_path());
        if self.is_new {
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

fn create_dir(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|source| RunError::Write { path: path.to_owned(), source })
}
