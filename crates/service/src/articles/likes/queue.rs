//! The documented way: memory decides, the store follows. **A process that dies loses acknowledged likes.**
//!
//! In the documented system a set in Redis decides a toggle, the change goes on an in-process queue, and a
//! job writes it a minute later: the last state of each pair, in chunks of 1,000, each a transaction. Here
//! the differences from the store are kept in memory and read first, so answers and articles are right as long as
//! the process lives (listings follow the store). A difference is forgotten only after its commit, so a commit that
//! fails loses nothing. The weakness of this mode remains: likes acknowledged within `likes.queue_flush` are only
//! here.
//!
//! Bounded: beyond [`MOST_QUEUED`] differences likes are refused. A clean stop writes everything, or tries
//! to for `server.drain_timeout` and reports how many are lost.

use super::batch::BatchOutcome;
use super::pairs::{PendingPairs, Slice};
use super::store::apply;
use super::{Core, Like, LikeError, Liked, MOST_QUEUED, Pair};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::http::gate::Permit;
use crate::store::{Result, Tx};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Queue {
    core: Core,
    every: Duration,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    pairs: PendingPairs,
    /// Number of chunks written: a reader of the store must read again when one came between.
    written: u64,
}

impl Queue {
    pub(super) fn new(core: Core, every: Duration) -> Self {
        Self { core, every, pending: Mutex::default() }
    }

    pub(super) async fn apply(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        loop {
            let written = {
                let mut pending = self.pending.lock();
                let known = pending.pairs.wanted(like.pair());
                let counts = self.core.counts.get(like.article);
                if let Some((liked, counts)) = known.zip(counts) {
                    return Ok(pending.change(like, liked, counts));
                }
                pending.written
            };
            let stored = self.core.look(like.pair()).await?;
            let mut pending = self.pending.lock();
            if pending.written != written {
                continue;
            }
            if pending.pairs.len() >= MOST_QUEUED {
                return Err(LikeError::Full);
            }
            // Another like may have changed it while the store was read.
            let liked = pending.pairs.wanted(like.pair()).unwrap_or(stored.liked);
            drop(turn);
            return Ok(pending.change(like, liked, stored.counts));
        }
    }

    /// The counts of an article with its pending likes.
    pub(super) fn count(&self, article: ArticleId, stored: Counts) -> Counts {
        let mut pending = self.pending.lock();
        // Within the lock under which a written chunk moves from one to the other.
        let stored = self.core.counts.get(article).unwrap_or(stored);
        Counts { likes: pending.pairs.likes_with_row(article, stored.likes), ..stored }
    }

    pub(super) fn state(&self, article: ArticleId, user: UserId) -> Option<bool> {
        self.pending.lock().pairs.wanted((article, user))
    }

    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// Number of pending pairs, and the age of the oldest.
    pub(super) fn pending(&self) -> (u64, Duration) {
        let pending = self.pending.lock();
        let oldest = pending.pairs.oldest();
        (pending.pairs.len() as u64, oldest.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// Writes what is pending now; returns whether that succeeded. A failure leaves it for the next time.
    pub(super) async fn flush(self: &Arc<Self>) -> bool {
        let mut pairs = self.pending.lock().pairs.all();
        // The order of the tables.
        pairs.sort_unstable();
        self.core.write_chunks(&pairs, async |chunk| self.write(chunk).await).await
    }

    async fn write(self: &Arc<Self>, chunk: &[Pair]) -> Result<()> {
        let slice = Arc::new(self.pending.lock().pairs.slice(chunk).with_all());
        let (this, sent) = (Arc::clone(self), Arc::clone(&slice));
        let job = move |tx: &mut Tx<'_>| apply(tx, &slice.likes);
        let committed = move |outcome: &BatchOutcome| this.written(&sent, outcome);
        self.core.store.store.write_then(job, committed).await.map(drop)
    }

    fn written(&self, slice: &Slice, outcome: &BatchOutcome) {
        self.core.counters.committed(outcome.changed());
        let mut pending = self.pending.lock();
        pending.written += 1;
        pending.pairs.applied(slice, outcome);
        outcome.counts.iter().for_each(|(article, _, now)| self.core.counts.set(*article, *now));
    }
}

impl Pending {
    /// Changes a pair whose state is `liked`, of an article whose row has these counts; returns its answer.
    fn change(&mut self, like: Like, liked: bool, stored: Counts) -> Liked {
        let wanted = like.change.applied_to(liked);
        if wanted != liked {
            self.pairs.change(like.pair(), wanted);
        }
        Liked { liked: wanted, count: self.pairs.likes_with_row(like.article, stored.likes) }
    }
}
