//! Waiting until a command is ready, and saying why it is not.

use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{KILL_TIME, Process};
use crate::patience::{LOOK, Over, Patience};
use crate::tree::{self, Scope};
use crate::{Error, Exit, http, procfs};

/// Time between two questions to a server that is not ready: short at first, because its start is
/// part of every round; longer for one that takes its time, which the questions would slow down.
const PROBE_PAUSE: Duration = Duration::from_millis(10);
/// See [`PROBE_PAUSE`].
const LATER_PROBE_PAUSE: Duration = Duration::from_millis(100);
/// When the pauses get longer.
const PROBE_HURRY: Duration = Duration::from_secs(1);
/// Time one readiness request may take; a server that accepts and then starts up must not use up
/// the whole wait with its first connection.
const PROBE_TIME: Duration = Duration::from_secs(2);

impl Process {
    /// The first line on captured stdout that starts with `prefix`, without it.
    ///
    /// # Errors
    /// [`Error::EndedEarly`] or [`Error::NotReady`], both with the last lines of stderr, or
    /// [`Error::GivenUp`].
    pub fn ready_line<'q>(
        &self,
        prefix: &str,
        patience: impl Into<Patience<'q>>,
    ) -> Result<String, Error> {
        let patience = patience.into();
        let mut seen = 0;
        let found = self.shared.wait_patiently(&patience, |state| {
            let new = state.stdout.head().get(seen..).unwrap_or_default();
            seen += new.len();
            let line = new.iter().find_map(|line| line.strip_prefix(prefix));
            match line {
                Some(rest) => Some(Some(rest.trim().to_owned())),
                None => (state.gone && state.stdout.ended).then_some(None),
            }
        });
        match found {
            Ok(Some(rest)) => Ok(rest),
            Ok(None) => Err(self.ended_early()),
            Err(over) => {
                Err(self.not_ready(format!("a line `{prefix}…` on its stdout"), &patience, over))
            }
        }
    }

    /// Asks `url` until it is answered: with a status from 200 to 399, or with whatever status where `any` will do.
    /// Errors as of [`ready_line`](Self::ready_line).
    pub fn ready_http<'q>(
        &self,
        url: &http::Url,
        any: bool,
        patience: impl Into<Patience<'q>>,
    ) -> Result<(), Error> {
        let patience = patience.into();
        let wanted = if any { "an answer" } else { "an answer 200 to 399" };
        self.ready_when(&format!("{wanted} from {url}"), patience, |left| {
            let answer = ask(url, left.min(PROBE_TIME), &patience)?;
            match any || answer.is_ready() {
                true => Ok(()),
                false => Err(io::Error::other(format!("status {}", answer.status))),
            }
        })
        .map_err(|error| self.with_ports(error, url.port()))
    }

    /// Says where the command listens, if not at the port that was asked.
    fn with_ports(&self, mut error: Error, asked: u16) -> Error {
        if let Error::NotReady { listens, .. } = &mut error {
            let mut pids = Vec::new();
            let _ = tree::walk(self.supervisor, Scope::Descendants, |found| pids.push(found.pid));
            let ports = procfs::listening_ports(&pids);
            *listens = ports.first().copied().filter(|_| !ports.contains(&asked));
        }
        error
    }

    /// Calls `probe` with the time left until it succeeds. `what` names what is waited for; why
    /// the last probe failed is part of the error. Errors as of [`ready_line`](Self::ready_line).
    pub fn ready_when<'q>(
        &self,
        what: &str,
        patience: impl Into<Patience<'q>>,
        mut probe: impl FnMut(Duration) -> io::Result<()>,
    ) -> Result<(), Error> {
        let patience = patience.into();
        let (begun, deadline) = (Instant::now(), patience.deadline());
        let mut last = String::new();
        loop {
            if self.exit().is_some() {
                return Err(self.ended_early());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let over = if left.is_zero() { Some(Over::Time) } else { None };
            let over = if patience.gives_up() { Some(Over::GivenUp) } else { over };
            if let Some(over) = over {
                let last = if last.is_empty() { last } else { format!("; last: {last}") };
                return Err(self.not_ready(format!("{what}{last}"), &patience, over));
            }
            match probe(left) {
                Ok(()) => return Ok(()),
                Err(why) => last = why.to_string(),
            }
            let hurry = begun.elapsed() < PROBE_HURRY;
            let pause = if hurry { PROBE_PAUSE } else { LATER_PROBE_PAUSE };
            self.shared.wait_until(Instant::now() + pause, |state| state.exit.map(drop));
        }
    }

    fn ended_early(&self) -> Error {
        // The last words may still be in the pipe.
        let exit = self.wait(KILL_TIME).unwrap_or(Exit::Unknown);
        let settled = Instant::now() + PROBE_TIME;
        self.shared.wait_until(settled, |state| state.stderr.ended.then_some(()));
        Error::EndedEarly { program: self.program.clone(), exit, stderr: self.stderr_tail() }
    }

    pub(super) fn not_ready(&self, what: String, patience: &Patience<'_>, over: Over) -> Error {
        let program = self.program.clone();
        match over {
            Over::GivenUp => Error::GivenUp { program },
            Over::Time => {
                let stderr = self.stderr_tail();
                Error::NotReady { program, what, listens: None, timeout: patience.limit, stderr }
            }
        }
    }
}

/// Asks once, from a thread that may be left behind for at most `timeout` when patience ends.
fn ask(url: &http::Url, timeout: Duration, patience: &Patience<'_>) -> io::Result<http::Answer> {
    let (reply, answer) = mpsc::channel();
    let url = url.clone();
    // Nobody listens any more when patience has ended.
    let run = move || drop(reply.send(http::get(&url, timeout)));
    std::thread::Builder::new().name("stack-probe".to_owned()).spawn(run)?;
    loop {
        match answer.recv_timeout(LOOK) {
            Ok(answer) => return answer,
            Err(mpsc::RecvTimeoutError::Timeout) if !patience.gives_up() => {}
            Err(_) => return Err(io::ErrorKind::Interrupted.into()),
        }
    }
}
