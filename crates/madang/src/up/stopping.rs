//! The wish that this process stop.

use crate::serve::watch_signals;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it was asked for: once is to stop in order, twice at once.
#[derive(Debug, Default)]
pub struct Stopping {
    wishes: Mutex<u32>,
    changed: Condvar,
}

impl Stopping {
    /// Counts SIGINT, SIGTERM and SIGHUP from now on.
    pub fn watch_signals(self: &Arc<Self>) -> anyhow::Result<()> {
        let stopping = Arc::clone(self);
        watch_signals(move || stopping.ask())
    }

    /// Counts one wish.
    pub fn ask(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// Whether this process is to stop.
    pub fn is_asked(&self) -> bool {
        *self.lock() > 0
    }

    /// Whether it is to stop at once.
    pub fn hurries(&self) -> bool {
        *self.lock() > 1
    }

    /// Waits until this process is to stop.
    pub fn wait(&self) {
        let asked = self.changed.wait_while(self.lock(), |wishes| *wishes == 0);
        drop(asked.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for so long, or until this process is to stop; answers whether it is.
    pub fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let left = end.saturating_duration_since(Instant::now());
        let woken = self.changed.wait_timeout_while(self.lock(), left, |wishes| *wishes == 0);
        *woken.unwrap_or_else(PoisonError::into_inner).0 > 0
    }

    fn lock(&self) -> MutexGuard<'_, u32> {
        // A number is valid whoever panicked.
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
