//! Record of the writes that a request has handed to the store.
//!
//! A write in the writer's queue runs even if nobody waits for it any longer. A request that ends early after that, or
//! fails after its write, must not get a response that says that nothing was done. So each request that may write
//! carries a [`Handover`], which the one place that hands writes over marks. The edge checks it before it responds 503,
//! which promises that nothing was done. The handover belongs to the task: see `crate::current`.

use crate::current;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The writes of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handover {
    state: Arc<HandoverState>,
}

#[derive(Debug, Default)]
struct HandoverState {
    /// Writes that were handed over and are not known to have changed nothing.
    writes: AtomicUsize,
    /// The request has an `Idempotency-Key`.
    repeatable: AtomicBool,
    /// Earliest time of the response: other nodes may not know yet what it shows.
    not_before: Mutex<Option<Instant>>,
}

impl Handover {
    /// Whether something was written, or may still be.
    pub(crate) fn may_have_written(&self) -> bool {
        self.state.writes.load(Relaxed) > 0
    }

    /// Earliest time of the response.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        *self.state.not_before.lock()
    }

    /// Whether the request has an `Idempotency-Key`, so that it may be sent again whatever its outcome.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.state.repeatable.load(Relaxed)
    }
}

/// Notes that the current request has an `Idempotency-Key`.
pub(crate) fn note_repeatable() {
    if let Some(handover) = current::handover() {
        handover.state.repeatable.store(true, Relaxed);
    }
}

/// Notes that the current request, if any, hands a write over. It counts until it is [`undone`](Handed::undone).
pub(crate) fn hand_over() -> Handed {
    let current = current::handover();
    if let Some(handover) = &current {
        handover.state.writes.fetch_add(1, Relaxed);
    }
    Handed(current)
}

/// Whether the task works for a request that may write, whose response the edge can delay.
pub(crate) fn is_request() -> bool {
    current::handover().is_some()
}

/// Delays the response of the current request, if any.
pub(crate) fn not_before(moment: Instant) {
    if let Some(handover) = current::handover() {
        let mut not_before = handover.state.not_before.lock();
        *not_before = (*not_before).max(Some(moment));
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Handed(Option<Handover>);

impl Handed {
    /// Notes that nothing was written for certain. Called once, before the request gets the result.
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
            // A task beside the request: its writes are not the request's.
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
