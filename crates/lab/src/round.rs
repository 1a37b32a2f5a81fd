//! One round: a fresh process on fresh data, loaded and watched.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use madang_stack::{CpuList, Exit, Output, Process, Spec};

use crate::{
    cancel::Cancel,
    experiment::{Experiment, Variant},
    host::Host,
    launch::{self, LaunchError, RoundDirs, Running},
    load_report::LoadReport,
    observe::{self, MachineUse, Observer},
    plan::Settings,
    record::{
        FOREIGN_LIMIT, Failure, FailureKind, Measured, Outcome, RoundRecord, STEAL_LIMIT, Warning,
    },
    time,
};

/// Time a server gets to stop by itself. Not measured, and long enough to flush what it holds.
const STOP_GRACE: Duration = Duration::from_secs(15);
/// Time the generator gets to end when its round is given up.
const LOAD_GRACE: Duration = Duration::from_secs(1);
/// k6's exit code for "a threshold was crossed": the load itself ran to its end.
const EXIT_THRESHOLDS: i32 = 99;
/// A shell adds the number of the signal to this.
const EXIT_BY_SIGNAL: i32 = 128;
/// Below this share of good requests, response times tell more about refusals than about service.
const GOOD_LIMIT: f64 = 0.99;

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        Self::new(FailureKind::Start, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(FailureKind::Machine, error.to_string())
    }
}

/// Where a round stands in the run.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub block: u32,
    pub attempt: u32,
    pub position: u32,
}

/// What all rounds of a run share.
pub struct Bench<'r> {
    pub experiment: &'r Experiment,
    pub settings: &'r Settings,
    pub host: &'r dyn Host,
    /// The data every round starts with.
    pub template: Option<&'r Path>,
    /// Scratch space; emptied after each round.
    pub work: &'r Path,
    /// Where logs of broken rounds stay.
    pub logs: &'r Path,
    pub cancel: &'r Cancel,
}

impl Bench<'_> {
    /// Runs one round. Whatever happens, no process of it is left and its scratch space is empty.
    pub fn round(&self, slot: Slot, variant: &Variant) -> RoundRecord {
        let begun = Instant::now();
        let started = time::rfc3339(SystemTime::now());
        let outcome = match self.measure(slot, variant) {
            Ok(measured) => Outcome::Measured(Box::new(measured)),
            Err(failure) => Outcome::Failed(failure),
        };
        RoundRecord {
            block: slot.block,
            attempt: slot.attempt,
            position: slot.position,
            variant: variant.name.clone(),
            started,
            took_seconds: begun.elapsed().as_secs_f64(),
            counted: false,
            outcome,
        }
    }

    fn measure(&self, slot: Slot, variant: &Variant) -> Result<Measured, Failure> {
        let files = Files::new(self, slot, variant)?;
        let pinning = if self.settings.pin_cpus { Pinning::choose()? } else { None };
        let dirs = RoundDirs { data: &files.data, log: &files.server_log };
        let server_cpus = pinning.as_ref().map(|pinning| &pinning.server);
        let running = launch::launch(self.experiment, variant, self.host, &dirs, server_cpus)?;
        let measured = self.load(&running, &files, pinning.as_ref());
        let stopped = running.process.as_ref().map(|server| server.stop(STOP_GRACE));
        let mut measured = measured?;
        let exit = stopped.transpose();
        let exit = exit.map_err(|error| Failure::new(FailureKind::Machine, error.to_string()))?;
        if !exit.is_none_or(is_ordinary_stop) {
            measured.warnings.push(Warning::UncleanStop);
        }
        files.discard()?;
        Ok(measured)
    }

    /// Loads a running server and watches it.
    fn load(
        &self,
        running: &Running,
        files: &Files,
        pinning: Option<&Pinning>,
    ) -> Result<Measured, Failure> {
        let mut spec = self.generator(&running.base_url, files);
        if let Some(pinning) = pinning {
            spec = spec.cpus(pinning.generator.clone());
        }
        let generator = self.host.supervisor().spawn(&spec);
        let generator =
            generator.map_err(|error| Failure::new(FailureKind::Load, error.to_string()))?;
        let mut observer = Observer::new(running.process.as_ref(), &generator);
        let exit = self.watch(running, &generator, &mut observer)?;
        if !matches!(exit, Exit::Code(0 | EXIT_THRESHOLDS)) {
            let message = format!("the load generator failed ({exit}){}", generator.stderr_tail());
            return Err(Failure::new(FailureKind::Load, message));
        }
        let load = LoadReport::read(&files.report)
            .map_err(|error| Failure::new(FailureKind::Load, error.to_string()))?;
        let (start, end) = (load.started_at_seconds, load.ended_at_seconds);
        let server = observer.server_use(start, end);
        let machine = observer.machine_use(start, end);
        let warnings = warnings(&load, machine.as_ref(), exit);
        Ok(Measured { load, server, machine, warnings })
    }

    /// Looks at everything ten times a second until the generator has ended.
    fn watch(
        &self,
        running: &Running,
        generator: &Process,
        observer: &mut Observer<'_>,
    ) -> Result<Exit, Failure> {
        let deadline = Instant::now() + self.experiment.rounds.time_limit;
        loop {
            observer.look()?;
            let ended = generator.wait(observe::INTERVAL);
            // Asked last: a server that died just before the load ended has died under load, too.
            if let Some(server) = &running.process
                && let Some(exit) = server.exit()
            {
                let message =
                    format!("the server ended under load ({exit}){}", server.stderr_tail());
                return Err(Failure::new(FailureKind::ServerDied, message));
            }
            if let Some(exit) = ended {
                return Ok(exit);
            }
            let given_up = if self.cancel.is_cancelled() {
                Failure::new(FailureKind::Interrupted, "the run was interrupted")
            } else if Instant::now() >= deadline {
                let limit = self.experiment.rounds.time_limit;
                let message = format!(
                    "the load did not end within {limit:?}; `time_limit` in [rounds] raises that"
                );
                Failure::new(FailureKind::TimeLimit, message)
            } else {
                continue;
            };
            // Asked first, so that the server is not blamed for connections that are cut.
            let _ = generator.stop(LOAD_GRACE);
            return Err(given_up);
        }
    }

    fn generator(&self, base_url: &str, files: &Files) -> Spec {
        let mut command = self.host.generator().into_iter();
        let mut spec = Spec::new(command.next().unwrap_or_default())
            .args(command)
            .arg(&self.experiment.load.script)
            .arg("--report")
            .arg(&files.report)
            .args(["--quiet", "--warm-up"])
            .arg(time::milliseconds(self.settings.warm_up));
        let base_url = ("BASE_URL".to_owned(), base_url.to_owned());
        for (name, value) in self.settings.env.iter().chain([&base_url]) {
            spec = spec.args(["--env".to_owned(), format!("{name}={value}")]);
        }
        if let Some(vus) = self.settings.vus {
            spec = spec.args(["--vus".to_owned(), vus.to_string()]);
        }
        if let Some(duration) = self.settings.duration {
            spec = spec.args(["--duration".to_owned(), time::milliseconds(duration)]);
        }
        spec.dir(&self.experiment.dir)
            .stdout(Output::File(files.load_log.clone()))
            .stderr(Output::File(files.load_log.clone()))
    }
}

