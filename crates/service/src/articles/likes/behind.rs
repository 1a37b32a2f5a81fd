//! Group commit: likes that arrive during a commit are the next batch, one record of the log.
//!
//! A batch shares one job of the writer, with its box and its channel. It gathers in a list of its own rather than in
//! the writer's queue. While there is anything to do, one job is in that queue or being committed, and takes the
//! whole list when its turn comes: other writes are not delayed, nor do they delay likes. There are never two jobs,
//! because a batch that is logged and not committed is neither in the tables nor in the [`PendingLikes`]: the next
//! one would not see it.

use super::batch::decide;
use super::pending::{Logged, PendingLikes};
use super::store::{apply, exists};
use super::{Core, Like, LikeError, Liked, Pair, log, pass, record};
use crate::articles::store::{counts, likes};
use crate::articles::types::{ArticleId, Counts};
use crate::http::gate::Permit;
use crate::store::{Result, StoreError, Tx, follow, handover};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Likes that may wait. The gate for writes admits fewer, unless its setting was raised: this bounds the time
/// of one batch on the writer's thread, some 5 µs for each.
const MOST_WAITING: usize = 4096;
/// Changes that the log may hold, not counting a last batch. It bounds the pending pairs, of some 100 bytes each,
/// and the work of a start after a crash.
const MOST_LOGGED: u64 = 100_000;
/// Changes in the log that make a pass begin at once.
const MANY: u64 = 16_384;
/// Largest batch while the log is at least a third full: half a slice of a pass, so that passes keep up.
const FEW: usize = 128;
/// Longest time between two passes.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Behind {
    core: Core,
    /// Changes that the log may hold.
    most: u64,
    waiting: Mutex<Waiting>,
    /// Signals that a pass is due.
    many: Notify,
    /// True if the last pass failed.
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    batch: Batch,
    /// True if the writer has a job for the batch, or has not settled the previous one.
    at_work: bool,
}

/// Likes, and the caller of each.
#[derive(Debug, Default)]
struct Batch {
    likes: Vec<Like>,
    callers: Vec<Caller>,
}

#[derive(Debug)]
struct Caller {
    answer: oneshot::Sender<Result<Liked, LikeError>>,
    /// Its place among the writes, until it is answered.
    _turn: Permit,
}

/// Changes written by a job.
enum Written {
    Logged(Logged),
    /// Number of rows in the tables of a server. Other transactions wait there only if both concern the same article.
    Applied(u64),
}

impl Behind {
    pub(super) fn new(core: Core) -> Self {
        Self::bounded(core, MOST_LOGGED)
    }

    /// With at most this many changes in the log, not counting a last batch.
    pub(super) fn bounded(core: Core, most: u64) -> Self {
        let (waiting, many, failed) = Default::default();
        Self { core, most, waiting, many, failed }
    }

    pub(super) async fn apply(
        self: &Arc<Self>,
        like: Like,
        turn: Permit,
    ) -> Result<Liked, LikeError> {
        let (answer, answered) = oneshot::channel();
        let logged = self.core.pending.backlog().1;
        let handed;
        let first = {
            let mut waiting = self.waiting.lock();
            let batch = &mut waiting.batch;
            if batch.likes.len() >= MOST_WAITING || logged >= self.most {
                return Err(LikeError::Full);
            }
            batch.likes.push(like);
            handed = handover::hand_over();
            batch.callers.push(Caller { answer, _turn: turn });
            !std::mem::replace(&mut waiting.at_work, true)
        };
        if first {
            self.submit();
        }
        // The sender is dropped unused if the writer's thread ends.
        let Ok(outcome) = answered.await else { return Err(LikeError::Store(StoreError::Closed)) };
        let unknown = matches!(&outcome, Err(LikeError::Store(error)) if error.is_unknown());
        if outcome.is_err() && !unknown {
            handed.undone();
        }
        outcome
    }

    /// Number of likes that wait for a commit or to be applied, and the age of the oldest of the latter.
    pub(super) fn pending(&self) -> (u64, Duration) {
        let waiting = self.waiting.lock().batch.likes.len() as u64;
        let (pending, lag) = self.core.pending.metrics();
        (waiting + pending, lag)
    }

