//! A running command.

mod ready;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::budget::Enforced;
use crate::control::{Event, encode_stop};
use crate::output::{Lines, file_tail};
use crate::patience::{LOOK, Patience, WaitEnd};
use crate::{Error, Follower, Output, Sample, Scope, Spec, Tail, sweep, tree};

/// Time limit for the supervisor to start the command. It takes milliseconds, or seconds on a machine that swaps.
const START_TIME: Duration = Duration::from_secs(20);
/// Time limit for the end of a killed tree. Only a process stuck in the kernel needs longer.
const KILL_TIME: Duration = Duration::from_secs(20);
/// Time limit for reading the rest of a pipe after the command is gone.
const PIPE_TIME: Duration = Duration::from_secs(5);

/// Exit of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exit code.
    Code(i32),
    /// Terminating signal.
    Signal(i32),
    /// Unknown, because its supervisor was killed, and it with it.
    Unknown,
}

impl Exit {
    /// Exit code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("its supervisor was killed"),
        }
    }
}

/// A started command. Dropping it kills the whole tree and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    program: String,
    pid: u32,
    supervisor: u32,
    control: UnixStream,
    stderr_file: Option<PathBuf>,
    shared: Arc<Shared>,
    /// Dropped last, once the tree is gone and its cgroup empty.
    _budget: Option<Enforced>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    started: Option<Result<u32, i32>>,
    exit: Option<Exit>,
    /// The supervisor and all descendants are gone.
    gone: bool,
    stdout: Lines,
    stderr: Lines,
}

