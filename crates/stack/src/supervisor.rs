//! The supervisor: a small process between an owner and its command.
//!
//! It is the *subreaper* of everything below it (prctl(2), `PR_SET_CHILD_SUBREAPER`): a descendant whose parent ends,
//! such as a daemon that forks twice, becomes its child instead of init's, so it can find and kill all of them. It
//! kills every descendant and ends when the command ends, when the owner orders it, when the owner's end of its
//! standard input closes (by the kernel, however the owner dies), or on SIGTERM, SIGINT or SIGHUP. SIGTERM is also
//! its parent-death signal, in case another process accidentally inherited the owner's end.
//!
//! The command's own parent-death signal is SIGKILL, so it dies even if the supervisor is killed with
//! `kill -9`; see the crate's documentation for the rest of that case.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    set_child_subreaper, set_parent_process_death_signal, wait, waitid,
};
use rustix::thread::sched_setaffinity;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::control::{Event, decode_stop};
use crate::{CpuList, CpuListError, Exit, procfs};

/// Pause between two scans for dying descendants.
const REAP_PAUSE: Duration = Duration::from_millis(1);
/// Time limit of the clean-up command.
const CLEAN_UP_TIME: Duration = Duration::from_secs(15);
/// Pause between two checks of that command.
const CLEAN_UP_PAUSE: Duration = Duration::from_millis(5);
/// Maximum size of an order; the longest is some twenty bytes.
const ORDER_BYTES: usize = 256;

/// End of a supervisor. Errors have been printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Supervised {
    /// The command and all its descendants are gone.
    Done,
    /// The arguments are wrong.
    WrongUsage,
    /// The system refused something.
    Failed,
}

/// Runs as a supervisor until the command and all its descendants are gone.
///
/// `args` are the arguments after the host's hidden subcommand: `--owner PID [--cpus LIST] [--cgroup PROCS]…
/// [--afterwards WORD]… -- PROGRAM ARGS…`. Standard input must be the control socket that
/// [`Supervisor::spawn`](crate::Supervisor::spawn) creates. The host must not have started threads or used standard
/// input.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Supervised {
    let arguments = match Arguments::parse(args) {
        Ok(arguments) => arguments,
        Err(reason) => {
            log(&format!("{reason} (this subcommand is started by the program itself)"));
            return Supervised::WrongUsage;
        }
    };
    match supervise(&arguments) {
        Ok(()) => Supervised::Done,
        Err(error) => {
            log(&error.to_string());
            Supervised::Failed
        }
    }
}

/// Writes a line to stderr, which may be closed.
fn log(line: &str) {
    let _ = writeln!(io::stderr(), "supervise: {line}");
}

#[derive(Debug)]
struct Arguments {
    owner: u32,
    cpus: Option<CpuList>,
    /// Files to which this process writes its id.
    cgroups: Vec<PathBuf>,
    /// Clean-up command; may be empty.
    afterwards: Vec<OsString>,
    command: Vec<OsString>,
}

#[derive(Debug, thiserror::Error)]
enum UsageError {
    #[error("`{0}` needs a value")]
    NoValue(String),
    #[error("unknown argument `{0}`")]
    Unknown(String),
    #[error(transparent)]
    Cpus(#[from] CpuListError),
    #[error("no command after `--`")]
    NoCommand,
    #[error("`--owner` needs a process id")]
    NoOwner,
}

impl Arguments {
    fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut args = args.into_iter();
        let (mut owner, mut cpus) = (None, None);
        let (mut cgroups, mut afterwards) = (Vec::new(), Vec::new());
        while let Some(flag) = args.next() {
            let flag = flag.to_string_lossy().into_owned();
            if flag == "--" {
                break;
            }
            let value = args.next().ok_or_else(|| UsageError::NoValue(flag.clone()))?;
            let text = value.to_string_lossy();
            match flag.as_str() {
                "--cgroup" => cgroups.push(PathBuf::from(value)),
                "--afterwards" => afterwards.push(value),
                "--owner" => owner = text.parse().ok(),
                "--cpus" => cpus = Some(text.parse()?),
                _ => return Err(UsageError::Unknown(flag)),
            }
        }
        let command: Vec<OsString> = args.collect();
        if command.is_empty() {
            return Err(UsageError::NoCommand);
        }
        let owner = owner.ok_or(UsageError::NoOwner)?;
        Ok(Self { owner, cpus, cgroups, afterwards, command })
    }
}

