//! Signals that ask a process to stop.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals this soon after another are the same wish: `timeout` of coreutils signals the command and then its
/// process group, and a terminal that closes sends SIGHUP from the shell and from the kernel. Nobody presses
/// Ctrl-C twice as fast as this and means it.
const SAME_WISH: Duration = Duration::from_millis(500);

/// The wishes of others that this process stop, each once however often it was signalled.
#[derive(Debug)]
pub struct StopSignals {
    signals: Vec<Signal>,
    last: Option<Instant>,
}

impl StopSignals {
    /// Listens for these signals, on the current runtime.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn listen(kinds: &[SignalKind]) -> io::Result<Self> {
        let signals = kinds.iter().map(|kind| signal(*kind)).collect::<io::Result<_>>()?;
        Ok(Self { signals, last: None })
    }

    /// Waits for the next wish. Dropping the future loses none.
    pub async fn next(&mut self) {
        loop {
            let come = poll_fn(|cx| {
                // Each is asked, so that each wakes this task.
                let answers = self.signals.iter_mut().map(|one| one.poll_recv(cx));
                if answers.filter(Poll::is_ready).count() > 0 {
                    Poll::Ready(Instant::now())
                } else {
                    Poll::Pending
                }
            });
            let come = come.await;
            if self.last.is_none_or(|last| come.duration_since(last) >= SAME_WISH) {
                self.last = Some(come);
                return;
            }
        }
    }
}
