//! Runs one round, or two as a pair: starts a process on fresh data, loads and watches it, and checks invariants.

pub(crate) mod action;
pub(crate) mod containers;
pub(crate) mod copy;
mod files;
pub mod host;
pub(crate) mod launch;
mod meeting;
mod pacer;
mod pinning;
mod processes;
mod sampler;
pub(crate) mod values;
mod watch;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, fs, io};

use madang_stack::{Error, Exit, Output, Patience, Spec};

use crate::file::experiment::{Experiment, Variant};
use crate::journal::record::{
    FOREIGN_LIMIT, Failure, FailureKind, GOOD_LIMIT, Measured, Outcome, Pinned, RoundRecord,
    STEAL_LIMIT, Warning,
};
use crate::load::generator::{Arrivals, Generator};
use crate::load::report::{Check, LoadReport};
use crate::observe::database::Watching;
use crate::observe::{MachineUse, Observer};
use crate::plan::Settings;
use crate::round::action::{CommandEnv, Runner};
use crate::round::containers::Containers;
use crate::round::host::Host;
use crate::round::launch::{Conditions, LaunchError, Running};
use crate::round::values::{Moment, ValueReader};
use crate::run::Templates;
use crate::run::cancel::Cancel;
use crate::time;
use files::Files;
use meeting::{Meeting, note_apart};
pub(crate) use pacer::Pace;
use pacer::Pacer;
use pinning::Pinning;
use processes::Processes;
use sampler::Sampler;
use watch::Watch;

/// Grace period of a server; not measured, and long enough to flush data.
const STOP_GRACE: Duration = Duration::from_secs(15);
/// Time during which a server is watched after the load.
const AFTERWARDS: Duration = Duration::from_millis(200);
/// A server that then uses more cores,
const BUSY_CORES: f64 = 0.05;
/// and more than this share of those under load, has not finished its work.
const BUSY_SHARE: f64 = 0.1;
/// Exit code of k6 for a crossed threshold; the load is complete.
const EXIT_THRESHOLDS: i32 = 99;
/// Exit code of k6 for `exec.test.fail()`; the load is complete.
const EXIT_MARKED_AS_FAILED: i32 = 110;
/// Shells add the number of the signal.
const EXIT_BY_SIGNAL: i32 = 128;
/// Limit of a log of server or generator. Logs are files, because a reader in the lab would take CPU time.
const LOG_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundPosition {
    pub block: u32,
    pub attempt: u32,
    pub position: u32,
}

/// The partner of a round in a pair.
#[derive(Clone, Copy)]
struct Partner<'c> {
    variant: &'c str,
    meeting: &'c Meeting,
}

/// State that all rounds of a run share.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'r> {
    pub experiment: &'r Experiment,
    pub settings: &'r Settings,
    pub host: &'r dyn Host,
    pub containers: &'r Containers,
    pub templates: &'r Templates,
    /// Scratch space; emptied after each round.
    pub work: &'r Path,
    /// Directory of the logs of broken rounds.
    pub logs: &'r Path,
    /// Arrival rate instead of the script's options.
    pub arrivals: Option<Arrivals>,
    pub cancel: &'r Cancel,
}