    /// Returns when a pass is due.
    pub(super) async fn until_due(&self) {
        // After a failure the next try does not come with the next batch.
        if self.failed.load(Relaxed) {
            tokio::time::sleep(EVERY).await;
        } else {
            let _ = tokio::time::timeout(EVERY, self.many.notified()).await;
        }
    }

    /// Applies the log to the tables; returns whether that succeeded.
    pub(super) async fn flush(&self) -> bool {
        let done = pass::run(&self.core).await;
        self.failed.store(!done, Relaxed);
        done
    }

    /// Takes the batch of a job: all that wait, or a few when the log is long, since passes must be faster.
    fn take(&self) -> Batch {
        let is_long = self.core.pending.backlog().1 >= self.most / 3;
        let batch = &mut self.waiting.lock().batch;
        let len = if is_long { batch.likes.len().min(FEW) } else { batch.likes.len() };
        let rest =
            Batch { likes: batch.likes.split_off(len), callers: batch.callers.split_off(len) };
        std::mem::replace(batch, rest)
    }

    /// Submits a job that takes the batch when it runs.
    fn submit(self: &Arc<Self>) {
        let taken: Arc<Mutex<Option<Batch>>> = Arc::default();
        let (this, batch) = (Arc::clone(self), Arc::clone(&taken));
        let job = move |tx: &mut Tx<'_>| {
            // Kept outside the job: after a failure its callers are still answered, and a job that is run again takes
            // the same batch.
            let mut batch = batch.lock();
            let Batch { likes, .. } = batch.get_or_insert_with(|| this.take());
            if tx.is_shared() {
                let outcome = apply(tx, likes)?;
                return Ok((Written::Applied(outcome.changed()), outcome.answers));
            }
            let (logged, answers) = log_batch(tx, likes, &this.core.pending)?;
            Ok::<_, StoreError>((Written::Logged(logged), answers))
        };
        let this = Arc::clone(self);
        let settle = move |outcome: Result<_>| {
            let outcome = outcome.map(|(written, answers)| {
                follow(|| this.committed(&written));
                answers
            });
            let callers = taken.lock().take().map(|batch| batch.callers);
            // A job that did not run, for want of a transaction, has left its callers in the list.
            if this.settle(callers, outcome) {
                this.submit();
            }
        };
        if let Err(error) = self.core.store.store.submit(job, settle) {
            self.settle(None, Err(error));
        }
    }

    /// Answers a batch, or the waiting one if none was taken; returns whether another waits.
    fn settle(
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
            Written::Applied(changed) => return self.core.counters.committed(*changed),
        };
        self.core.counters.committed(logged.pairs.len() as u64);
        self.core.pending.logged(logged);
        if self.core.pending.backlog().0 >= MANY {
            self.many.notify_one();
        }
    }
}

/// Logs a batch as one record.
fn log_batch(
    tx: &Tx<'_>,
    batch: &[Like],
    pending: &PendingLikes,
) -> Result<(Logged, Vec<Result<Liked, LikeError>>)> {
    let mut stored = Vec::new();
    let mut users = HashMap::with_capacity(batch.len().min(256));
    let counts = |article: ArticleId| {
        // Always read: it shows whether the article exists.
        let Some(row) = counts(tx, article)? else { return Ok(None) };
        stored.push((article, row));
        Ok(Some(Counts { likes: pending.likes(article).unwrap_or(row.likes), ..row }))
    };
    let was_liked = |(article, user): Pair, _| {
        if !exists(tx, user, &mut users)? {
            return Ok(None);
        }
        match pending.state(article, user) {
            Some(liked) => Ok(Some(liked)),
            None => likes(tx, article, user).map(Some),
        }
    };
    let outcome = decide(batch, counts, was_liked)?;
    let changed = outcome.changed();
    let log = match changed {
        0 => None,
        _ => Some((log::append(tx, &record::write(&outcome.changes))?, changed)),
    };
    Ok((Logged { pairs: outcome.changes, stored, log }, outcome.answers))
}

/// Answers callers. One that has left does not see it; its like stands all the same.
fn answer(callers: Vec<Caller>, outcome: Result<Vec<Result<Liked, LikeError>>>) {
    let answers = outcome.unwrap_or_else(|error| vec![Err(LikeError::Store(error)); callers.len()]);
    for (caller, answer) in callers.into_iter().zip(answers) {
        let _ = caller.answer.send(answer);
    }
}
