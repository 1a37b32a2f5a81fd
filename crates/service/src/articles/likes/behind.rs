//! Group commit: likes that come while a commit is under way are the next batch, one job of the writer.
//!
//! What a job costs by itself (a box, a savepoint, a channel) is paid once for all of them, and so is what
//! they have in common: an article's row is read and written once. The batch gathers in a list of its
//! own rather than in the writer's queue; a job for it is in that queue exactly while the list is not
//! empty, and takes whatever there is when its turn comes. So other writes are neither delayed nor do
//! they delay likes: job and writes share the commit.

use super::store::{Applied, apply};
use super::{Like, LikeError, Liked, Parts};
use crate::http::gate::Permit;
use crate::store::{StoreError, Tx};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Likes that may wait. The gate for writes lets fewer in, unless its setting was raised: this bounds the
/// time that one batch takes of the writer, some 10 µs for each.
const MOST_WAITING: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Behind {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parts: Parts,
    waiting: Mutex<Batch>,
}

/// Likes, and beside each who waits for it.
#[derive(Debug, Default)]
struct Batch {
    likes: Vec<Like>,
    callers: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Result<Liked, LikeError>>,
    /// Its place among the writes, until it is answered.
    _turn: Permit,
}

impl Behind {
    pub(super) fn new(parts: Parts) -> Self {
        Self { shared: Arc::new(Shared { parts, waiting: Mutex::default() }) }
    }

    pub(super) async fn apply(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let (answer, answered) = oneshot::channel();
        let first = {
            let mut waiting = self.shared.waiting();
            if waiting.likes.len() >= MOST_WAITING {
                return Err(LikeError::Full);
            }
            waiting.likes.push(like);
            waiting.callers.push(Waiting { answer, _turn: turn });
            waiting.likes.len() == 1
        };
        if first {
            Shared::submit(&self.shared);
        }
        // Unanswered is what was in work when the writer's thread ended.
        answered.await.unwrap_or(Err(LikeError::Store(StoreError::Closed)))
    }

    pub(super) fn pending(&self) -> u64 {
        self.shared.waiting().likes.len() as u64
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Batch> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Batch {
        std::mem::take(&mut *self.waiting())
    }

    /// Hands the writer a job for whatever waits when it runs.
    fn submit(self: &Arc<Self>) {
        let taken = Arc::new(Mutex::new(None));
        let (this, batch) = (Arc::clone(self), Arc::clone(&taken));
        let job = move |tx: &mut Tx<'_>| {
            let Batch { likes, callers } = this.take();
            // Out of this job's hands before anything can fail: who waits is answered in any case.
            *batch.lock().unwrap_or_else(PoisonError::into_inner) = Some(callers);
            let mut applied = apply(tx, &likes)?;
            this.after_commit(tx, &mut applied);
            Ok::<_, StoreError>(applied)
        };
        let this = Arc::clone(self);
        let settle = move |outcome: Result<Applied, StoreError>| {
            let callers = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A job that did not run, for want of a transaction, has left them in the list.
            let callers = callers.unwrap_or_else(|| this.take().callers);
            answer(callers, outcome);
        };
        if let Err(error) = self.parts.store.store.submit(job, settle) {
            answer(self.take().callers, Err(error));
        }
    }

    fn after_commit(&self, tx: &mut Tx<'_>, applied: &mut Applied) {
        let (memory, counted) = (Arc::clone(&self.parts.counts), Arc::clone(&self.parts.counted));
        let (counts, changed) = (std::mem::take(&mut applied.counts), applied.changed);
        tx.after_commit(move || {
            counted.committed(changed);
            counts.iter().for_each(|(article, now)| memory.set(*article, *now));
        });
    }
}

/// Tells those who wait. Whoever has left does not hear it; the like stands all the same.
fn answer(callers: Vec<Waiting>, outcome: Result<Applied, StoreError>) {
    match outcome {
        Ok(applied) => {
            for (caller, answer) in callers.into_iter().zip(applied.answers) {
                let _ = caller.answer.send(answer);
            }
        }
        Err(error) => {
            for caller in callers {
                let _ = caller.answer.send(Err(LikeError::Store(error.clone())));
            }
        }
    }
}
