//! Pending likes: those in the log and not in the tables yet, and the counts with them.
//!
//! With `likes.write = behind` a like is acknowledged when it is in the log (`log`), and its row and its
//! article's count are changed later, with those of many others (`pass`). Until then they are here, and
//! everybody who reads likes or counts asks here, too. The counts in memory ([`CountMemory`]) are those
//! with what is here; without that way of writing nothing is ever here, and they are those of the table.
//!
//! **Who changes it.** Only what follows a commit, on the writer's thread, in the order of the jobs. So for
//! a job of the writer nothing changes meanwhile. An earlier job of the same group may have applied
//! something that has not followed yet: therefore what is here are states and whole counts, never differences,
//! and whoever finds an article here does not look at its row for the likes.
//!
//! **A reader and a commit at once.** What is here goes only after the tables have it. So who asks here
//! first, finds nothing, and reads the table then, finds it there ([`state`](PendingLikes::state)). A count may
//! have changed several times between the two, and in parts: a reader of one article notes its version
//! before and reads again when that is another afterwards, as every change of an article's entry here
//! moves it on ([`fill`](PendingLikes::fill)); a reader of many notes how often anything was applied
//! ([`shown`](PendingLikes::shown)).

use super::log::Logged;
use super::pairs::{Pair, PendingPairs, Slice};
use super::store::Applied;
use crate::accounts::UserId;
use crate::articles::counts::{CountMemory, Version};
use crate::articles::store::listing::Listed;
use crate::articles::types::{ArticleId, Counts, Summary};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is logged and not applied, and the counts that everybody is shown.
#[derive(Debug)]
pub(crate) struct PendingLikes {
    memory: Arc<CountMemory>,
    pending: Mutex<Pending>,
}

/// How often something was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Applications(u64);

#[derive(Debug, Default)]
struct Pending {
    pairs: PendingPairs,
    /// The last row of the log.
    last: i64,
    /// What the log holds: of a pass that has begun, and since.
    older: Backlog,
    newer: Backlog,
    applied: u64,
}

/// Part of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    /// Pairs in its rows.
    changes: u64,
    /// When the first of them came.
    since: Option<Instant>,
}

/// What a pass has to do.
#[derive(Debug)]
pub(super) struct Frozen {
    /// Pairs to be applied, in the order of the tables.
    pub(super) pairs: Vec<Pair>,
    /// The last row of the log that holds nothing else.
    pub(super) last: i64,
}

impl PendingLikes {
    pub(super) fn new(memory: Arc<CountMemory>) -> Self {
        Self { memory, pending: Mutex::default() }
    }

    /// Whether this user likes it, if that is not in the table yet. To be asked before the table.
    pub(in super::super) fn state(&self, article: ArticleId, user: UserId) -> Option<bool> {
        self.pending.lock().pairs.wanted((article, user))
    }

    /// How many like it, if that is not in the table yet. For jobs of the writer; others take a version.
    pub(in super::super) fn likes(&self, article: ArticleId) -> Option<u64> {
        self.pending.lock().pairs.likes(article)
    }

    /// Adds what is not applied yet to counts that a reader has found, and keeps them; nothing when they
    /// may have changed since it noted the version: it must read again.
    pub(super) fn fill(
        &self,
        article: ArticleId,
        stored: Counts,
        since: Version,
    ) -> Option<Counts> {
        let pending = self.pending.lock();
        let likes = pending.pairs.likes(article).unwrap_or(stored.likes);
        let counts = Counts { likes, ..stored };
        self.memory.fill(article, counts, since).then_some(counts)
    }

    /// To be noted within a transaction, before it looks at any table, for [`shown`](Self::shown).
    pub(in super::super) fn applications(&self) -> Applications {
        Applications(self.pending.lock().applied)
    }

    /// A page with the likes that are not applied yet; nothing when some were applied since.
    pub(in super::super) fn shown(
        &self,
        page: Vec<Summary>,
        since: Applications,
    ) -> Option<Vec<Listed>> {
        let pending = self.pending.lock();
        (pending.applied == since.0).then(|| pending.listed(page))
    }

