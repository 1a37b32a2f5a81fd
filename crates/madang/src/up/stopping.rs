//! Requests to stop this process.

use crate::serve::watch_signals;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Counts requests: the first stops in order, the second at once.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    requests: Mutex<u32>,
    changed: Condvar,
}

impl Stopping {
    /// Counts SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn watch_signals(self: &Arc<Self>) -> anyhow::Result<()> {
        let stopping = Arc::clone(self);
        watch_signals(move || stopping.request())
    }

    pub(crate) fn request(&self) {
        *self.requests.lock() += 1;
        self.changed.notify_all();
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.requests.lock() > 0
    }

    /// Whether to stop at once.
    pub(crate) fn is_urgent(&self) -> bool {
        *self.requests.lock() > 1
    }

    /// Waits for a request.
    pub(crate) fn wait(&self) {
        self.changed.wait_while(&mut self.requests.lock(), |requests| *requests == 0);
    }

    /// Waits for `time` or for a request; returns whether there is one.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let left = end.saturating_duration_since(Instant::now());
        let mut requests = self.requests.lock();
        self.changed.wait_while_for(&mut requests, |requests| *requests == 0, left);
        *requests > 0
    }
}
