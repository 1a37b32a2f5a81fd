//! Stopping a virtual user.
//!
//! *Stopping* lets the current iteration finish; *interrupting* ends it wherever it is. An interrupted script cannot
//! go on by catching exceptions: every blocking call fails at once, and the next time QuickJS polls its interrupt
//! handler (after at most 10,000 jumps or calls) it raises an error that no `catch` or `finally` of the script sees.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::coroutine;

/// Longest computation without a blocking call before other virtual users run.
const TIME_SLICE: Duration = Duration::from_millis(1);

/// A blocking call was cut short: the iteration must end now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupted;

/// Stop requests for a virtual user, shared between it and its executor on one thread.
#[derive(Debug)]
pub(crate) struct Control {
    interrupted: Cell<bool>,
    stopping: Cell<bool>,
    /// Interrupted because its init code took too long.
    overdue: Cell<bool>,
    /// Ends every virtual user of the process at once (second Ctrl-C, fatal error).
    abort: Arc<AtomicBool>,
    waker: RefCell<Option<Waker>>,
    slice_start: Cell<Instant>,
    /// The script has waited since `slice_start` was set.
    has_waited: Cell<bool>,
    /// A call of the current iteration was cut short.
    cut: Cell<bool>,
}

impl Control {
    pub(crate) fn new(abort: Arc<AtomicBool>) -> Self {
        Self {
            interrupted: Cell::new(false),
            stopping: Cell::new(false),
            overdue: Cell::new(false),
            abort,
            waker: RefCell::new(None),
            slice_start: Cell::new(Instant::now()),
            has_waited: Cell::new(false),
            cut: Cell::new(false),
        }
    }

    /// Lets the current iteration finish and starts no other.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
    }

    /// Ends the current iteration now, and starts no other.
    pub(crate) fn interrupt(&self) {
        self.stopping.set(true);
        self.interrupted.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Ends init code that takes too long.
    pub(crate) fn interrupt_overdue(&self) {
        self.overdue.set(true);
        self.interrupt();
    }

    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.get()
    }

    /// Allows iterations again.
    pub(crate) fn resume(&self) {
        self.stopping.set(false);
        self.interrupted.set(false);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get() || self.is_aborted()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.get() || self.is_aborted()
    }

    fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Blocks the virtual user until `future` is ready or the virtual user is interrupted.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output, Interrupted> {
        let mut future = pin!(future);
        let result = coroutine::block_on(std::future::poll_fn(|cx| {
            if self.is_interrupted() {
                return Poll::Ready(Err(Interrupted));
            }
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => Poll::Ready(Ok(value)),
                Poll::Pending => {
                    self.has_waited.set(true);
                    self.waker.replace(Some(cx.waker().clone()));
                    Poll::Pending
                }
            }
        }));
        self.waker.replace(None);
        if result.is_err() {
            self.cut.set(true);
        }
        result
    }

    /// Returns and resets whether a call was cut short, even if the script caught the exception.
    pub(crate) fn take_cut(&self) -> bool {
        self.cut.replace(false)
    }

    /// Called repeatedly while the script computes: shares the thread, and returns true if the script must end.
    pub(crate) fn poll_interrupt(&self) -> bool {
        if !self.is_interrupted() {
            self.share(Instant::now());
        }
        let end = self.is_interrupted();
        if end {
            self.cut.set(true);
        }
        end
    }

    /// Lets other virtual users run once the script has used up its time slice.
    pub(crate) fn share(&self, now: Instant) {
        if self.has_waited.replace(false) {
            self.slice_start.set(now);
        } else if now.saturating_duration_since(self.slice_start.get()) > TIME_SLICE {
            coroutine::yield_now();
            self.slice_start.set(Instant::now());
        }
    }
}