impl State {
    /// Exit of the command, once the whole tree is gone.
    fn end(&self) -> Option<Exit> {
        self.gone.then(|| self.exit.unwrap_or(Exit::Unknown))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves the state valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `done` returns a value, at most until `deadline`.
    fn wait_until<T>(
        &self,
        deadline: Instant,
        mut done: impl FnMut(&State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match done(&state) {
                None if !left.is_zero() => {}
                found => return found,
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `done` returns a value, within the limits of `patience`.
    fn wait_patiently<T>(
        &self,
        patience: &Patience<'_>,
        mut done: impl FnMut(&State) -> Option<T>,
    ) -> Result<T, WaitEnd> {
        let deadline = patience.deadline();
        loop {
            let look = deadline.min(Instant::now() + LOOK);
            if let Some(value) = self.wait_until(look, &mut done) {
                return Ok(value);
            }
            if patience.gives_up() {
                return Err(WaitEnd::GivenUp);
            }
            if Instant::now() >= deadline {
                return Err(WaitEnd::Time);
            }
        }
    }
}

impl Process {
    /// Takes over a supervisor that was just spawned.
    pub(crate) fn new(
        spec: &Spec,
        mut child: Child,
        control: UnixStream,
        tree: String,
        budget: Option<Enforced>,
    ) -> Result<Self, Error> {
        let program = spec.program_name();
        let shared = Arc::new(Shared::default());
        let supervisor = child.id();
        let readers = (child.stdout.take(), child.stderr.take());
        let watch = control.try_clone().and_then(|events| {
            let shared = Arc::clone(&shared);
            let name = "stack-watch".to_owned();
            let run = move || watch(events, child, &tree, &shared);
            std::thread::Builder::new().name(name).spawn(run)
        });
        let mut process = Self {
            program,
            pid: 0,
            supervisor,
            control,
            stderr_file: None,
            shared,
            _budget: budget,
        };
        watch.map_err(|source| process.cannot_supervise(source))?;
        process.collect(readers.0, |state| &mut state.stdout)?;
        process.collect(readers.1, |state| &mut state.stderr)?;
        if let Output::File(path) = &spec.stderr {
            process.stderr_file = Some(path.clone());
        }
        process.await_start()?;
        Ok(process)
    }

    fn await_start(&mut self) -> Result<(), Error> {
        let started = self.shared.wait_until(Instant::now() + START_TIME, |state| {
            if state.gone { Some(state.started) } else { state.started.map(Some) }
        });
        match started.flatten() {
            Some(Ok(pid)) => {
                self.pid = pid;
                Ok(())
            }
            Some(Err(errno)) => Err(Error::Start {
                program: self.program.clone(),
                source: io::Error::from_raw_os_error(errno),
            }),
            None => {
                let reason = format!("the supervisor did not start it{}", self.stderr_tail());
                Err(self.cannot_supervise(io::Error::other(reason)))
            }
        }
    }

    fn cannot_supervise(&self, source: io::Error) -> Error {
        Error::Supervise { program: self.program.clone(), source }
    }

    /// Captures one stream on a thread of its own.
    fn collect(
        &self,
        stream: Option<impl Read + Send + 'static>,
        lines: fn(&mut State) -> &mut Lines,
    ) -> Result<(), Error> {
        let Some(mut stream) = stream else {
            self.shared.update(|state| lines(state).end());
            return Ok(());
        };
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let mut chunk = [0; 4096];
            loop {
                match stream.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(count) => shared.update(|state| lines(state).push(&chunk[..count])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            shared.update(|state| lines(state).end());
        };
        let thread = std::thread::Builder::new().name("stack-output".to_owned()).spawn(run);
        thread.map(drop).map_err(|source| self.cannot_supervise(source))
    }

    /// The command's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its supervisor's process id.
    pub fn supervisor_pid(&self) -> u32 {
        self.supervisor
    }

    /// Exit; `None` while it runs. Descendants may still be dying.
    pub fn exit(&self) -> Option<Exit> {
        self.shared.lock().exit
    }

    /// Waits until the command *and all its descendants* are gone; `None` after `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<Exit> {
        self.shared.wait_until(Instant::now() + timeout, State::end)
    }

    /// As [`wait`](Self::wait), but can be cancelled.
    ///
    /// # Errors
    /// [`Error::GivenUp`] or [`Error::NotReady`].
    pub fn wait_patiently<'q>(&self, patience: impl Into<Patience<'q>>) -> Result<Exit, Error> {
        let patience = patience.into();
        let gone = self.shared.wait_patiently(&patience, State::end);
        gone.map_err(|over| self.not_ready("its end".to_owned(), &patience, over))
    }

    /// Resource use of the command's tree, without the supervisor. CPU time of ended descendants counts.
    ///
    /// # Errors
    /// `NotFound` when the command has ended.
    pub fn sample(&self) -> io::Result<Sample> {
        Sample::take(self.supervisor, Scope::Descendants)
    }

    /// Samples the command's tree repeatedly, and remembers the CPU time of ended processes.
    pub fn follow(&self) -> Follower {
        Follower::new(self.supervisor)
    }

    /// The CPU time of [`sample`](Self::sample) alone, which costs less.
    ///
    /// # Errors
    /// `NotFound` when the command has ended.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        tree::cpu_time(self.supervisor, Scope::Descendants)
    }

    /// Sends SIGTERM to the command, kills the whole tree after `grace` or on cancellation, and waits
    /// until it is gone.
    ///
    /// # Errors
    /// [`Error::Stuck`] when the tree survives SIGKILL.
    pub fn stop<'q>(&self, grace: impl Into<Patience<'q>>) -> Result<Exit, Error> {
        let grace = grace.into();
        self.order_stop(grace.limit);
        let gone = self.shared.wait_patiently(&grace, State::end);
        if gone == Err(WaitEnd::GivenUp) {
            self.order_stop(Duration::ZERO);
        }
        match gone.ok().or_else(|| self.wait(KILL_TIME)) {
            Some(exit) => Ok(exit),
            None => Err(Error::Stuck { program: self.program.clone(), waited: KILL_TIME }),
        }
    }

    fn order_stop(&self, grace: Duration) {
        // If the write fails, the supervisor is gone, and the tree with it.
        let _ = (&self.control).write_all(encode_stop(grace).as_bytes());
    }

    /// The last lines of stderr, captured or in a file; the file may contain stdout as well.
    pub fn stderr_tail(&self) -> Tail {
        match &self.stderr_file {
            Some(path) => Tail(file_tail(path).unwrap_or_default()),
            None => {
                self.read_to_the_end();
                Tail(self.shared.lock().stderr.tail())
            }
        }
    }

    /// The first lines (at most 100) of captured stdout.
    pub fn stdout_lines(&self) -> Vec<String> {
        self.read_to_the_end();
        self.shared.lock().stdout.head().to_vec()
    }

    /// After the command is gone, its last lines may still be in a pipe. Bounded, because a process
    /// outside of the tree may have inherited the other end.
    fn read_to_the_end(&self) {
        let deadline = Instant::now() + PIPE_TIME;
        let is_read = |state: &State| !state.gone || (state.stdout.ended && state.stderr.ended);
        let _ = self.shared.wait_until(deadline, |state| is_read(state).then_some(()));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // At end of file the supervisor kills everything.
        let _ = self.control.shutdown(Shutdown::Write);
        let _ = self.wait(KILL_TIME);
    }
}

/// Reads the supervisor's messages until it is gone, then ensures that the tree is gone, too.
fn watch(events: UnixStream, child: Child, tree: &str, shared: &Shared) {
    for line in BufReader::new(events).lines() {
        let Ok(line) = line else { break };
        match Event::decode(&line) {
            Some(Event::Started(pid)) => shared.update(|state| state.started = Some(Ok(pid))),
            Some(Event::Failed(errno)) => {
                shared.update(|state| state.started = Some(Err(errno)));
            }
            Some(Event::Exited(exit)) => shared.update(|state| state.exit = Some(exit)),
            None => {} // Output of the host itself.
        }
    }
    sweep::after(child, tree);
    shared.update(|state| {
        state.exit = Some(state.exit.unwrap_or(Exit::Unknown));
        state.gone = true;
    });
}
