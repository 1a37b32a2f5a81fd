//! As documented: memory decides, the store follows. **Loses what it has acknowledged when the process dies.**
//!
//! In the documented system a set in Redis decides a toggle, the change goes on an in-process queue, and a
//! job writes it a minute later: the last state of each pair, in chunks of 1,000, each a transaction. Here
//! what differs from the store is kept in memory and found there first, so the answers, and what everybody
//! reads of an article, are right as long as the process lives (listings follow the store); and what was written is forgotten only after its commit,
//! so a commit that fails loses nothing. What remains is what this way is: up to `likes.queue_flush` of
//! acknowledged likes are nowhere but here.
//!
//! Bounded: beyond [`MOST_QUEUED`] differences likes are refused. A clean stop writes everything, or tries
//! to for `server.drain_timeout` and says how many are lost.

use super::pairs::{Pair, PendingPairs, Slice};
use super::store::{Applied, apply};
use super::{Like, LikeError, Liked, MOST_QUEUED, Parts};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::http::gate::Permit;
use crate::store::{Result, Tx};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Queue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parts: Parts,
    every: Duration,
    pending: Mutex<Pending>,
}

/// What is acknowledged and not in the store.
#[derive(Debug, Default)]
struct Pending {
    pairs: PendingPairs,
    /// Chunks written: whoever has read the store meanwhile must read it again.
    written: u64,
}

impl Queue {
    pub(super) fn new(parts: Parts, every: Duration) -> Self {
        Self { shared: Arc::new(Shared { parts, every, pending: Mutex::default() }) }
    }

    pub(super) async fn apply(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let this = &*self.shared;
        loop {
            let written = {
                let mut pending = this.pending.lock();
                let known = pending.pairs.wanted((like.article, like.user));
                let counts = this.parts.counts.get(like.article);
                if let Some((liked, counts)) = known.zip(counts) {
                    return Ok(pending.change(like, liked, counts));
                }
                pending.written
            };
            let looked = this.parts.look(like.article, like.user).await?;
            let mut pending = this.pending.lock();
            if pending.written != written {
                continue;
            }
            if pending.pairs.len() >= MOST_QUEUED {
                return Err(LikeError::Full);
            }
            // Somebody may have changed it while the store was read.
            let liked = pending.pairs.wanted((like.article, like.user)).unwrap_or(looked.liked);
            drop(turn);
            return Ok(pending.change(like, liked, looked.counts));
        }
    }

    /// The counts of an article with what is pending.
    pub(super) fn count(&self, article: ArticleId, stored: Counts) -> Counts {
        let mut pending = self.shared.pending.lock();
        // Read within the lock under which a written chunk moves from one to the other.
        let stored = self.shared.parts.counts.get(article).unwrap_or(stored);
        Counts { likes: pending.pairs.likes_with_row(article, stored.likes), ..stored }
    }

    pub(super) fn state(&self, article: ArticleId, user: UserId) -> Option<bool> {
        self.shared.pending.lock().pairs.wanted((article, user))
    }

    pub(super) fn every(&self) -> Duration {
        self.shared.every
    }

    /// How many wait, and the oldest of them for how long.
    pub(super) fn pending(&self) -> (u64, Duration) {
        let pending = self.shared.pending.lock();
        let oldest = pending.pairs.oldest();
        (pending.pairs.len() as u64, oldest.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// Writes what is pending now; answers whether it could. What cannot be written stays, for the next time.
    pub(super) async fn flush(&self) -> bool {
        let mut pairs = self.shared.pending.lock().pairs.all();
        // As the tables are.
        pairs.sort_unstable();
        let this = &self.shared;
        this.parts.write_chunks(&pairs, async |chunk| Shared::write(this, chunk).await).await
    }
}

impl Shared {
    async fn write(self: &Arc<Self>, chunk: &[Pair]) -> Result<()> {
        let slice = Arc::new(self.pending.lock().pairs.slice(chunk).with_all());
        let (this, sent) = (Arc::clone(self), Arc::clone(&slice));
        let job = move |tx: &mut Tx<'_>| apply(tx, &slice.likes);
        let committed = move |applied: &Applied| this.written(&sent, applied);
        self.parts.store.store.write_then(job, committed).await.map(drop)
    }

    fn written(&self, slice: &Slice, applied: &Applied) {
        self.parts.counted.committed(applied.changed);
        let mut pending = self.pending.lock();
        pending.written += 1;
        pending.pairs.applied(slice, applied);
        applied.counts.iter().for_each(|(article, now)| self.parts.counts.set(*article, *now));
    }
}

impl Pending {
    /// Changes a pair that is `liked` now, of an article whose row has these counts; gives its answer.
    fn change(&mut self, like: Like, liked: bool, stored: Counts) -> Liked {
        let wanted = like.change.applied_to(liked);
        if wanted != liked {
            self.pairs.change((like.article, like.user), wanted);
        }
        Liked { liked: wanted, count: self.pairs.likes_with_row(like.article, stored.likes) }
    }
}
