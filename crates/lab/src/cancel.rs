//! A wish to stop, from a signal handler to the run.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Set once, seen by all clones. The run looks at it at least every 100 ms.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the run to stop: the current round is given up, complete blocks are kept.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