/// What a sound server does when it is asked to stop: it ends well, by the signal itself, or like
/// a shell whose command the signal ended.
fn is_ordinary_stop(exit: Exit) -> bool {
    const SIGTERM: i32 = 15;
    matches!(exit, Exit::Code(0) | Exit::Signal(SIGTERM))
        || exit == Exit::Code(EXIT_BY_SIGNAL + SIGTERM)
}

fn warnings(load: &LoadReport, machine: Option<&MachineUse>, exit: Exit) -> Vec<Warning> {
    let steal = machine.map_or(0.0, |machine| machine.steal_share);
    let foreign = machine.and_then(|machine| machine.foreign_cores).unwrap_or(0.0);
    let seen = [
        (Warning::GeneratorLimited, load.generator.limited),
        (Warning::Steal, steal > STEAL_LIMIT),
        (Warning::ForeignCpu, foreign > FOREIGN_LIMIT),
        (Warning::BadRequests, load.good_share().is_some_and(|share| share < GOOD_LIMIT)),
        (Warning::Thresholds, exit == Exit::Code(EXIT_THRESHOLDS)),
    ];
    seen.into_iter().filter_map(|(warning, seen)| seen.then_some(warning)).collect()
}

/// The files of one round.
struct Files {
    scratch: PathBuf,
    data: PathBuf,
    report: PathBuf,
    server_log: PathBuf,
    load_log: PathBuf,
}

impl Files {
    fn new(bench: &Bench<'_>, slot: Slot, variant: &Variant) -> io::Result<Self> {
        let scratch = bench.work.join("round");
        remove(&scratch)?;
        let data = scratch.join("data");
        fs::create_dir_all(&data)?;
        if let Some(template) = bench.template {
            launch::copy_tree(template, &data)?;
        }
        let Slot { block, attempt, .. } = slot;
        let log = |who| bench.logs.join(format!("{block}-{attempt}-{}.{who}.log", variant.name));
        Ok(Self {
            report: scratch.join("load.json"),
            scratch,
            data,
            server_log: log("server"),
            load_log: log("load"),
        })
    }

    /// After a good round: nothing of it is needed any more.
    fn discard(&self) -> io::Result<()> {
        remove(&self.scratch)?;
        remove(&self.server_log)?;
        remove(&self.load_log)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Which CPUs server and generator get, so that neither takes the other's.
struct Pinning {
    server: CpuList,
    generator: CpuList,
}

impl Pinning {
    /// The first half for the server, rounded up, the rest for the generator; `None` with a single
    /// CPU. Two hardware threads of one core count as two CPUs.
    fn choose() -> io::Result<Option<Self>> {
        let allowed = CpuList::allowed()?;
        let cpus = allowed.as_slice();
        let (server, generator) = cpus.split_at(cpus.len().div_ceil(2));
        let lists =
            CpuList::new(server.iter().copied()).zip(CpuList::new(generator.iter().copied()));
        Ok(lists.map(|(server, generator)| Self { server, generator }))
    }
}
