//! Runs a plan: prepares the data, runs the blocks, and stores every round.

mod blocks;
pub(crate) mod cancel;
mod out;
pub mod progress;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use madang_stack::container::ContainerError;

use crate::file::experiment::{Experiment, Target, Variant};
use crate::journal::provenance;
use crate::journal::record::{RoundRecord, Warning};
use crate::journal::stored::{Asked, Description, Kind, Stored, StoredError};
use crate::plan::{Plan, Settings};
use crate::report::{Course, Language, Report};
use crate::round::Bench;
use crate::round::action::{CommandEnv, Runner};
use crate::round::containers::Containers;
use crate::round::host::{Host, HostError};
use crate::round::launch::{self, LaunchError};
use crate::run::cancel::Cancel;
use crate::run::progress::Progress;
use crate::{time, words};
use blocks::Blocks;
use out::create_dir;
pub(crate) use out::{Journal, Out, check_unused, write};

/// Error of a run. Broken rounds are in the report instead.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot prepare the data")]
    Prepare(#[source] HostError),
    #[error("variant `{variant}`")]
    Container { variant: String, source: ContainerError },
    #[error("variant `{variant}`")]
    Nobody { variant: String, source: LaunchError },
    #[error(
        "variant `{variant}`: budget not applied; \"no_budget\" in `accept` of [rounds] runs it without"
    )]
    Budget { variant: String, source: madang_stack::BudgetError },
    #[error("cannot write `{}`", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot remove `{}`", .path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("`{}` is not empty: results are never overwritten, choose another --out", .0.display())]
    NotEmpty(PathBuf),
    #[error("`{}` is in use: the run is still going", .0.display())]
    InUse(PathBuf),
    #[error(transparent)]
    Stored(#[from] StoredError),
}

#[derive(Debug)]
pub struct Finished {
    /// Complete even if it could not be written.
    pub report: Report,
    /// Result of writing the report files.
    pub written: Result<(), RunError>,
}

/// Default results directory: `results/NAME-TIME`.
pub fn default_out(experiment: &Experiment) -> PathBuf {
    let stamp = time::stamp(SystemTime::now());
    Path::new("results").join(format!("{}-{stamp}", experiment.name))
}

/// Mistakes in the settings of variants and in the data.
pub fn check(experiment: &Experiment, host: &dyn Host) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Err(error) = host.check_data(&experiment.data, &experiment.dir) {
        wrong.push(format!("[data]: {error}"));
    }
    for variant in &experiment.variants {
        if let Target::Serve(served) = &variant.target
            && let Err(error) = host.check_serve(served)
        {
            wrong.push(format!("`serve` of [variants.{}]: {error}", variant.name));
        }
    }
    // A `prepare` hook may build the programs.
    if experiment.hooks.prepare.is_none() {
        wrong.extend(experiment.variants.iter().filter_map(|variant| missing(experiment, variant)));
    }
    if experiment.asks_sql() {
        let unknown = |variant: &&Variant| match &variant.target {
            Target::Serve(served) => {
                served.stack.is_none()
                    && host.database(served, Path::new("/")).is_none()
                    && experiment.databases(variant).mysql.is_none()
            }
            _ => false,
        };
        for variant in experiment.variants.iter().filter(unknown) {
            let name = &variant.name;
            wrong.push(format!("[variants.{name}]: its database cannot be asked by `sql`"));
        }
    }
    wrong
}

/// Message about a variant's missing program.
fn missing(experiment: &Experiment, variant: &Variant) -> Option<String> {
    let Target::Command { argv, env, .. } = &variant.target else { return None };
    let program = argv.first()?;
    let is_known = !program.contains('{') && !env.iter().any(|(name, _)| name == "PATH");
    let found = provenance::program(program, &[], &experiment.dir);
    let found = found.is_some_and(|path| provenance::is_program(&path));
    (is_known && !found).then(|| {
        let name = &variant.name;
        format!("`command` of [variants.{name}]: there is no program `{program}` that can be run")
    })
}

