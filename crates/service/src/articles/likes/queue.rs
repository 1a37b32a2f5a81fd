//! As documented: memory decides, the store follows. **Loses what it has acknowledged when the process dies.**
//!
//! In the documented system a set in Redis decides a toggle, the change goes on an in-process queue, and a
//! job writes it a minute later: the last state of each pair, in chunks of 1,000, each a transaction. Here
//! what differs from the store is kept in memory and found there first, so the answers, and what everybody
//! reads of an article, are right as long as the process lives (listings follow the store); and what was written is forgotten only after its commit,
//! so a commit that fails loses nothing. What remains is what this way is: up to `likes.queue_flush` of
//! acknowledged likes are nowhere but here.
//!
//! Bounded: beyond [`MOST_PENDING`] differences likes are refused. A clean stop writes everything, or tries
//! to for `server.drain_timeout` and says how many are lost.

use super::store::{Applied, apply};
use super::{Change, Like, LikeError, Liked, Parts};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::http::gate::Permit;
use crate::store::{StoreError, Tx};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Differences from the store that may wait, of some 100 bytes each.
const MOST_PENDING: usize = 100_000;
/// Pairs of one transaction, as documented.
const CHUNK: usize = 1000;

type Pair = (ArticleId, UserId);

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
    /// In the order in which the store likes them.
    pairs: BTreeMap<Pair, State>,
    /// What the pairs of an article add to its stored count.
    differences: HashMap<ArticleId, i64>,
    /// Chunks written: whoever has read the store meanwhile must read it again.
    written: u64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    stored: bool,
    wanted: bool,
    since: Instant,
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
                let known = pending.pairs.get(&(like.article, like.user)).map(|state| state.wanted);
                let counts = this.parts.counts.get(like.article);
                if let Some((liked, counts)) = known.zip(counts) {
                    return Ok(pending.change(like, liked, liked, counts));
                }
                pending.written
            };
            let looked = this.parts.look(like.article, like.user).await?;
            let mut pending = this.pending.lock();
            if pending.written != written {
                continue;
            }
            if pending.pairs.len() >= MOST_PENDING {
                return Err(LikeError::Full);
            }
            // Somebody may have changed it while the store was read.
            let state = pending.pairs.get(&(like.article, like.user));
            let liked = state.map_or(looked.liked, |state| state.wanted);
            drop(turn);
            return Ok(pending.change(like, liked, looked.liked, looked.counts));
        }
    }

    /// The counts of an article with what is pending.
    pub(super) fn count(&self, article: ArticleId, stored: Counts) -> Counts {
        let pending = self.shared.pending.lock();
        // Read within the lock under which a written chunk moves from one to the other.
        let stored = self.shared.parts.counts.get(article).unwrap_or(stored);
        Counts { likes: pending.count(article, stored), ..stored }
    }

    pub(super) fn state(&self, article: ArticleId, user: UserId) -> Option<bool> {
        self.shared.pending.lock().pairs.get(&(article, user)).map(|state| state.wanted)
    }

    pub(super) fn every(&self) -> Duration {
        self.shared.every
    }

    /// How many wait, and the oldest of them for how long.
    pub(super) fn pending(&self) -> (u64, Duration) {
        let pending = self.shared.pending.lock();
        let oldest = pending.pairs.values().map(|state| state.since).min();
        (pending.pairs.len() as u64, oldest.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// Writes what is pending now; answers whether it could. What cannot be written stays, for the next time.
    pub(super) async fn flush(&self) -> bool {
        let pairs: Vec<Pair> = self.shared.pending.lock().pairs.keys().copied().collect();
        let mut done = true;
        for chunk in pairs.chunks(CHUNK) {
            if let Err(error) = Shared::write(&self.shared, chunk).await {
                done = false;
                self.shared.parts.counted.flush_failed();
                tracing::error!(%error, pending = pairs.len(), "acknowledged likes are not stored yet");
                // What the store refuses of one chunk says nothing of the next.
                if error.is_temporary() {
                    break;
                }
            }
        }
        done
    }
}

impl Shared {
    async fn write(self: &Arc<Self>, chunk: &[Pair]) -> Result<(), StoreError> {
        let likes: Arc<[Like]> = self.pending.lock().likes(chunk).into();
        let (this, sent) = (Arc::clone(self), Arc::clone(&likes));
        let job = move |tx: &mut Tx<'_>| apply(tx, &likes);
        let committed = move |applied: &Applied| this.written(&sent, applied);
        self.parts.store.store.write_then(job, committed).await.map(drop)
    }

    fn written(&self, likes: &[Like], applied: &Applied) {
        self.parts.counted.committed(applied.changed);
        let mut pending = self.pending.lock();
        pending.written += 1;
        for (like, answer) in likes.iter().zip(&applied.answers) {
            pending.wrote(*like, answer.is_ok());
        }
        applied.counts.iter().for_each(|(article, now)| self.parts.counts.set(*article, *now));
    }
}

impl Pending {
    /// Changes a pair that is `liked` now and `stored` so; gives its answer.
    fn change(&mut self, like: Like, liked: bool, stored: bool, counts: Counts) -> Liked {
        let wanted = like.change.of(liked);
        let pair = (like.article, like.user);
        if let Some(state) = self.pairs.get_mut(&pair) {
            state.wanted = wanted;
        } else if wanted != stored {
            self.pairs.insert(pair, State { stored, wanted, since: Instant::now() });
        }
        self.differ(like.article, i64::from(wanted) - i64::from(liked));
        Liked { liked: wanted, count: self.count(like.article, counts) }
    }

    fn count(&self, article: ArticleId, stored: Counts) -> u64 {
        let difference = self.differences.get(&article).copied().unwrap_or(0);
        stored.likes.saturating_add_signed(difference)
    }

    /// What to write of these pairs.
    fn likes(&self, pairs: &[Pair]) -> Vec<Like> {
        let like = |pair: &Pair| {
            let state = self.pairs.get(pair)?;
            let change = if state.wanted { Change::On } else { Change::Off };
            Some(Like { article: pair.0, user: pair.1, change })
        };
        pairs.iter().filter_map(like).collect()
    }

    /// Notes that a pair is stored as it was sent, or never will be because its article or user is gone.
    fn wrote(&mut self, like: Like, stored: bool) {
        let pair = (like.article, like.user);
        let Some(state) = self.pairs.get_mut(&pair) else { return };
        let sent = like.change == Change::On;
        let gone = i64::from(sent) - i64::from(state.stored);
        state.stored = sent;
        let left = i64::from(state.wanted) - i64::from(sent);
        if !stored || left == 0 {
            self.pairs.remove(&pair);
        }
        self.differ(like.article, if stored { -gone } else { -gone - left });
    }

    fn differ(&mut self, article: ArticleId, by: i64) {
        let difference = self.differences.entry(article).or_default();
        *difference += by;
        if *difference == 0 {
            self.differences.remove(&article);
        }
    }
}