fn supervise(arguments: &Arguments) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The owner may have died before the line above took effect.
    let parent = getppid().map_or(0, Pid::as_raw_pid);
    if u32::try_from(parent) != Ok(arguments.owner) {
        return Ok(());
    }
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let child_ended = signal_socket(&[SIGCHLD])?;
    let must_end = signal_socket(&[SIGTERM, SIGINT, SIGHUP])?;
    // Before the command, so that all of the tree is in them.
    for cgroup in &arguments.cgroups {
        fs::write(cgroup, std::process::id().to_string())?;
    }
    let pid = match start(arguments) {
        Ok(pid) => pid,
        Err(error) => return report(&control, &Event::Failed(error.raw_os_error().unwrap_or(0))),
    };
    // If the owner is gone already, the loop below reads the end of file at once.
    let _ = report(&control, &Event::Started(pid.as_raw_pid().unsigned_abs()));
    let mut watch =
        Watch { pid, control, child_ended, must_end, kill_at: None, orders: Vec::new() };
    let exit = watch.until_end()?;
    if let Some(exit) = exit {
        let _ = report(&watch.control, &Event::Exited(exit));
    }
    let killed = kill_descendants(pid)?;
    clean_up(&arguments.afterwards);
    if let (None, Some(exit)) = (exit, killed) {
        let _ = report(&watch.control, &Event::Exited(exit));
    }
    Ok(())
}

fn report(mut control: &UnixStream, event: &Event) -> io::Result<()> {
    control.write_all(event.encode().as_bytes())
}

/// A socket that becomes readable on one of the signals.
fn signal_socket(signals: &[i32]) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

