//! Effects of a committed transaction on memory, as data.
//!
//! A job declares them while it runs ([`Tx::effects`](super::Tx::effects)). One place applies them, on the thread of
//! the transaction, after the commit and before the response. Commits, effects and responses have one order there, so
//! no client learns of a write (not even one that found it done already) while something older is still in memory.
//! Nothing needs to be announced before the transaction either: a load that began before the commit is vetoed, or the
//! response that it stored ends, and a load that begins later reads the new state. If writes were announced before,
//! no load would store while a write is open: listings would never be cached while there are writes, and anybody
//! could keep a post out of the cache by requests to delete it.

use super::{Result, StoreError};
use crate::accounts::{Change, Cutoff, Revoked, TokenId};
use crate::articles::{ArticleId, Counts, PendingLikes};
use madang_cache::{Cache, Stamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::Notify;

/// Changes of what this process, or another, has in memory.
#[derive(Debug, Default)]
pub struct Effects {
    /// Stamps that cached responses depend on.
    ended: Vec<Stamp>,
    /// The counts in the row of an article; `None` when it was deleted.
    counts: Vec<(ArticleId, Option<Counts>)>,
    /// Changes of the list of revoked tokens.
    revoked: Option<Change>,
    /// Rows are left of something that was deleted.
    leaves_rows: bool,
    /// All cached responses end.
    ends_everything: bool,
    /// Markets have changed.
    markets: bool,
    /// Many texts wait to be indexed.
    texts: bool,
}

/// The effects in a row of the outbox. Counts are not among them: with several nodes, none has them in memory.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Message {
    ended: Vec<u64>,
    everything: bool,
    markets: bool,
    leaves_rows: bool,
    texts: bool,
    revoked: Vec<[u8; 16]>,
    /// User, last second of issue, last expiry.
    cut_off: Option<(i64, i64, i64)>,
    forgotten: Vec<[u8; 16]>,
    forgotten_users: Vec<i64>,
}

impl Effects {
    /// Ends the responses that depend on these stamps.
    pub(crate) fn end(&mut self, stamps: impl IntoIterator<Item = Stamp>) {
        self.ended.extend(stamps);
    }

    /// Ends all cached responses.
    pub(crate) fn end_everything(&mut self) {
        self.ends_everything = true;
    }

    /// Makes all nodes read the markets again.
    pub(crate) fn change_markets(&mut self) {
        self.markets = true;
    }

    /// Whether they concern other processes.
    pub(super) fn concern_others(&self) -> bool {
        !self.ended.is_empty() || self.ends_everything || self.revoked.is_some() || self.markets
    }

    /// Stamps that end; `None` means all.
    pub(super) fn stamps(&self) -> Option<&[Stamp]> {
        (!self.ends_everything).then_some(self.ended.as_slice())
    }

    /// Writes a row of the outbox.
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
        // Numbers and lists of numbers always serialise.
        serde_json::to_vec(&message).unwrap_or_default()
    }

    /// Reads a row of the outbox.
    ///
    /// # Errors
    /// The row is damaged.
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

    /// Notes the counts in the row of an article.
    pub(crate) fn count(&mut self, article: ArticleId, now: Counts) {
        self.counts.push((article, Some(now)));
    }

    /// Notes that an article was deleted.
    pub(crate) fn forget(&mut self, article: ArticleId) {
        self.counts.push((article, None));
    }

    /// Changes the list of revoked tokens.
    pub(crate) fn revoke(&mut self, change: Change) {
        self.revoked = Some(change);
    }

    /// Wakes the housekeeper, for rows that are left of something deleted.
    pub(crate) fn leave_rows(&mut self) {
        self.leaves_rows = true;
    }

    /// Wakes the housekeeper, for texts that wait to be indexed.
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
        if let (true, Some(reread)) = (self.markets, &known.markets) {
            reread();
        }
    }
}

/// Parts of the process that keep state of the store in memory. A command that only fills a store has none.
#[derive(Default)]
pub(super) struct Memory {
    known: Mutex<Known>,
    pub(super) deletions: Arc<Notify>,
    pub(super) texts: Arc<Notify>,
}

impl Memory {
    /// Drops everything that may be wrong, and reads again what is needed.
    ///
    /// # Errors
    /// The store cannot be read. Nothing in memory may be used before this succeeds.
    pub(super) fn forget(&self) -> Result<()> {
        let reload = {
            let known = self.known.lock();
            if let Some(cache) = &known.cache {
                cache.invalidate_all();
            }
            known.markets.iter().for_each(|reread| reread());
            known.reload.clone()
        };
        reload.map_or(Ok(()), |reload| reload())
    }
}

#[derive(Default)]
struct Known {
    /// Reads the list of revoked tokens again.
    reload: Option<Arc<dyn Fn() -> Result<()> + Send + Sync>>,
    cache: Option<Cache>,
    counts: Option<Arc<PendingLikes>>,
    revoked: Option<Arc<Revoked>>,
    /// Makes the markets be read again. Short.
    markets: Option<Box<dyn Fn() + Send + Sync>>,
}

impl super::Store {
    /// Makes transactions end the responses in this cache.
    pub(crate) fn remembered_in(&self, cache: &Cache) {
        self.known(|known| known.cache = Some(cache.clone()));
    }

    /// Makes transactions update the counts of articles here.
    pub(crate) fn counted_in(&self, pending: &Arc<PendingLikes>) {
        self.known(|known| known.counts = Some(Arc::clone(pending)));
    }

    /// Makes transactions update this list of revoked tokens.
    pub(crate) fn revoked_in(&self, revoked: &Arc<Revoked>) {
        self.known(|known| known.revoked = Some(Arc::clone(revoked)));
    }

    /// Runs `told` when markets have changed.
    pub(crate) fn markets_told(&self, told: impl Fn() + Send + Sync + 'static) {
        self.known(|known| known.markets = Some(Box::new(told)));
    }

    /// Runs `reload` when memory may be wrong, before it is used again.
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
