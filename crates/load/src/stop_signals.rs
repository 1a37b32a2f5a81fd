//! Signals that ask a process to stop.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

/// Signals this soon after another are the same request: `timeout` of coreutils signals the command and then its
/// process group, and a terminal that closes sends SIGHUP from the shell and from the kernel. No one presses
/// Ctrl-C twice as fast as this and means it.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Requests that this process stop, each once however often it was signalled.
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

    /// Waits for the next request. Dropping the future loses none.
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
            if self.last.is_none_or(|last| come.duration_since(last) >= SAME_REQUEST) {
                self.last = Some(come);
                return;
            }
        }
    }
}

/// Signals received so far, for code that can stop early. None by default.
#[derive(Debug, Clone)]
pub(crate) struct Signals(watch::Receiver<u32>);

impl Default for Signals {
    fn default() -> Self {
        Self(watch::channel(0).1)
    }
}

impl Signals {
    /// Waits for one that has not been waited for. Dropping the future loses none.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Those from now on.
    pub(crate) fn later(&self) -> Self {
        let mut later = self.clone();
        later.0.mark_unchanged();
        later
    }

    pub(crate) fn any(&self) -> bool {
        *self.0.borrow() > 0
    }
}

/// Listens on a thread of its own: once a handler is installed signals do nothing by themselves, and a thread that runs
/// init code or writes the last values has no event loop that could look at them.
#[derive(Debug)]
pub(crate) struct SignalListener {
    pub(crate) signals: Signals,
    left_to_engine: Arc<AtomicBool>,
    /// Dropped before the thread is waited for.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SignalListener {
    /// Listens until it is dropped. The second request ends the process at once, by `end`.
    ///
    /// # Errors
    /// When the system refuses a handler or a thread.
    pub(crate) fn start(end: Option<fn()>) -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Before the first line of a script is run.
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

    /// Whether the engine, and not this thread, ends the process at a second request.
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

/// At a second signal the process ends at once.
pub(crate) fn end_at_once(end: Option<fn()>) -> ! {
    if let Some(end) = end {
        end();
    }
    std::process::abort()
}
