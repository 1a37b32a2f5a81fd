//! Watches a server under load, and runs the actions `during` the load.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use madang_stack::{Exit, Patience, Process};
use rustix::process::{Pid, kill_process};

use super::{Bench, RoundContext, STOP_GRACE, files};
use crate::file::experiment::{Action, During, SIGNALS};
use crate::journal::record::{Event, Failure, FailureKind};
use crate::observe::database::Watching;
use crate::observe::{self, Observer};
use crate::round::launch::{self, Running};
use crate::words;

/// Grace period of the generator when its round is given up.
const LOAD_GRACE: Duration = Duration::from_secs(1);

/// A command `during` the load.
struct Started<'w> {
    argv: &'w [String],
    process: Process,
    /// CPU time so far.
    cpu: Duration,
}

pub(crate) struct Watch<'w, 'p> {
    bench: &'w Bench<'w>,
    round: &'w RoundContext<'w>,
    generator: &'w Process,
    observer: &'w mut Observer<'p>,
    databases: &'w Watching,
    /// Start of the measured window; known after init code and `setup()`.
    window: Option<Instant>,
    pending: VecDeque<&'w During>,
    commands: Vec<Started<'w>>,
    events: Vec<Event>,
}

impl<'w, 'p> Watch<'w, 'p> {
    pub(crate) fn new(
        bench: &'w Bench<'w>,
        round: &'w RoundContext<'w>,
        generator: &'w Process,
        observer: &'w mut Observer<'p>,
        databases: &'w Watching,
    ) -> Self {
        Self {
            bench,
            round,
            generator,
            observer,
            databases,
            window: None,
            pending: bench.experiment.hooks.during.iter().collect(),
            commands: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Watches until the generator has ended. A restart replaces `running`.
    pub(crate) fn run(mut self, running: &mut Running) -> Result<(Exit, Vec<Event>), Failure> {
        let broken = |error: io::Error| {
            Failure::new(FailureKind::Machine, format!("cannot observe the machine: {error}"))
        };
        let deadline = Instant::now() + self.bench.experiment.rounds.time_limit;
        let exit = loop {
            self.observer.set_hooks_cpu(self.commands.iter_mut().map(Started::cpu).sum());
            self.observer.look().map_err(broken)?;
            let ended = self.generator.wait(self.pause());
            if ended.is_some() {
                // The window ends after the last sample, so its end needs another one.
                self.observer.look_closely().map_err(broken)?;
            }
            // Checked last: a server that died just before the end of the load died under load.
            if let Some(server) = &running.process
                && let Some(exit) = server.exit()
            {
                let log = files::excerpt(&self.round.files.server_log);
                let message = format!("the server ended under load ({exit}){log}");
                return Err(Failure::new(FailureKind::ServerDied, message));
            }
            // Before the end of the load: a script that fails without the database reports less.
            let lost = self.databases.failed();
            let lost = lost.map(|why| self.bench.unless_cancelled(FailureKind::Database, why));
            if let (None, Some(exit)) = (&lost, ended) {
                break exit;
            }
            if let Some(given_up) = lost.or_else(|| self.given_up(deadline)) {
                // The generator stops first, so that cut connections do not count as errors.
                let _ = self.generator.stop(LOAD_GRACE);
                return Err(given_up);
            }
            self.act(running)?;
        };
        // After a failed load, unfinished commands are ended.
        if super::is_whole_load(exit) {
            self.end()?;
        }
        Ok((exit, self.events))
    }

    /// Time until the next sample or action.
    fn pause(&self) -> Duration {
        let next = self.pending.front().and_then(|during| Some(self.window? + during.at));
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        next.map_or(observe::INTERVAL, |next| next.min(observe::INTERVAL))
    }

    fn given_up(&self, deadline: Instant) -> Option<Failure> {
        if let Some(failure) = self.bench.must_stop(self.round.files) {
            return Some(failure);
        }
        let limit = self.bench.experiment.rounds.time_limit;
        let message =
            format!("the load did not end within {limit:?}; `time_limit` in [rounds] raises that");
        (Instant::now() >= deadline).then(|| Failure::new(FailureKind::TimeLimit, message))
    }

    fn act(&mut self, running: &mut Running) -> Result<(), Failure> {
        if !self.pending.is_empty() && self.window.is_none() {
            self.window = started(&self.round.files.started);
        }
        let Some(window) = self.window else { return Ok(()) };
        while let Some(during) =
            self.pending.pop_front_if(|during| window + during.at <= Instant::now())
        {
            let begun = Instant::now();
            let what = match &during.action {
                Action::Command(argv) => {
                    let env = self.bench.command_env(self.round, running);
                    let command = self.bench.runner().start(argv, &env);
                    let command =
                        command.map_err(|why| Failure::because(FailureKind::Hook, &why))?;
                    self.commands.push(Started { argv, process: command, cpu: Duration::ZERO });
                    format!("started `{}`", argv.join(" "))
                }
                Action::Signal { signal, restart: false } => {
                    send(signal, running)?;
                    format!("sent SIG{signal}")
                }
                Action::Signal { signal, restart: true } => {
                    self.restart(signal, running)?;
                    format!("sent SIG{signal} and started the server again")
                }
            };
            // Negative before the window.
            let early = window.saturating_duration_since(begun).as_secs_f64();
            let late = begun.saturating_duration_since(window).as_secs_f64();
            let took_seconds = begun.elapsed().as_secs_f64();
            self.events.push(Event { at_seconds: late - early, what, took_seconds });
        }
        Ok(())
    }

    /// Signals the server, waits for its end, and starts it again on the same data and address.
    fn restart(&mut self, signal: &str, running: &mut Running) -> Result<(), Failure> {
        let Some(server) = running.process.clone() else { return Ok(()) };
        // The use of a server cannot be read after its end.
        let looked = self.observer.look_closely();
        looked.map_err(|error| Failure::because(FailureKind::Machine, &error))?;
        send(signal, running)?;
        let give_up = || self.bench.cancel.is_cancelled();
        let ended = server.wait_patiently(Patience::new(STOP_GRACE, &give_up));
        ended.map_err(|error| {
            let why = match error {
                madang_stack::Error::NotReady { .. } => format!(
                    "the server did not end within {STOP_GRACE:?} after SIG{signal}, so it cannot be restarted"
                ),
                error => format!("after SIG{signal}: {}", words::chain(&error)),
            };
            self.bench.unless_cancelled(FailureKind::Hook, why)
        })?;
        let address = launch::address(&running.base_url).to_owned();
        *running = self.bench.launch(self.round, Some(&address))?;
        self.observer.replace(running);
        Ok(())
    }

    /// Checks that every action was done and every command succeeded.
    fn end(&mut self) -> Result<(), Failure> {
        if let Some(during) = self.pending.front() {
            let message = format!(
                "the load ended before {:?}, when something was to be done `during` it",
                during.at
            );
            return Err(Failure::new(FailureKind::Hook, message));
        }
        for Started { argv, process, .. } in &self.commands {
            let finished = self.bench.runner().finish(argv, process);
            finished.map_err(|why| self.bench.unless_cancelled(FailureKind::Hook, why))?;
        }
        Ok(())
    }
}

impl Started<'_> {
    fn cpu(&mut self) -> Duration {
        self.cpu = self.process.cpu_time().map_or(self.cpu, |cpu| cpu.max(self.cpu));
        self.cpu
    }
}

/// Start of the window, as the generator wrote it; `None` until the line is complete.
fn started(file: &Path) -> Option<Instant> {
    let text = fs::read_to_string(file).ok()?;
    let seconds: f64 = text.strip_suffix('\n')?.parse().ok()?;
    let from_now = seconds - observe::seconds(SystemTime::now());
    let distance = Duration::try_from_secs_f64(from_now.abs()).ok()?;
    let now = Instant::now();
    if from_now < 0.0 { now.checked_sub(distance) } else { now.checked_add(distance) }
}

fn send(signal: &str, running: &Running) -> Result<(), Failure> {
    let Some(server) = &running.process else { return Ok(()) };
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let number = SIGNALS.iter().find(|(name, _)| *name == signal).map(|(_, number)| *number);
    let sent = pid
        .zip(number)
        .map_or(Err(rustix::io::Errno::SRCH), |(pid, number)| kill_process(pid, number));
    sent.map_err(|error| {
        let message = format!("cannot send SIG{signal} to the server: {error}");
        Failure::new(FailureKind::Hook, message)
    })
}