/// Runs the plan and writes `run.json`, `rounds.jsonl` and the reports into `out`, which is created if necessary. After
/// `cancel`, or if a block stays broken, the report covers the complete blocks.
///
/// # Errors
/// If no round could start; `out` is then unchanged. Later errors are in [`Finished`], so that no rounds are lost.
pub fn run(
    experiment: &Experiment,
    plan: &Plan,
    host: &dyn Host,
    out: &Path,
    cancel: &Cancel,
    progress: &mut dyn Progress,
) -> Result<Finished, RunError> {
    let out = Out::create(out)?;
    let mut description = Description::new(experiment, plan, host, Asked::new(plan));
    progress.begin(plan);
    let context = RunContext { experiment, plan, host, cancel };
    let begun =
        context.begin(out, &mut description, progress).inspect_err(|_| progress.finish())?;
    Ok(go(context, begun, description, Vec::new(), progress))
}

/// Resumes a run that was interrupted or killed, or whose block stayed broken. Complete blocks stay; the first
/// incomplete one is repeated.
///
/// # Errors
/// If it cannot be resumed; its rounds are then unchanged. Later errors are in [`Finished`].
pub fn resume(
    stored: Stored,
    host: &dyn Host,
    cancel: &Cancel,
    progress: &mut dyn Progress,
) -> Result<Finished, RunError> {
    let Stored { dir, experiment, plan, mut description, rounds, journal_bytes } = stored;
    description.check_unchanged(&experiment, &plan, host)?;
    let reopened = Out::reopen(&dir, journal_bytes)?;
    description.asked.ended = None;
    progress.begin(&plan);
    progress.resumed(rounds.len());
    let context = RunContext { experiment: &experiment, plan: &plan, host, cancel };
    let begun = context.go_on(reopened, &mut description, progress);
    let begun = begun.inspect_err(|_| progress.finish())?;
    Ok(go(context, begun, description, rounds, progress))
}

/// Writes the report of a stored run again, in the run's language by default.
///
/// # Errors
/// If the run is in use, or the report cannot be written.
pub fn report_again(stored: &Stored, language: Option<Language>) -> Result<Report, RunError> {
    check_unused(&stored.dir)?;
    let report = stored.report_in(language.unwrap_or(stored.plan.language));
    out::write_report(&stored.dir, &report)?;
    Ok(report)
}

#[derive(Clone, Copy)]
pub(crate) struct RunContext<'r> {
    pub experiment: &'r Experiment,
    pub plan: &'r Plan,
    pub host: &'r dyn Host,
    pub cancel: &'r Cancel,
}

pub(crate) struct Begun {
    pub out: Out,
    pub journal: Journal,
    pub made: Made,
}

/// Data that rounds start with.
#[derive(Default)]
pub(crate) struct Templates {
    common: Option<PathBuf>,
    /// Data of single variants, by name.
    own: BTreeMap<String, PathBuf>,
}

impl Templates {
    /// `None` for an empty directory.
    pub(crate) fn for_variant(&self, variant: &Variant) -> Option<&Path> {
        self.own.get(&variant.name).or(self.common.as_ref()).map(PathBuf::as_path)
    }
}

/// Data and images, made before the first round.
#[derive(Default)]
pub(crate) struct Made {
    pub templates: Templates,
    pub containers: Containers,
}

impl<'r> RunContext<'r> {
    /// Prepares the rounds in a new directory; leaves nothing behind if that fails.
    pub(crate) fn begin<A: Kind>(
        self,
        out: Out,
        description: &mut Description<A>,
        progress: &mut dyn Progress,
    ) -> Result<Begun, RunError> {
        let begun = out.describe(description.to_json()).and_then(|()| {
            let journal = out.journal()?;
            let made = self.prepare(&out, progress)?;
            description.images = made.containers.digests();
            if !description.images.is_empty() {
                out.describe(description.to_json())?;
            }
            Ok((journal, made))
        });
        if begun.is_err() {
            out.abandon();
        }
        let (journal, made) = begun?;
        Ok(Begun { out, journal, made })
    }

    /// Prepares the rounds in the directory of a resumed run.
    pub(crate) fn go_on<A: Kind>(
        self,
        (out, journal): (Out, Journal),
        description: &mut Description<A>,
        progress: &mut dyn Progress,
    ) -> Result<Begun, RunError> {
        description.resume();
        let described = out.describe(description.to_json());
        let made = described.and_then(|()| self.prepare(&out, progress)).and_then(|made| {
            description.check_images(&made.containers.digests())?;
            Ok(made)
        });
        if made.is_err() {
            // Only the scratch space: rounds stay. This error matters more than one of cleaning.
            let _ = out.clean();
        }
        Ok(Begun { out, journal, made: made? })
    }

