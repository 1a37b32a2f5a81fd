//! Group commit: likes that come while a commit is under way are the next batch, one row of the log.
//!
//! What a job of the writer costs by itself (a box, a channel) is paid once for all of them. The
//! batch gathers in a list of its own rather than in the writer's queue. One job for it is in that
//! queue or being committed while there is anything to do, and takes whatever there is when its
//! turn comes: other writes are not delayed, nor do they delay likes. Never are there two, because
//! a batch that is logged and not committed yet is neither in the tables nor in the
//! [`PendingLikes`](super::pending::PendingLikes): the next one would not see it.

use super::log::{Logged, log};
use super::store::apply;
use super::{Like, LikeError, Liked, Parts, pass};
use crate::http::gate::Permit;
use crate::store::{Result, StoreError, Tx, follow, handover};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Likes that may wait. The gate for writes lets fewer in, unless its setting was raised: this bounds the
/// time that one batch takes of the writer, some 5 µs for each.
const MOST_WAITING: usize = 4096;
/// Changes that the log may hold, and those of a last batch: so many pairs may be pending, of some 100 bytes
/// each, and so many are applied when a process starts after a crash.
const MOST_LOGGED: u64 = 100_000;
/// Changes in the log after which a pass begins at once.
const MANY: u64 = 16_384;
/// Largest batch while the log is at least a third full: half a slice of a pass, so that passes keep up.
const FEW: usize = 128;
/// Time after which one begins in any case.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Behind {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parts: Parts,
    /// Changes that the log may hold.
    most: u64,
    waiting: Mutex<Waiting>,
    /// Says that a pass is due.
    many: Notify,
    /// Whether the last one failed.
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    batch: Batch,
    /// Whether the writer has a job for it, or has not settled the one before.
    at_work: bool,
}

/// Likes, and beside each who waits for it.
#[derive(Debug, Default)]
struct Batch {
    likes: Vec<Like>,
    callers: Vec<Caller>,
}

impl Batch {
    /// Leaves so many.
    fn split_off(&mut self, at: usize) -> Batch {
        let at = at.min(self.likes.len());
        Batch { likes: self.likes.split_off(at), callers: self.callers.split_off(at) }
    }
}

#[derive(Debug)]
struct Caller {
    answer: oneshot::Sender<Result<Liked, LikeError>>,
    /// Its place among the writes, until it is answered.
    _turn: Permit,
}

impl Behind {
    pub(super) fn new(parts: Parts) -> Self {
        Self::bounded(parts, MOST_LOGGED)
    }

    /// With so many changes in the log at most, and those of a batch.
    pub(super) fn bounded(parts: Parts, most: u64) -> Self {
        let (waiting, many, failed) = Default::default();
        Self { shared: Arc::new(Shared { parts, most, waiting, many, failed }) }
    }

    pub(super) async fn apply(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let (answer, answered) = oneshot::channel();
        let logged = self.shared.parts.pending.backlog().1;
        let handed;
        let first = {
            let mut waiting = self.shared.waiting.lock();
            let batch = &mut waiting.batch;
            if batch.likes.len() >= MOST_WAITING || logged >= self.shared.most {
                return Err(LikeError::Full);
            }
            batch.likes.push(like);
            handed = handover::hand_over();
            batch.callers.push(Caller { answer, _turn: turn });
            !std::mem::replace(&mut waiting.at_work, true)
        };
        if first {
            Shared::submit(&self.shared);
        }
        // Unanswered is what was in work when the writer's thread ended.
        let Ok(outcome) = answered.await else { return Err(LikeError::Store(StoreError::Closed)) };
        let unknown = matches!(&outcome, Err(LikeError::Store(error)) if error.is_unknown());
        if outcome.is_err() && !unknown {
            handed.undone();
        }
        outcome
    }

    /// Likes that wait for a commit or to be applied, and the oldest of the latter for how long.
    pub(super) fn pending(&self) -> (u64, Duration) {
        let waiting = self.shared.waiting.lock().batch.likes.len() as u64;
        let (pending, lag) = self.shared.parts.pending.metrics();
        (waiting + pending, lag)
    }

