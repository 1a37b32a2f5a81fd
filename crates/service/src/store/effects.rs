//! What follows from a transaction once it is committed, as data.
//!
//! A job says it while it runs ([`Tx::effects`](super::Tx::effects)); one place applies it: on the writer's thread,
//! after the commit and before the answer. Commits, effects and answers follow each other there in one order. So no
//! client learns of a write, not even one that found it done already, while something from before it is still
//! remembered. Nothing needs to be announced before the transaction either: a load that began before the commit is
//! vetoed, or what it stored dies, and a load that begins after it brings the new state. If writes were announced
//! before, a listing of all places would never be stored while anybody writes, and anybody could keep a post out of
//! the cache by asking to remove it: no load stores while a write is open.

use crate::accounts::{Change, Revoked};
use crate::articles::{ArticleId, Counts, Overlay};
use madang_cache::{Cache, Stamp};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// What a transaction has changed of what this process, or another, may remember.
#[derive(Debug, Default)]
pub struct Effects {
    /// What cached bodies depend on.
    ended: Vec<Stamp>,
    /// The counts of an article as its row has them now; nothing when it was deleted.
    counts: Vec<(ArticleId, Option<Counts>)>,
    /// Tokens that are not valid any more.
    revoked: Option<Change>,
    /// Something was deleted of which rows are left.
    leaves_rows: bool,
}

impl Effects {
    /// Bodies that depend on these end.
    pub(crate) fn end(&mut self, stamps: impl IntoIterator<Item = Stamp>) {
        self.ended.extend(stamps);
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

    /// Applies them to what this process remembers.
    pub(super) fn apply(&self, memory: &Memory) {
        let known = memory.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(overlay) = &known.counts {
            for (article, now) in &self.counts {
                match now {
                    Some(now) => overlay.stored(*article, *now),
                    None => overlay.forget(*article),
                }
            }
        }
        if let (Some(revoked), Some(change)) = (&known.revoked, &self.revoked) {
            revoked.apply(change);
        }
        if let Some(cache) = &known.bodies
            && !self.ended.is_empty()
        {
            cache.invalidate(&self.ended);
        }
        if self.leaves_rows {
            memory.deletions.notify_one();
        }
    }
}

/// What this process remembers of a store. A command that only fills one remembers nothing.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: Mutex<Known>,
    pub(super) deletions: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Known {
    bodies: Option<Cache>,
    counts: Option<Arc<Overlay>>,
    revoked: Option<Arc<Revoked>>,
}

impl super::Store {
    /// From now on transactions end the bodies in this cache.
    pub(crate) fn remembered_in(&self, cache: &Cache) {
        self.known(|known| known.bodies = Some(cache.clone()));
    }

    /// From now on transactions tell this what counts articles have.
    pub(crate) fn counted_in(&self, overlay: &Arc<Overlay>) {
        self.known(|known| known.counts = Some(Arc::clone(overlay)));
    }

    /// From now on transactions tell this what they revoke.
    pub(crate) fn revoked_in(&self, revoked: &Arc<Revoked>) {
        self.known(|known| known.revoked = Some(Arc::clone(revoked)));
    }

    fn known(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.inner.memory.known.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