    pub(crate) fn bench(self, out: &'r Out, made: &'r Made, settings: &'r Settings) -> Bench<'r> {
        Bench {
            experiment: self.experiment,
            settings,
            host: self.host,
            containers: &made.containers,
            templates: &made.templates,
            work: &out.work,
            logs: &out.logs,
            arrivals: None,
            cancel: self.cancel,
        }
    }

    /// Checks running servers, and makes images and data.
    fn prepare(self, out: &Out, progress: &mut dyn Progress) -> Result<Made, RunError> {
        let Self { experiment, plan, host, cancel } = self;
        for variant in &plan.variants {
            if let Target::Url(url) = &variant.target {
                let nobody = |source| RunError::Nobody { variant: variant.name.clone(), source };
                launch::probe(url).map_err(nobody)?;
            }
            if let Some(budget) = variant.cpus
                && !matches!(variant.target, Target::Container(_))
                && !experiment.rounds.accept.contains(&Warning::NoBudget)
            {
                let refused = |source| RunError::Budget { variant: variant.name.clone(), source };
                budget.probe().map_err(refused)?;
            }
        }
        if plan.has_containers() {
            progress.building();
        }
        let containers = match Containers::prepare(experiment, plan, host, cancel) {
            Err((variant, source)) if !cancel.is_cancelled() => {
                return Err(RunError::Container { variant, source });
            }
            containers => containers.unwrap_or_default(),
        };
        let makes_data = !experiment.data.is_empty() && plan.starts_servers();
        let hook = experiment.hooks.prepare.as_deref();
        if !makes_data && hook.is_none() {
            return Ok(Made { templates: Templates::default(), containers });
        }
        progress.preparing();
        let template = out.work.join("template");
        create_dir(&template)?;
        // Incomplete data are not used: no round starts after cancellation.
        let made = if makes_data {
            host.prepare(&experiment.data, &experiment.dir, &template, cancel)
        } else {
            Ok(())
        };
        let made = made.and_then(|()| {
            let Some(argv) = hook else { return Ok(()) };
            let time_limit = experiment.hooks.time_limit;
            let runner = Runner { host, dir: &experiment.dir, time_limit, cancel };
            let env = CommandEnv { data: Some(&template), ..CommandEnv::default() };
            let run = runner.run(argv, &env);
            run.map(drop).map_err(|error| HostError(error.to_string()))
        });
        let own = made.and_then(|()| {
            let stacks = out.work.join("stacks");
            let mut own = BTreeMap::new();
            for variant in &plan.variants {
                if let Target::Serve(served) = &variant.target
                    && let Some(filled) = host.prepare_stack(served, &template, &stacks, cancel)?
                {
                    own.insert(variant.name.clone(), filled);
                }
            }
            Ok(own)
        });
        match own {
            Err(error) if !cancel.is_cancelled() => Err(RunError::Prepare(error)),
            own => {
                let templates = Templates { common: Some(template), own: own.unwrap_or_default() };
                Ok(Made { templates, containers })
            }
        }
    }
}

fn go(
    context: RunContext<'_>,
    begun: Begun,
    mut description: Description<Asked>,
    rounds: Vec<RoundRecord>,
    progress: &mut dyn Progress,
) -> Finished {
    let Begun { out, journal, made } = begun;
    let RunContext { experiment, plan, .. } = context;
    let bench = context.bench(&out, &made, &plan.settings);
    let mut blocks = Blocks::new(bench, plan, rounds, journal);
    let ended = blocks.run_all(progress);
    progress.finish();
    description.asked.ended = Some(ended);
    description.end();
    let described = out.describe(description.to_json());
    let course = Course { rounds: blocks.rounds, ended, noisy: blocks.noisy };
    let mut report = Report::new(experiment, plan, description.origin(), course);
    report.warnings.extend(blocks.journal.trouble.take());
    report.warnings.extend(described.err().map(|error| words::chain(&error)));
    let written = keep(&out, &mut report);
    Finished { report, written }
}

/// Writes the report before cleaning up, so that no error costs it.
fn keep(out: &Out, report: &mut Report) -> Result<(), RunError> {
    let written = out::write_report(&out.dir, report);
    let cleaned = out.clean();
    if let Err(error) = &cleaned {
        report.warnings.push(words::chain(error));
    }
    // Again, with the new warning or with more room on the disk.
    if written.is_ok() && cleaned.is_ok() { written } else { out::write_report(&out.dir, report) }
}
