//! What follows from a transaction once it is committed, as data.
//!
//! A job says it while it runs ([`Tx::effects`](super::Tx::effects)); one place applies it: on the writer's thread,
//! after the commit and before the answer. Commits, effects and answers follow each other there in one order. So no
//! client learns of a write, not even one that found it done already, while something from before it is still
//! remembered. Nothing needs to be announced before the transaction either: a load that began before the commit is
//! vetoed, or what it stored dies, and a load that begins after it brings the new state. If writes were announced
//! before, a listing of all places would never be stored while anybody writes, and anybody could keep a post out of
//! the cache by asking to remove it: no load stores while a write is open.

use super::{Result, StoreError};
use crate::accounts::{Change, Cutoff, Revoked, TokenId};
use crate::articles::{ArticleId, Counts, PendingLikes};
use madang_cache::{Cache, Stamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::Notify;

/// What a transaction has changed of what this process, or another, may remember.
#[derive(Debug, Default)]
pub struct Effects {
    /// What cached responses depend on.
    ended: Vec<Stamp>,
    /// The counts of an article as its row has them now; nothing when it was deleted.
    counts: Vec<(ArticleId, Option<Counts>)>,
    /// Tokens that are not valid any more.
    revoked: Option<Change>,
    /// Something was deleted of which rows are left.
    leaves_rows: bool,
    /// All cached responses end.
    ends_everything: bool,
    /// The markets are others.
    markets: bool,
    /// Many texts wait to be indexed.
    texts: bool,
}

/// Effects as other processes are told of them. Counts are not among them: where there are other processes, nobody
/// remembers any.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Message {
    ended: Vec<u64>,
    everything: bool,
    markets: bool,
    /// Something was deleted of which rows are left.
    leaves_rows: bool,
    /// Many texts wait to be indexed.
    texts: bool,
    revoked: Vec<[u8; 16]>,
    /// User, last second of issue, last expiry.
    cut_off: Option<(i64, i64, i64)>,
    forgotten: Vec<[u8; 16]>,
    forgotten_users: Vec<i64>,
}

impl Effects {
    /// Responses that depend on these end.
    pub(crate) fn end(&mut self, stamps: impl IntoIterator<Item = Stamp>) {
        self.ended.extend(stamps);
    }

    /// All cached responses end: so much has changed that it is not worth saying what.
    pub(crate) fn end_everything(&mut self) {
        self.ends_everything = true;
    }

    /// Markets are read anew, by all who have them in memory.
    pub(crate) fn change_markets(&mut self) {
        self.markets = true;
    }

    /// Whether other processes have to be told.
    pub(super) fn concern_others(&self) -> bool {
        !self.ended.is_empty() || self.ends_everything || self.revoked.is_some() || self.markets
    }

    /// What cached responses depend on that end; nothing where all of them do.
    pub(super) fn stamps(&self) -> Option<&[Stamp]> {
        (!self.ends_everything).then_some(self.ended.as_slice())
    }