    /// The same for a job of the writer.
    pub(in super::super) fn shown_to_writer(&self, page: Vec<Summary>) -> Vec<Listed> {
        self.pending.lock().listed(page)
    }

    /// What a transaction has left in an article's row; for what follows it alone.
    pub(crate) fn stored(&self, article: ArticleId, counts: Counts) {
        let mut pending = self.pending.lock();
        pending.stored(article, counts, &self.memory);
    }

    /// Forgets an article that a transaction has deleted; for what follows it alone.
    pub(crate) fn forget(&self, article: ArticleId) {
        let mut pending = self.pending.lock();
        pending.pairs.forget(article);
        self.memory.forget(article);
    }

    /// Takes what a transaction has added to the log; for what follows it, and for a start that could not apply
    /// what it has found there.
    pub(super) fn logged(&self, logged: &Logged) {
        let mut pending = self.pending.lock();
        if let Some(row) = logged.row {
            pending.last = row;
            pending.newer.changes += logged.changes;
            pending.newer.since.get_or_insert_with(Instant::now);
        }
        for (pair, liked) in &logged.pairs {
            pending.pairs.change(*pair, *liked);
        }
        for (article, counts) in &logged.stored {
            pending.stored(*article, *counts, &self.memory);
        }
    }

    /// What there is to be applied; nothing when the log is empty.
    pub(super) fn freeze(&self) -> Option<Frozen> {
        let mut pending = self.pending.lock();
        if pending.older.changes + pending.newer.changes == 0 {
            return None;
        }
        let newer = std::mem::take(&mut pending.newer);
        pending.older.changes += newer.changes;
        pending.older.since = pending.older.since.or(newer.since);
        let (mut pairs, last) = (pending.pairs.all(), pending.last);
        drop(pending);
        pairs.sort_unstable();
        Some(Frozen { pairs, last })
    }

    /// How these pairs are to be stored: those that differ from the table, each with its place.
    pub(super) fn slice(&self, pairs: &[Pair]) -> Slice {
        self.pending.lock().pairs.slice(pairs)
    }

    /// Takes away what a transaction has applied; for what follows it alone.
    pub(super) fn applied(&self, slice: &Slice, applied: &Applied) {
        let mut pending = self.pending.lock();
        pending.applied += 1;
        for gone in pending.pairs.applied(slice, applied) {
            self.memory.forget(gone);
        }
        for (article, counts) in &applied.counts {
            pending.stored(*article, *counts, &self.memory);
        }
    }

    /// The rows of the log before a pass are gone.
    pub(super) fn passed(&self) {
        self.pending.lock().older = Backlog::default();
    }

    /// Changes that the log holds and that no pass has begun to apply, and all that it holds.
    pub(super) fn backlog(&self) -> (u64, u64) {
        let pending = self.pending.lock();
        (pending.newer.changes, pending.newer.changes + pending.older.changes)
    }

    /// Pairs that wait to be applied, and the oldest of them for how long.
    pub(super) fn metrics(&self) -> (u64, Duration) {
        let pending = self.pending.lock();
        let since = pending.older.since.or(pending.newer.since);
        let waits = pending.pairs.len() > 0;
        let lag = since.filter(|_| waits).map_or(Duration::ZERO, |since| since.elapsed());
        (pending.pairs.len() as u64, lag)
    }
}

impl Pending {
    fn listed(&self, page: Vec<Summary>) -> Vec<Listed> {
        let listed = |article: Summary| {
            let now = self.pairs.likes(article.id);
            Listed { likes: now.unwrap_or(article.counts.likes), article }
        };
        page.into_iter().map(listed).collect()
    }

    fn stored(&mut self, article: ArticleId, counts: Counts, memory: &CountMemory) {
        let likes = self.pairs.likes_with_row(article, counts.likes);
        memory.set(article, Counts { likes, ..counts });
    }
}