impl Bench<'_> {
    /// Runs one round. It leaves no process, and no scratch files unless it broke.
    pub(crate) fn round(&self, place: RoundPosition, variant: &Variant) -> RoundRecord {
        self.record(place, variant, None)
    }

    /// Runs two rounds at the same time: the servers start one after the other, then both loads start together. If one
    /// round breaks, the other is cancelled and leaves no record.
    pub(crate) fn pair(&self, place: RoundPosition, variants: [&Variant; 2]) -> Vec<RoundRecord> {
        let cancel = self.cancel.below();
        let bench = Bench { cancel: &cancel, ..*self };
        let meeting = Meeting::default();
        let [first, second] = variants;
        let later = RoundPosition { position: place.position + 1, ..place };
        let run = |place: RoundPosition, variant: &Variant, beside: &Variant| {
            let _guard = CancelOnPanic(&cancel);
            let partner = Partner { variant: &beside.name, meeting: &meeting };
            let record = bench.record(place, variant, Some(partner));
            if record.failure().is_some() {
                cancel.cancel();
            }
            record
        };
        let mut records = std::thread::scope(|scope| {
            let one = scope.spawn(|| run(place, first, second));
            // The second server starts when the first one is up; the order alternates between blocks.
            let other = meeting.wait_for_first(&cancel).then(|| run(later, second, first));
            let one = one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            [Some(one), other].into_iter().flatten().collect::<Vec<_>>()
        });
        if !self.cancel.is_cancelled() && records.iter().any(|one| one.failure().is_some()) {
            let is_cause = |failure: &Failure| failure.kind != FailureKind::Interrupted;
            records.retain(|one| one.failure().is_some_and(is_cause));
        }
        note_apart(&mut records);
        records
    }

    fn record(
        &self,
        place: RoundPosition,
        variant: &Variant,
        partner: Option<Partner<'_>>,
    ) -> RoundRecord {
        let begun = Instant::now();
        let started = time::rfc3339(SystemTime::now());
        let outcome = match self.measure(place, variant, partner) {
            Ok(measured) => Outcome::Measured(Box::new(measured)),
            Err(failure) => Outcome::Failed(failure),
        };
        RoundRecord {
            block: place.block,
            attempt: place.attempt,
            position: place.position,
            variant: variant.name.clone(),
            beside: partner.map(|partner| partner.variant.to_owned()),
            started,
            took_seconds: begun.elapsed().as_secs_f64(),
            counted: false,
            refused: Vec::new(),
            outcome,
        }
    }

    fn measure(
        &self,
        place: RoundPosition,
        variant: &Variant,
        partner: Option<Partner<'_>>,
    ) -> Result<Measured, Failure> {
        let files = Files::new(self, place, variant, partner.map(|partner| partner.variant))?;
        let pinning = if self.settings.pin_cpus { Pinning::choose()? } else { None };
        let round =
            RoundContext { place, variant, partner, files: &files, pinning: pinning.as_ref() };
        let mut running = self.launch(&round, None)?;
        if let Some(partner) = partner {
            partner.meeting.arrive();
        }
        let measured = self.load(&round, &mut running);
        // After Ctrl-C, the server gets no grace period.
        let grace = || self.cancel.is_cancelled();
        let grace = Patience::new(STOP_GRACE, &grace);
        let stopped = running.process.as_ref().map(|server| server.stop(grace));
        let mut measured = measured?;
        if running.without_budget {
            measured.warnings.push(Warning::NoBudget);
        }
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

    /// Starts the variant, on its earlier `address` after a restart.
    fn launch(&self, round: &RoundContext<'_>, address: Option<&str>) -> Result<Running, Failure> {
        let files = round.files;
        let give_up = || self.must_stop(files).is_some();
        let conditions = Conditions {
            containers: self.containers,
            data: &files.data,
            log: &files.server_log,
            cpus: round.pinning.map(|pinning| &pinning.server),
            patience: Patience::new(self.experiment.rounds.start_limit, &give_up),
            address,
        };
        let running = launch::launch(self.experiment, round.variant, self.host, &conditions);
        running.map_err(|error| {
            if let LaunchError::Process(Error::GivenUp { .. }) = error
                && let Some(why) = self.must_stop(files)
            {
                return why;
            }
            let mut failure = Failure::because(error.kind(), &error);
            if let LaunchError::Process(Error::NotReady { listens, .. }) = &error {
                failure.kind = FailureKind::StartLimit;
                failure.message.push_str(match listens {
                    Some(_) => "\nlet it listen at `{port}`, or name its port in `ready`",
                    None => "\n`start_limit` in [rounds] raises that",
                });
            }
            failure
        })
    }

    /// Reason to give up the round at once.
    fn must_stop(&self, files: &Files) -> Option<Failure> {
        if self.cancel.is_cancelled() {
            return Some(interrupted());
        }
        let too_long =
            |log: &&std::path::PathBuf| fs::metadata(log).is_ok_and(|log| log.len() > LOG_BYTES);
        let log = [&files.server_log, &files.load_log].into_iter().find(too_long)?;
        let who = if log == &files.server_log { "server" } else { "load generator" };
        let message = format!(
            "the {who} printed more than {} MiB in one round; make it log less",
            LOG_BYTES >> 20
        );
        Some(Failure::new(FailureKind::Output, message))
    }

    /// Loads a running server, watches it, and checks the invariants.
    fn load(&self, round: &RoundContext<'_>, running: &mut Running) -> Result<Measured, Failure> {
        let (experiment, files) = (self.experiment, round.files);
        self.hook(experiment.hooks.reset.as_deref(), round, running)?;
        let before = self.value_reader(round, running).take(Moment::Before);
        let before = before.map_err(|why| self.unless_cancelled(FailureKind::Value, why))?;
        // Figures of databases do not include the lab's own queries before and after.
        let watching = Watching::begin(&running.databases, self.cancel);
        let watching = watching.map_err(|why| self.unless_cancelled(FailureKind::Database, why))?;
        let mut spec = self.generator(&running.base_url, round);
        if let Some(pinning) = round.pinning {
            spec = spec.cpus(pinning.generator.clone());
        }
        if let Some(partner) = round.partner
            && !partner.meeting.wait_for_both(self.cancel)
        {
            return Err(interrupted());
        }
        let failed = |error: &dyn std::error::Error| Failure::because(FailureKind::Load, error);
        let processes = Processes::begin(&running.processes);
        let generator = self.host.supervisor().spawn(&spec).map_err(|error| failed(&error))?;
        let mut observer = Observer::new(running, &generator);
        let sampler = Sampler::begin(&running.metrics, &experiment.observe.metrics);
        let cpus = round.pinning.map(|pinning| &pinning.server);
        let is_timed = running.process.is_some() && round.partner.is_none();
        let pacer = if is_timed { Pacer::begin(cpus) } else { None };
        let watch = Watch::new(self, round, &generator, &mut observer, &watching);
        let (exit, events) = watch.run(running)?;
        let samples = sampler.map(Sampler::end);
        let paces = pacer.map(Pacer::end);
        if !is_whole_load(exit) {
            let message = format!("the load generator failed ({exit}){}", generator.stderr_tail());
            return Err(Failure::new(FailureKind::Load, message));
        }
        let load = LoadReport::read(&files.report).map_err(|error| failed(&error))?;
        let cores_afterwards = self.drain(round, running, &mut observer)?;
        let processes = processes.end();
        let databases = watching.end(self.cancel);
        let databases =
            databases.map_err(|why| self.unless_cancelled(FailureKind::Database, why))?;
        let after = self.value_reader(round, running).take(Moment::After);
        let after = after.map_err(|why| self.unless_cancelled(FailureKind::Value, why))?;
        let invariants = values::check(experiment, &round.variant.name, &before, &after, &load);
        let invariants = invariants.map_err(|why| Failure::because(FailureKind::Value, &why))?;
        let (start, end) = (load.started_at_seconds, load.ended_at_seconds);
        let step = load.series.as_ref().map_or(1.0, |series| f64::from(series.step_seconds.max(1)));
        let pace = paces.and_then(|paces| paces.between(start, end));
        let mut machine = observer.machine_use(start, end, pace);
        // The observer would count the partner as foreign.
        if let Some(machine) = machine.as_mut().filter(|_| round.partner.is_some()) {
            machine.foreign_cores = None;
        }
        let drained = experiment.hooks.drain.is_some();
        let server = observer.server_use(start, end, step, drained);
        let mut process_memory = observer.memory_of_groups(start, end);
        process_memory.retain(|name, _| processes.contains_key(name));
        let mut warnings = warnings(&load, machine.as_ref(), exit, round.sharing(running));
        if let Some(server) = &server {
            let cores = server.cpu_seconds.map(|cpu| cpu / load.duration_seconds);
            warnings.extend(cores.is_none().then_some(Warning::CpuUnknown));
            let is_busy = cores
                .zip(cores_afterwards)
                .is_some_and(|(cores, afterwards)| afterwards > BUSY_CORES.max(cores * BUSY_SHARE));
            warnings.extend(is_busy.then_some(Warning::BusyAfterLoad));
        }
        Ok(Measured {
            server,
            cpus: round.pinning.map(|pinning| Pinned {
                server: running.process.as_ref().map(|_| pinning.server.to_string()),
                generator: pinning.generator.to_string(),
            }),
            warnings,
            machine,
            load,
            invariants,
            observed: values::observed(experiment, &before, &after, &|place| {
                let samples = samples.as_ref();
                samples.map_or_else(Vec::new, |samples| samples.steps(place, start, end, step))
            }),
            databases,
            processes,
            process_memory,
            events,
        })
    }

    /// Runs the `drain` hook; without one, returns the number of cores that the server still uses.
    fn drain(
        &self,
        round: &RoundContext<'_>,
        running: &Running,
        observer: &mut Observer<'_>,
    ) -> Result<Option<f64>, Failure> {
        let broken = |error: io::Error| Failure::because(FailureKind::Machine, &error);
        if let Some(argv) = &self.experiment.hooks.drain {
            self.hook(Some(argv), round, running)?;
            observer.look_closely().map_err(broken)?;
            return Ok(None);
        }
        // A capacity search does not report costs.
        if running.process.is_none() || self.arrivals.is_some() {
            return Ok(None);
        }
        observer.cores_for(AFTERWARDS).map_err(broken)
    }

    fn hook(
        &self,
        argv: Option<&[String]>,
        round: &RoundContext<'_>,
        running: &Running,
    ) -> Result<(), Failure> {
        let Some(argv) = argv else { return Ok(()) };
        let run = self.runner().run(argv, &self.command_env(round, running));
        run.map(drop).map_err(|why| self.unless_cancelled(FailureKind::Hook, why))
    }

    fn unless_cancelled(&self, kind: FailureKind, why: impl fmt::Display) -> Failure {
        if self.cancel.is_cancelled() { interrupted() } else { Failure::new(kind, why.to_string()) }
    }

    fn runner(&self) -> Runner<'_> {
        Runner {
            host: self.host,
            dir: &self.experiment.dir,
            time_limit: self.experiment.hooks.time_limit,
            cancel: self.cancel,
        }
    }

    fn command_env<'s>(&self, round: &'s RoundContext<'_>, running: &'s Running) -> CommandEnv<'s> {
        CommandEnv {
            variant: Some(&round.variant.name),
            block: Some(round.place.block),
            base_url: Some(&running.base_url),
            metrics: &running.metrics,
            database: running.database.as_deref(),
            databases: Some(&running.databases),
            data: running.process.as_ref().map(|_| round.files.data.as_path()),
            pid: running.process.as_ref().map(|process| process.pid()),
        }
    }

    fn value_reader<'s>(
        &'s self,
        round: &'s RoundContext<'_>,
        running: &'s Running,
    ) -> ValueReader<'s> {
        ValueReader {
            experiment: self.experiment,
            variant: &round.variant.name,
            runner: self.runner(),
            env: self.command_env(round, running),
        }
    }

    fn generator(&self, base_url: &str, round: &RoundContext<'_>) -> Spec {
        let Self { experiment, settings, host, arrivals, .. } = *self;
        let files = round.files;
        Generator { experiment, settings, host, arrivals }
            .load(round.variant, base_url, &files.report, &files.started)
            .stdout(Output::File(files.load_log.clone()))
            .stderr(Output::File(files.load_log.clone()))
    }
}