/// Starts the command on its CPUs. The supervisor itself remains free to run on others: the kernel
/// spins while a parent reaps a process of which threads with a raised nice value are still leaving
/// /proc (`shrink_dcache_parent`), and on one CPU they would wait for each other.
fn start(Arguments { command, cpus, .. }: &Arguments) -> io::Result<Pid> {
    let supervisor = getpid();
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).stdin(Stdio::null());
    let cpus = cpus.as_ref().map(CpuList::to_set);
    let prepare = move || {
        if let Some(cpus) = &cpus {
            sched_setaffinity(None, cpus)?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The supervisor may have died before the line above took effect.
        if getppid() == Some(supervisor) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed. It makes three
    // system calls, sched_setaffinity, prctl and getppid, through rustix, which issues them directly without locks or
    // allocation; `io::Error` from a kind or an errno allocates nothing.
    #[expect(unsafe_code, reason = "a parent-death signal can only be set in the child itself")]
    unsafe {
        child.pre_exec(prepare);
    }
    let pid = child.spawn()?.id();
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

struct Watch {
    pid: Pid,
    control: UnixStream,
    child_ended: UnixStream,
    must_end: UnixStream,
    /// End of the grace period, once there is an order to stop.
    kill_at: Option<Instant>,
    orders: Vec<u8>,
}

impl Watch {
    /// Returns the command's exit, or `None` if it has to be killed.
    fn until_end(&mut self) -> io::Result<Option<Exit>> {
        loop {
            if let Some(exit) = self.reap()? {
                return Ok(Some(exit));
            }
            let left = self.kill_at.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            let (ordered, ending) = self.poll(left)?;
            if ending || (ordered && !self.obey()?) {
                return Ok(None);
            }
        }
    }

    /// Waits for an event, at most `left`. Returns whether the owner sent something or hung up, and
    /// whether a terminating signal arrived.
    fn poll(&self, left: Option<Duration>) -> io::Result<(bool, bool)> {
        let mut fds = [
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.must_end, PollFlags::IN),
            PollFd::new(&self.child_ended, PollFlags::IN),
        ];
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok((!fds[0].revents().is_empty(), !fds[1].revents().is_empty()))
    }

    /// Reads the owner's orders; `false` when it is gone.
    fn obey(&mut self) -> io::Result<bool> {
        let mut chunk = [0; ORDER_BYTES];
        let count = match self.control.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(_) => return Ok(false), // Reset: the owner died with unread messages.
        };
        self.orders.extend_from_slice(&chunk[..count]);
        if count == 0 || self.orders.len() > ORDER_BYTES {
            return Ok(false);
        }
        while let Some(end) = self.orders.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.orders.drain(..=end).collect();
            if let Some(grace) = decode_stop(&String::from_utf8_lossy(&line)) {
                // Not reaped yet, or `until_end` would have returned.
                let _ = kill_process(self.pid, Signal::TERM);
                self.kill_at = Some(Instant::now() + grace);
            }
        }
        Ok(true)
    }

    /// Reaps ended descendants, so that re-parented daemons do not remain as zombies. Returns the exit of the command
    /// without reaping it: the kernel may take long, and the owner should be informed first.
    fn reap(&mut self) -> io::Result<Option<Exit>> {
        // Drained first: a signal that arrives during the loop must wake the next poll.
        let mut drain = [0; 64];
        while self.child_ended.read(&mut drain).is_ok_and(|count| count > 0) {}
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.pid), look) {
                Ok(Some(status)) => {
                    return Ok(Some(exit_from(status.exit_status(), status.terminating_signal())));
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            match wait(WaitOptions::NOHANG) {
                // It ended in between.
                Ok(Some((pid, status))) if pid == self.pid => return Ok(Some(exit_of(status))),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(Errno::CHILD) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    exit_from(status.exit_status(), status.terminating_signal())
}

fn exit_from(code: Option<i32>, signal: Option<i32>) -> Exit {
    match (code, signal) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

/// Runs the clean-up command. Failures are expected: usually there is nothing left to remove.
fn clean_up(argv: &[OsString]) {
    let Some((program, arguments)) = argv.split_first() else { return };
    let command = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut command) = command else { return };
    let deadline = Instant::now() + CLEAN_UP_TIME;
    while Instant::now() < deadline {
        match command.try_wait() {
            Ok(None) => std::thread::sleep(CLEAN_UP_PAUSE),
            _ => return,
        }
    }
    let _ = command.kill();
    let _ = command.wait();
}

/// Kills and reaps every descendant; returns the command's exit if it was among them.
///
/// Kills only direct children, repeatedly: the children of a killed process become direct ones in
/// turn. So no signal can hit another process, because the id of an unreaped child is not reused.
fn kill_descendants(command: Pid) -> io::Result<Option<Exit>> {
    let mut exit = None;
    loop {
        for pid in procfs::children_by_scan(std::process::id())? {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            // A set-user-id program cannot be killed; it is waited for.
            pid.map(|pid| kill_process(pid, Signal::KILL));
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == command => exit = Some(exit_of(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(Errno::CHILD) => return Ok(exit),
                Err(error) => return Err(error.into()),
            }
        }
        std::thread::sleep(REAP_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Arguments, UsageError> {
        Arguments::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn the_command_keeps_its_own_flags() {
        let flags = [
            "--owner", "7", "--cpus", "1", "--cgroup", "/x", "--afterwards", "rm", "--", "sh",
            "--", "-c",
        ];
        let arguments = parse(&flags).unwrap();
        assert_eq!(arguments.cgroups, [PathBuf::from("/x")]);
        assert_eq!(arguments.afterwards, ["rm"]);
        assert_eq!(arguments.owner, 7);
        assert_eq!(arguments.cpus, CpuList::new([1]));
        assert_eq!(arguments.command, ["sh", "--", "-c"]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for args in [
            &["--owner", "7"][..],
            &["--owner", "7", "--"],
            &["--", "sh"],
            &["--owner", "x", "--", "sh"],
            &["--owner"],
            &["--what", "7", "--", "sh"],
        ] {
            assert!(parse(args).is_err(), "{args:?} was accepted");
        }
    }
}
