//! Signals that stop a process.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

/// Signals within this time are the same request: `timeout` of coreutils signals the command and then its process
/// group, and a closing terminal causes SIGHUP from both shell and kernel. Nobody presses Ctrl-C twice this fast on
/// purpose.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Stop requests of this process; signals in quick succession are one request.
#[derive(Debug)]
pub struct StopSignals {
    signals: Vec<Signal>,
    last: Option<Instant>,
}

impl StopSignals {
    /// Listens for these signals on the current runtime.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn listen(kinds: &[SignalKind]) -> io::Result<Self> {
        let signals = kinds.iter().map(|kind| signal(*kind)).collect::<io::Result<_>>()?;
        Ok(Self { signals, last: None })
    }

    /// Waits for the next request. Cancellation loses none.
    pub async fn next(&mut self) {
        loop {
            poll_fn(|cx| {
                // Polls all, so that each wakes this task.
                let polls = self.signals.iter_mut().map(|one| one.poll_recv(cx));
                if polls.filter(Poll::is_ready).count() > 0 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            let now = Instant::now();
            if self.last.is_none_or(|last| now.duration_since(last) >= SAME_REQUEST) {
                self.last = Some(now);
                return;
            }
        }
    }
}

/// Number of stop requests so far.
#[derive(Debug, Clone)]
pub(crate) struct Signals(watch::Receiver<u32>);

impl Default for Signals {
    fn default() -> Self {
        Self(watch::channel(0).1)
    }
}

impl Signals {
    /// Waits for the next request. Cancellation loses none.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Receives only later requests.
    pub(crate) fn later(&self) -> Self {
        let mut later = self.clone();
        later.0.mark_unchanged();
        later
    }

    pub(crate) fn any(&self) -> bool {
        *self.0.borrow() > 0
    }
}

/// Listens for SIGINT and SIGTERM on a thread of its own: signals with a handler have no other effect, and a thread
/// that runs init code or writes the last values has no event loop.
#[derive(Debug)]
pub(crate) struct SignalListener {
    pub(crate) signals: Signals,
    left_to_engine: Arc<AtomicBool>,
    /// Dropped to end the thread.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SignalListener {
    /// Listens until dropped. The second request ends the process with `end`.
    ///
    /// # Errors
    /// The system refuses a handler or a thread.
    pub(crate) fn start(end: Option<fn()>) -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Before a script runs.
        let mut signals = runtime.block_on(async { StopSignals::listen(&kinds) })?;
        let (sender, receiver) = watch::channel(0);
        let (ending, mut ended) = oneshot::channel();
        let left_to_engine = Arc::new(AtomicBool::new(false));
        let others = left_to_engine.clone();
        let listen = async move {
            loop {
                tokio::select! {
                    _ = &mut ended => return,
                    () = signals.next() => {}
                }
                sender.send_modify(|count| *count += 1);
                if *sender.borrow() > 1 && !others.load(Ordering::Relaxed) {
                    end_at_once(end);
                }
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        let thread = thread.spawn(move || runtime.block_on(listen))?;
        Ok(Self {
            signals: Signals(receiver),
            left_to_engine,
            end: Some(ending),
            thread: Some(thread),
        })
    }

    /// Sets whether the engine, and not this thread, ends the process at a second request.
    pub(crate) fn leave_to_engine(&self, leave: bool) {
        self.left_to_engine.store(leave, Ordering::Relaxed);
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn end_at_once(end: Option<fn()>) -> ! {
    if let Some(end) = end {
        end();
    }
    std::process::abort()
}