/// Cancels a pair when one of its rounds panics: otherwise the other would wait for it forever.
struct CancelOnPanic<'c>(&'c Cancel);

impl Drop for CancelOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel();
        }
    }
}

fn is_whole_load(exit: Exit) -> bool {
    matches!(exit, Exit::Code(0 | EXIT_THRESHOLDS | EXIT_MARKED_AS_FAILED))
}

/// True if a server stopped as requested: with success, by the signal, or like a shell whose command the signal ended.
fn is_ordinary_stop(exit: Exit) -> bool {
    const SIGTERM: i32 = 15;
    matches!(exit, Exit::Code(0) | Exit::Signal(SIGTERM))
        || exit == Exit::Code(EXIT_BY_SIGNAL + SIGTERM)
}

struct RoundContext<'s> {
    place: RoundPosition,
    variant: &'s Variant,
    partner: Option<Partner<'s>>,
    files: &'s Files,
    pinning: Option<&'s Pinning>,
}

impl RoundContext<'_> {
    /// Warning if server and generator slowed each other down.
    fn sharing(&self, running: &Running) -> Option<Warning> {
        running.process.as_ref()?;
        match self.pinning {
            None => Some(Warning::SharedCpus),
            Some(pinning) => pinning.one_core.then_some(Warning::SharedCore),
        }
    }
}

