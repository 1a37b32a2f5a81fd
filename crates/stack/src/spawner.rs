//! Starts supervisors, all from one thread that lives as long as the owner.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::budget::Enforced;
use crate::{Error, Output, Process, Spec};

/// Environment variable inherited by all descendants of a supervised command, with a unique value for each command.
pub(crate) const TREE_VARIABLE: &str = "STACK_TREE";

/// The program that runs as supervisor, and its arguments before the command.
///
/// The host calls `supervisor::main` in a hidden subcommand and names it here, for example
/// `Supervisor::this_program(["supervise"])`.
#[derive(Debug, Clone)]
pub struct Supervisor {
    program: OsString,
    args: Vec<OsString>,
    /// Program name in the output of `ps`.
    shown_as: Option<OsString>,
}

impl Supervisor {
    /// Starts supervisors as `program args… --owner … -- command…`.
    pub fn new(
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        Self { program: program.as_ref().to_owned(), args, shown_as: None }
    }

    /// Starts supervisors as this program with the given arguments.
    ///
    /// It is executed through `/proc/self/exe`, which remains the running program even if a build
    /// replaces the file on disk during a long experiment.
    pub fn this_program(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut supervisor = Self::new("/proc/self/exe", args);
        supervisor.shown_as = std::env::args_os().next();
        supervisor
    }

    /// Starts a command and returns once it has been executed; it may not be ready yet.
    ///
    /// # Errors
    /// [`Error::Start`] when the command cannot be executed, [`Error::Supervise`] when the
    /// supervisor cannot, [`Error::Io`] when an output file cannot be opened.
    pub fn spawn(&self, spec: &Spec) -> Result<Process, Error> {
        let supervise = |source| Error::Supervise { program: spec.program_name(), source };
        let (own, theirs) = UnixStream::pair().map_err(supervise)?;
        let tree = tree_name();
        let budget = spec.budget.as_ref().map(Enforced::new).transpose()?;
        let command = self.command(spec, OwnedFd::from(theirs), &tree, budget.as_ref())?;
        let child = spawn_from_lasting_thread(command).map_err(supervise)?;
        Process::new(spec, child, own, tree, budget)
    }

    fn command(
        &self,
        spec: &Spec,
        control: OwnedFd,
        tree: &str,
        budget: Option<&Enforced>,
    ) -> Result<Command, Error> {
        let mut command = Command::new(&self.program);
        if let Some(name) = &self.shown_as {
            command.arg0(name);
        }
        command.args(&self.args);
        command.args(["--owner".to_owned(), std::process::id().to_string()]);
        if let Some(cpus) = &spec.cpus {
            command.args(["--cpus".to_owned(), cpus.to_string()]);
        }
        for entrance in budget.map(Enforced::entrances).into_iter().flatten() {
            command.arg("--cgroup").arg(entrance);
        }
        for word in &spec.afterwards {
            command.arg("--afterwards").arg(word);
        }
        command.arg("--").arg(&spec.program).args(&spec.args);
        for (name, value) in &spec.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env(TREE_VARIABLE, tree);
        if let Some(dir) = &spec.dir {
            // Otherwise a missing directory would be reported as a missing supervisor.
            let dir = dir.canonicalize().map_err(|source| Error::Start {
                program: format!("{} in {}", spec.program_name(), dir.display()),
                source,
            })?;
            command.current_dir(dir);
        }
        command.stdin(Stdio::from(control));
        command.stdout(stdio(&spec.stdout)?).stderr(stdio(&spec.stderr)?);
        // A process group of its own: Ctrl-C in the owner's terminal reaches only the owner, which then
        // stops the others in order.
        command.process_group(0);
        Ok(command)
    }
}

fn stdio(output: &Output) -> Result<Stdio, Error> {
    match output {
        Output::Null => Ok(Stdio::null()),
        Output::Capture => Ok(Stdio::piped()),
        Output::File(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map(Stdio::from).map_err(|source| Error::at("cannot open", path, source))
        }
    }
}

/// A value unique on this machine since boot.
fn tree_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{}.{now}.{count}", std::process::id())
}

struct Job {
    command: Command,
    reply: mpsc::Sender<io::Result<Child>>,
}

/// The kernel sends a parent-death signal when the *thread* that started the child ends, not the
/// process. A supervisor started from a short-lived thread would be signalled although its owner
/// lives, so all of them are started from one thread that never ends.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let run = move || {
            for mut job in inbox {
                // The receiver waits at the end of this function.
                let _ = job.reply.send(job.command.spawn());
            }
        };
        // If there is no thread, `inbox` is dropped and the send below fails.
        let _ = std::thread::Builder::new().name("stack-spawner".to_owned()).spawn(run);
        Mutex::new(jobs)
    });
    let (reply, answer) = mpsc::channel();
    let no_thread = || io::Error::other("the thread that starts processes could not be started");
    let sender = spawner.lock().unwrap_or_else(PoisonError::into_inner);
    sender.send(Job { command, reply }).map_err(|_| no_thread())?;
    drop(sender);
    answer.recv().map_err(|_| no_thread())?
}