    /// For other processes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let revoked = self.revoked.clone().unwrap_or_default();
        let message = Message {
            ended: self.ended.iter().map(|stamp| stamp.to_bits()).collect(),
            everything: self.ends_everything,
            markets: self.markets,
            leaves_rows: self.leaves_rows,
            texts: self.texts,
            revoked: revoked.added.iter().map(|token| token.0).collect(),
            cut_off: revoked.folded.map(|(user, cut)| (user, cut.until, cut.expires_at)),
            forgotten: revoked.forgotten.iter().map(|token| token.0).collect(),
            forgotten_users: revoked.forgotten_users,
        };
        // Numbers and lists of them can always be written.
        serde_json::to_vec(&message).unwrap_or_default()
    }

    /// What another process has told.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let message: Message = serde_json::from_slice(bytes)
            .map_err(|error| StoreError::Corrupt(format!("a row of the outbox: {error}")))?;
        let change = Change {
            added: message.revoked.first().copied().map(TokenId),
            folded: message
                .cut_off
                .map(|(user, until, expires_at)| (user, Cutoff { until, expires_at })),
            forgotten: message.forgotten.into_iter().map(TokenId).collect(),
            forgotten_users: message.forgotten_users,
        };
        Ok(Self {
            ended: message.ended.into_iter().map(Stamp::from_bits).collect(),
            counts: Vec::new(),
            revoked: (change != Change::default()).then_some(change),
            leaves_rows: message.leaves_rows,
            ends_everything: message.everything,
            markets: message.markets,
            texts: message.texts,
        })
    }

    /// The row of an article has these counts now.
    pub(crate) fn count(&mut self, article: ArticleId, now: Counts) {
        self.counts.push((article, Some(now)));
    }

    /// There is no such article any more.
    pub(crate) fn forget(&mut self, article: ArticleId) {
        self.counts.push((article, None));
    }

    /// Tokens were revoked, or need not be remembered any longer.
    pub(crate) fn revoke(&mut self, change: Change) {
        self.revoked = Some(change);
    }

    /// Rows that belong to what was deleted are left. Wakes the housekeeper.
    pub(crate) fn leave_rows(&mut self) {
        self.leaves_rows = true;
    }

    /// Many texts wait to be indexed. Wakes the housekeeper.
    pub(crate) fn leave_texts(&mut self) {
        self.texts = true;
    }

    pub(super) fn apply(&self, memory: &Memory) {
        let known = memory.known.lock();
        if let Some(pending) = &known.counts {
            for (article, now) in &self.counts {
                match now {
                    Some(now) => pending.stored(*article, *now),
                    None => pending.forget(*article),
                }
            }
        }
        if let (Some(revoked), Some(change)) = (&known.revoked, &self.revoked) {
            revoked.apply(change);
        }
        if let Some(cache) = &known.cache {
            if self.ends_everything {
                cache.invalidate_all();
            }
            cache.invalidate(&self.ended);
        }
        if self.leaves_rows {
            memory.deletions.notify_one();
        }
        if self.texts {
            memory.texts.notify_one();
        }
        if let (true, Some(told)) = (self.markets, &known.markets) {
            told();
        }
    }
}

/// What this process remembers of a store. A command that only fills one remembers nothing.
#[derive(Default)]
pub(super) struct Memory {
    known: Mutex<Known>,
    pub(super) deletions: Arc<Notify>,
    pub(super) texts: Arc<Notify>,
}

impl Memory {
    /// Forgets what may be wrong, and reads anew what must be known.
    ///
    /// # Errors
    /// When the store cannot answer: then this is to be tried again before anything is used.
    pub(super) fn forget(&self) -> Result<()> {
        let reload = {
            let known = self.known.lock();
            if let Some(cache) = &known.cache {
                cache.invalidate_all();
            }
            known.markets.iter().for_each(|told| told());
            known.reload.clone()
        };
        reload.map_or(Ok(()), |reload| reload())
    }
}

/// Has the markets read anew. It must be short.
type Told = Box<dyn Fn() + Send + Sync>;

/// Reads what is revoked once more.
type Reload = Arc<dyn Fn() -> Result<()> + Send + Sync>;

#[derive(Default)]
struct Known {
    reload: Option<Reload>,
    cache: Option<Cache>,
    counts: Option<Arc<PendingLikes>>,
    revoked: Option<Arc<Revoked>>,
    markets: Option<Told>,
}

impl super::Store {
    /// From now on transactions end the responses in this cache.
    pub(crate) fn remembered_in(&self, cache: &Cache) {
        self.known(|known| known.cache = Some(cache.clone()));
    }

    /// From now on transactions tell this what counts articles have.
    pub(crate) fn counted_in(&self, pending: &Arc<PendingLikes>) {
        self.known(|known| known.counts = Some(Arc::clone(pending)));
    }

    /// From now on transactions tell this what they revoke.
    pub(crate) fn revoked_in(&self, revoked: &Arc<Revoked>) {
        self.known(|known| known.revoked = Some(Arc::clone(revoked)));
    }

    /// From now on this is run when markets are others.
    pub(crate) fn markets_told(&self, told: impl Fn() + Send + Sync + 'static) {
        self.known(|known| known.markets = Some(Box::new(told)));
    }

    /// From now on this is run when what was remembered may be wrong, before anything of it is used again.
    pub(crate) fn reloaded_by(
        &self,
        reload: impl Fn(super::Store) -> Result<()> + Send + Sync + 'static,
    ) {
        // The store would keep itself open otherwise.
        let inner = Arc::downgrade(&self.inner);
        let reload = move || inner.upgrade().map_or(Ok(()), |inner| reload(super::Store { inner }));
        self.known(|known| known.reload = Some(Arc::new(reload)));
    }

    fn known(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.inner.memory.known.lock());
    }
}