fn interrupted() -> Failure {
    Failure::new(FailureKind::Interrupted, "the run was interrupted")
}

fn warnings(
    load: &LoadReport,
    machine: Option<&MachineUse>,
    exit: Exit,
    sharing: Option<Warning>,
) -> Vec<Warning> {
    let steal = machine.map_or(0.0, |machine| machine.steal_share);
    let foreign = machine.and_then(|machine| machine.foreign_cores).unwrap_or(0.0);
    // On shared CPUs, the generator waits for the server.
    let starved_by_server = load.generator.starved && sharing == Some(Warning::SharedCpus);
    let limited = load.generator.limited && !starved_by_server;
    let seen = [
        (Warning::GeneratorLimited, limited),
        (Warning::Dropped, load.has_dropped()),
        (Warning::Steal, steal > STEAL_LIMIT),
        (Warning::ForeignCpu, foreign > FOREIGN_LIMIT),
        (Warning::BadRequests, load.good_share().is_some_and(|share| share < GOOD_LIMIT)),
        (Warning::Exceptions, load.threw_share() > 1.0 - GOOD_LIMIT),
        (Warning::FailedChecks, load.checks.iter().any(Check::has_failed)),
        (Warning::Thresholds, exit == Exit::Code(EXIT_THRESHOLDS)),
        (Warning::MarkedAsFailed, exit == Exit::Code(EXIT_MARKED_AS_FAILED)),
    ];
    let seen = seen.into_iter().filter_map(|(warning, seen)| seen.then_some(warning));
    seen.chain(sharing).collect()
}
