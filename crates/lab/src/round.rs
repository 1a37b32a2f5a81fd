//! One round: a fresh process on fresh data, loaded and watched.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use madang_stack::{CpuList, Exit, Output, Patience, Process, Spec};

use crate::{
    cancel::Cancel,
    copy::{self, CopyError},
    experiment::{Experiment, Variant},
    host::Host,
    launch::{self, Conditions, LaunchError, Running, without_shell},
    load_report::LoadReport,
    observe::{self, MachineUse, Observer},
    plan::Settings,
    record::{
        FOREIGN_LIMIT, Failure, FailureKind, GOOD_LIMIT, Measured, Outcome, Pinned, RoundRecord,
        STEAL_LIMIT, Warning,
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
/// What server and generator may print in a round. Files, because a reader in the lab would take
/// CPU time from what is measured; bounded, because a server that logs every request fills a disk.
const LOG_BYTES: u64 = 64 << 20;

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
        let running = self.launch(variant, &files, pinning.as_ref())?;
        let measured = self.load(&running, &files, pinning.as_ref());
        // After Ctrl-C, nobody waits for what the server still holds.
        let grace = || self.cancel.is_cancelled();
        let grace = Patience::new(STOP_GRACE, &grace);
        let stopped = running.process.as_ref().map(|server| server.stop(grace));
        let mut measured = measured?;
        let exit = stopped.transpose();
        let exit = exit.map_err(|error| Failure::because(FailureKind::Machine, &error))?;
        if !exit.is_none_or(is_ordinary_stop) && !self.cancel.is_cancelled() {
            measured.warnings.push(Warning::UncleanStop);
        }
        if files.discard().is_err() {
            measured.warnings.push(Warning::LeftFiles);
        }
        Ok(measured)
    }

    fn launch(
        &self,
        variant: &Variant,
        files: &Files,
        pinning: Option<&Pinning>,
    ) -> Result<Running, Failure> {
        let give_up = || self.must_stop(files).is_some();
        let conditions = Conditions {
            data: &files.data,
            log: &files.server_log,
            cpus: pinning.map(|pinning| &pinning.server),
            patience: Patience::new(self.experiment.rounds.start_limit, &give_up),
        };
        let running = launch::launch(self.experiment, variant, self.host, &conditions);
        running.map_err(|error| {
            let given_up =
                matches!(error, LaunchError::Process(madang_stack::Error::GivenUp { .. }));
            let why = if given_up { self.must_stop(files) } else { None };
            why.unwrap_or_else(|| Failure::because(FailureKind::Start, &error))
        })
    }

    /// Why a round has to be given up at once, if it has.
    fn must_stop(&self, files: &Files) -> Option<Failure> {
        if self.cancel.is_cancelled() {
            return Some(Failure::new(FailureKind::Interrupted, "the run was interrupted"));
        }
        let too_long = |log: &&PathBuf| fs::metadata(log).is_ok_and(|log| log.len() > LOG_BYTES);
        let log = [&files.server_log, &files.load_log].into_iter().find(too_long)?;
        let who = if log == &files.server_log { "server" } else { "load generator" };
        let message = format!(
            "the {who} printed more than {} MiB in one round; make it log less",
            LOG_BYTES >> 20
        );
        Some(Failure::new(FailureKind::Output, message))
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
        let failed = |error: &dyn std::error::Error| Failure::because(FailureKind::Load, error);
        let generator = self.host.supervisor().spawn(&spec).map_err(|error| failed(&error))?;
        let mut observer = Observer::new(running.process.as_ref(), &generator);
        let exit = self.watch(running, files, &generator, &mut observer)?;
        if !matches!(exit, Exit::Code(0 | EXIT_THRESHOLDS)) {
            let message = format!("the load generator failed ({exit}){}", generator.stderr_tail());
            return Err(Failure::new(FailureKind::Load, message));
        }
        let load = LoadReport::read(&files.report).map_err(|error| failed(&error))?;
        let (start, end) = (load.started_at_seconds, load.ended_at_seconds);
        let server = observer.server_use(start, end);
        let machine = observer.machine_use(start, end);
        let cpus = pinning.map(|pinning| Pinned {
            server: running.process.as_ref().map(|_| pinning.server.to_string()),
            generator: pinning.generator.to_string(),
        });
        let mut warnings = warnings(&load, machine.as_ref(), exit);
        if running.process.is_some() && pinning.is_some_and(|pinning| pinning.one_core) {
            warnings.push(Warning::SharedCore);
        }
        Ok(Measured { load, server, machine, cpus, warnings })
    }

    /// Looks at everything ten times a second until the generator has ended.
    fn watch(
        &self,
        running: &Running,
        files: &Files,
        generator: &Process,
        observer: &mut Observer<'_>,
    ) -> Result<Exit, Failure> {
        let broken = |error: io::Error| {
            Failure::new(FailureKind::Machine, format!("cannot observe the machine: {error}"))
        };
        let deadline = Instant::now() + self.experiment.rounds.time_limit;
        loop {
            observer.look().map_err(broken)?;
            let ended = generator.wait(observe::INTERVAL);
            if ended.is_some() {
                // The window ends after the last look; without this one, what the server used in
                // between would be missing.
                observer.look().map_err(broken)?;
            }
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
            let given_up = if let Some(failure) = self.must_stop(files) {
                failure
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
            .args(["--include-system-env-vars=false", "--quiet", "--warm-up"])
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
        spec = without_shell(spec, self.host);
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
    fn new(bench: &Bench<'_>, slot: Slot, variant: &Variant) -> Result<Self, Failure> {
        let scratch = bench.work.join("round");
        let data = scratch.join("data");
        let broken = |what: &str, error: io::Error| {
            Failure::new(FailureKind::Machine, format!("cannot {what}: {error}"))
        };
        remove(&scratch)
            .and_then(|()| fs::create_dir_all(&data))
            .map_err(|error| broken(&format!("empty `{}`", scratch.display()), error))?;
        if let Some(template) = bench.template {
            copy::tree(template, &data, bench.cancel).map_err(|error| match error {
                CopyError::Cancelled => {
                    Failure::new(FailureKind::Interrupted, "the run was interrupted")
                }
                CopyError::Io { path, source } => {
                    broken(&format!("copy the data: `{}`", path.display()), source)
                }
            })?;
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
    /// There is one core only: what they get are hardware threads of it.
    one_core: bool,
}

impl Pinning {
    fn choose() -> Result<Option<Self>, Failure> {
        let allowed = CpuList::allowed().map_err(|error| {
            let message = format!("cannot find out which CPUs may be used: {error}");
            Failure::new(FailureKind::Machine, message)
        })?;
        Ok(Self::split(&allowed.cores()))
    }

    /// The first half of the cores for the server, rounded up, the rest for the generator: two
    /// hardware threads of one core share its execution units, so that a busy generator would slow
    /// the server down. A single core is split all the same. `None` with a single CPU.
    fn split(cores: &[Vec<usize>]) -> Option<Self> {
        let single: Vec<Vec<usize>>;
        let one_core = cores.len() == 1;
        let parts = if one_core {
            single = cores.concat().into_iter().map(|cpu| vec![cpu]).collect();
            &single
        } else {
            cores
        };
        let (server, generator) = parts.split_at(parts.len().div_ceil(2));
        let server = CpuList::new(server.concat())?;
        Some(Self { server, generator: CpuList::new(generator.concat())?, one_core })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_generator_share_no_core_unless_there_is_only_one() {
        let split = |cores: &[&[usize]]| {
            let cores: Vec<Vec<usize>> = cores.iter().map(|core| core.to_vec()).collect();
            let pinning = Pinning::split(&cores)?;
            Some((pinning.server.to_string(), pinning.generator.to_string(), pinning.one_core))
        };
        let expected = |server: &str, generator: &str, one_core| {
            Some((server.to_owned(), generator.to_owned(), one_core))
        };
        assert_eq!(split(&[&[0, 2], &[1, 3]]), expected("0,2", "1,3", false));
        assert_eq!(split(&[&[0], &[1], &[2]]), expected("0,1", "2", false));
        assert_eq!(split(&[&[0, 1]]), expected("0", "1", true));
        assert_eq!(split(&[&[0]]), None);
    }
}
