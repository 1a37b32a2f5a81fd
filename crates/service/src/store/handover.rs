//! What a request has handed to the writer, so that its answer can be true.
//!
//! A write is the writer's once it is in its queue, whoever still waits for it. A request that is given up after
//! that, or that fails behind its write, must not be answered as if nothing was done. So each request that
//! may write carries a [`Handover`], and the one place that hands writes over marks it. The edge asks it
//! before it says 503, which promises that nothing was done.
//!
//! It is found through the task: see `crate::current`.

use crate::current;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The writes of one request.
#[derive(Clone, Debug, Default)]
pub struct Handover {
    state: Arc<HandoverState>,
}

#[derive(Debug, Default)]
struct HandoverState {
    /// Writes that were handed over and are not known to have changed nothing.
    writes: AtomicUsize,
    /// Sent again, the request makes nothing new.
    repeatable: AtomicBool,
    /// Before it the request must not be answered: other nodes do not know yet what it would tell.
    not_before: Mutex<Option<Instant>>,
}

impl Handover {
    /// Whether something may have been written, or may be written yet.
    pub fn may_have_written(&self) -> bool {
        self.state.writes.load(Relaxed) > 0
    }

    /// When the request may be answered, if that may be later than now.
    pub fn not_before(&self) -> Option<Instant> {
        *self.state.not_before.lock()
    }

    /// Whether the request may be sent again, whatever became of it: it has an `Idempotency-Key`.
    pub fn is_repeatable(&self) -> bool {
        self.state.repeatable.load(Relaxed)
    }
}

/// Notes that the current request makes nothing new when it is sent again.
pub(crate) fn note_repeatable() {
    if let Some(handover) = current::handover() {
        handover.state.repeatable.store(true, Relaxed);
    }
}

/// Notes that the current request, if there is one, hands a write over. It counts until it is
/// [`undone`](Handed::undone).
pub(crate) fn hand_over() -> Handed {
    let current = current::handover();
    if let Some(handover) = &current {
        handover.state.writes.fetch_add(1, Relaxed);
    }
    Handed(current)
}

/// Whether there is a request that may write, for whose answer the edge waits.
pub(crate) fn is_request() -> bool {
    current::handover().is_some()
}

/// The current request must not be answered before.
pub(crate) fn not_before(moment: Instant) {
    if let Some(handover) = current::handover() {
        let mut not_before = handover.state.not_before.lock();
        *not_before = (*not_before).max(Some(moment));
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Handed(Option<Handover>);

impl Handed {
    /// Nothing was written, for certain. To be called once, and before the request hears of it.
    pub(crate) fn undone(&self) {
        if let Some(handover) = &self.0 {
            handover.state.writes.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::current::{Current, carried};

    fn within<F: Future>(handover: &Handover, work: F) -> impl Future<Output = F::Output> {
        Current { handover: Some(handover.clone()), ..Current::default() }.run(work)
    }

    #[tokio::test]
    async fn a_write_counts_until_it_is_undone_also_in_a_task_of_its_own() {
        let handover = Handover::default();
        let work = async {
            let first = hand_over();
            let second = tokio::spawn(carried(async { hand_over() })).await.unwrap();
            // Started beside the request: none of its writes.
            let beside = tokio::spawn(async { hand_over() }).await.unwrap();
            (first, second, beside)
        };
        let (first, second, beside) = within(&handover, work).await;
        beside.undone();
        first.undone();
        assert!(handover.may_have_written());
        second.undone();
        assert!(!handover.may_have_written());
    }

    #[tokio::test]
    async fn only_the_request_with_a_key_may_be_repeated() {
        let (with, without) = (Handover::default(), Handover::default());
        within(&with, async { note_repeatable() }).await;
        within(&without, async {}).await;
        note_repeatable();
        assert_eq!((with.is_repeatable(), without.is_repeatable()), (true, false));
    }
}
