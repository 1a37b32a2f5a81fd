//! Readiness of a command.

use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{KILL_TIME, Process};
use crate::patience::{LOOK, Patience, WaitEnd};
use crate::tree::{self, Scope};
use crate::{Error, Exit, http, procfs};

/// Pause between probes: short at first, because the start is part of every round; later longer,
/// because probes slow down a starting server.
const PROBE_PAUSE: Duration = Duration::from_millis(10);
const LATER_PROBE_PAUSE: Duration = Duration::from_millis(100);
/// Time of the short pauses.
const PROBE_HURRY: Duration = Duration::from_secs(1);
/// Time limit of one probe: a server that accepts connections before it responds must not use up the
/// whole wait with the first.
const PROBE_TIME: Duration = Duration::from_secs(2);

impl Process {
    /// Waits for the first line on captured stdout that starts with `prefix`; returns its rest.
    ///
    /// # Errors
    /// [`Error::EndedEarly`], [`Error::NotReady`] or [`Error::GivenUp`].
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

    /// Requests `url` until the status is 200 to 399, or any status if `any`.
    ///
    /// # Errors
    /// As [`ready_line`](Self::ready_line).
    pub fn ready_http<'q>(
        &self,
        url: &http::Url,
        any: bool,
        patience: impl Into<Patience<'q>>,
    ) -> Result<(), Error> {
        let patience = patience.into();
        let wanted = if any { "an answer" } else { "an answer 200 to 399" };
        self.ready_when(&format!("{wanted} from {url}"), patience, |left| {
            let answer = probe_http(url, left.min(PROBE_TIME), &patience)?;
            match any || answer.is_ready() {
                true => Ok(()),
                false => Err(io::Error::other(format!("status {}", answer.status))),
            }
        })
        .map_err(|error| self.with_ports(error, url.port()))
    }

    /// Adds the port at which the command listens, if not at the probed one.
    fn with_ports(&self, mut error: Error, probed: u16) -> Error {
        if let Error::NotReady { listens, .. } = &mut error {
            let mut pids = Vec::new();
            let _ = tree::walk(self.supervisor, Scope::Descendants, |found| pids.push(found.pid));
            let ports = procfs::listening_ports(&pids);
            *listens = ports.first().copied().filter(|_| !ports.contains(&probed));
        }
        error
    }

    /// Calls `probe` with the remaining time until it succeeds. The error contains `what`, the awaited
    /// condition, and the last error of `probe`.
    ///
    /// # Errors
    /// As [`ready_line`](Self::ready_line).
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
            let over = if left.is_zero() { Some(WaitEnd::Time) } else { None };
            let over = if patience.gives_up() { Some(WaitEnd::GivenUp) } else { over };
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
        // Its last lines may still be in the pipe.
        let exit = self.wait(KILL_TIME).unwrap_or(Exit::Unknown);
        let settled = Instant::now() + PROBE_TIME;
        self.shared.wait_until(settled, |state| state.stderr.ended.then_some(()));
        Error::EndedEarly { program: self.program.clone(), exit, stderr: self.stderr_tail() }
    }

    pub(super) fn not_ready(&self, what: String, patience: &Patience<'_>, over: WaitEnd) -> Error {
        let program = self.program.clone();
        match over {
            WaitEnd::GivenUp => Error::GivenUp { program },
            WaitEnd::Time => {
                let stderr = self.stderr_tail();
                Error::NotReady { program, what, listens: None, timeout: patience.limit, stderr }
            }
        }
    }
}

/// Probes once, on a thread that is left behind for at most `timeout` on cancellation.
fn probe_http(
    url: &http::Url,
    timeout: Duration,
    patience: &Patience<'_>,
) -> io::Result<http::Answer> {
    let (reply, answer) = mpsc::channel();
    let url = url.clone();
    // After a cancellation there is no receiver.
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