    /// Returns when a pass is due.
    pub(super) async fn until_due(&self) {
        // What has just failed is not tried again with every batch.
        if self.shared.failed.load(Relaxed) {
            tokio::time::sleep(EVERY).await;
        } else {
            let _ = tokio::time::timeout(EVERY, self.shared.many.notified()).await;
        }
    }

    /// Applies what is in the log now; answers whether it could.
    pub(super) async fn flush(&self) -> bool {
        let done = pass::run(&self.shared.parts).await;
        self.shared.failed.store(!done, Relaxed);
        done
    }
}

impl Shared {
    /// What a job has to do. When the log is long it is not everything: passes must be the faster ones.
    fn take(&self) -> Batch {
        let plenty = self.parts.pending.backlog().1 >= self.most / 3;
        let mut waiting = self.waiting.lock();
        let rest = if plenty { waiting.batch.split_off(FEW) } else { Batch::default() };
        std::mem::replace(&mut waiting.batch, rest)
    }

    /// Hands the writer a job for whatever waits when it runs.
    fn submit(self: &Arc<Self>) {
        let taken: Arc<Mutex<Option<Batch>>> = Arc::default();
        let (this, batch) = (Arc::clone(self), Arc::clone(&taken));
        let job = move |tx: &mut Tx<'_>| {
            // Kept outside the job: after a failure its callers are still answered, and a job that is run again takes the
            // same batch.
            let mut batch = batch.lock();
            let Batch { likes, .. } = batch.get_or_insert_with(|| this.take());
            if tx.is_shared() {
                let applied = apply(tx, likes)?;
                return Ok((applied.answers, Written::Applied(applied.changed)));
            }
            let mut logged = log(tx, likes, &this.parts.pending)?;
            let answers = std::mem::take(&mut logged.answers);
            Ok::<_, StoreError>((answers, Written::Logged(logged)))
        };
        let this = Arc::clone(self);
        let settle = move |outcome: Result<_>| {
            let outcome = outcome.map(|(answers, written)| {
                follow(|| this.committed(&written));
                answers
            });
            let taken = taken.lock().take();
            let callers = taken.map(|batch| batch.callers);
            // A job that did not run, for want of a transaction, has left them in the list.
            let more = this.settled(callers, outcome);
            if more {
                Self::submit(&this);
            }
        };
        if let Err(error) = self.parts.store.store.submit(job, settle) {
            self.settled(None, Err(error));
        }
    }

    /// Answers a batch, that which waits if none was taken; says whether there is another.
    fn settled(
        &self,
        callers: Option<Vec<Caller>>,
        outcome: Result<Vec<Result<Liked, LikeError>>>,
    ) -> bool {
        let mut waiting = self.waiting.lock();
        let callers = callers.unwrap_or_else(|| std::mem::take(&mut waiting.batch).callers);
        waiting.at_work = !waiting.batch.likes.is_empty();
        let more = waiting.at_work;
        drop(waiting);
        answer(callers, outcome);
        more
    }

    fn committed(&self, written: &Written) {
        let logged = match written {
            Written::Logged(logged) => logged,
            Written::Applied(changed) => return self.parts.counted.committed(*changed),
        };
        self.parts.counted.committed(logged.pairs.len() as u64);
        self.parts.pending.logged(logged);
        if self.parts.pending.backlog().0 >= MANY {
            self.many.notify_one();
        }
    }
}

/// What a batch has come to.
enum Written {
    /// One row of the log.
    Logged(Logged),
    /// So many rows of the tables, on a server: no other transaction waits for this one there, but for the articles
    /// that both are about.
    Applied(u64),
}

/// Tells those who wait. Whoever has left does not hear it; the like stands all the same.
fn answer(callers: Vec<Caller>, outcome: Result<Vec<Result<Liked, LikeError>>>) {
    match outcome {
        Ok(answers) => {
            for (caller, answer) in callers.into_iter().zip(answers) {
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
