//! Cancellation of a run by a signal handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag shared by all clones. The run checks it at least every 100 ms.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    asked: Arc<AtomicBool>,
    /// Flag of the wider scope.
    above: Option<Arc<AtomicBool>>,
}

impl Cancel {
    /// Cancels the current round; complete blocks are kept.
    pub fn cancel(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        let above = self.above.as_ref().is_some_and(|above| above.load(Ordering::Relaxed));
        above || self.asked.load(Ordering::Relaxed)
    }

    /// A narrower scope, cancelled with this one.
    pub(crate) fn below(&self) -> Self {
        Self { asked: Arc::default(), above: Some(Arc::clone(&self.asked)) }
    }
}
