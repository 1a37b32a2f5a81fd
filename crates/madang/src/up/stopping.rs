//! The wish that this process stop.

use crate::serve::watch_signals;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
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

    pub fn ask(&self) {
        *self.wishes.lock() += 1;
        self.changed.notify_all();
    }

    pub fn is_asked(&self) -> bool {
        *self.wishes.lock() > 0
    }

    /// Whether it is to stop at once.
    pub fn hurries(&self) -> bool {
        *self.wishes.lock() > 1
    }

    /// Waits until this process is to stop.
    pub fn wait(&self) {
        self.changed.wait_while(&mut self.wishes.lock(), |wishes| *wishes == 0);
    }

    /// Waits for so long, or until this process is to stop; answers whether it is.
    pub fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let left = end.saturating_duration_since(Instant::now());
        let mut wishes = self.wishes.lock();
        self.changed.wait_while_for(&mut wishes, |wishes| *wishes == 0, left);
        *wishes > 0
    }
}
