//! A wish to stop, from a signal handler to the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once, seen by all clones. The run looks at it at least every 100 ms.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    asked: Arc<AtomicBool>,
    /// A wish to stop that covers this one.
    above: Option<Arc<AtomicBool>>,
}

impl Cancel {
    /// Asks the run to stop: the current round is given up, complete blocks are kept.
    pub fn cancel(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        let above = self.above.as_ref().is_some_and(|above| above.load(Ordering::Relaxed));
        above || self.asked.load(Ordering::Relaxed)
    }

    /// A narrower wish to stop, which is also set when this one is.
    pub(crate) fn below(&self) -> Self {
        Self { asked: Arc::default(), above: Some(Arc::clone(&self.asked)) }
    }
}
