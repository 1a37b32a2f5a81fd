//! Pending likes: those in the log and not in the tables yet, and the counts that include them.
//!
//! With `likes.write = behind` a like is acknowledged when it is in the log (`behind`), and its row and the count
//! of its article change later, together with many others (`pass`). Until then it is here, and everybody who reads
//! likes or counts looks here too. The counts in memory ([`CountMemory`]) include what is here. With the other
//! modes nothing is ever pending, and they are those of the tables.
//!
//! **Writers.** Only what follows a commit changes it, on the writer's thread, in the order of the jobs: it stands
//! still while a job runs. An earlier job of the same group may have applied something that has not followed yet.
//! Therefore it holds states and whole counts, never differences, and whoever finds an article here does not read
//! its likes from its row.
//!
//! **A reader and a commit at once.** A pair leaves only after the table has it. So whoever looks here first, finds
//! nothing, and then reads the table, finds it there ([`state`](PendingLikes::state)). A count may change several
//! times between the two, and in parts. A reader of one article notes its version before and reads again when it
//! has changed, as every change of an entry here moves it on ([`fill`](PendingLikes::fill)). A reader of many
//! articles notes the number of applications ([`shown`](PendingLikes::shown)).

use super::Pair;
use super::batch::BatchOutcome;
use super::log::Position;
use super::pairs::{PendingPairs, Slice};
use crate::accounts::UserId;
use crate::articles::counts::CountMemory;
use crate::articles::store::listing::Listed;
use crate::articles::types::{ArticleId, Counts, Summary};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Likes that are logged and not applied, and the counts that everybody is shown.
#[derive(Debug)]
pub(crate) struct PendingLikes {
    memory: Arc<CountMemory>,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    pairs: PendingPairs,
    /// The last record of the log.
    last: Position,
    /// Records of a pass that has begun, and later ones.
    older: Backlog,
    newer: Backlog,
    /// Number of transactions that applied pending likes.
    applications: u64,
}

/// Part of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    /// Pairs in its records.
    changes: u64,
    /// When the first record was logged.
    since: Option<Instant>,
}

/// Changes logged by a transaction.
#[derive(Debug)]
pub(super) struct Logged {
    /// Changed pairs in the order of the tables, with their new state.
    pub(super) pairs: Vec<(Pair, bool)>,
    /// Articles with the counts in their rows.
    pub(super) stored: Vec<(ArticleId, Counts)>,
    /// The last record and the number of pairs in the records; `None` if nothing changed.
    pub(super) log: Option<(Position, u64)>,
}

/// Work of a pass.
#[derive(Debug)]
pub(super) struct Frozen {
    /// Pairs to be applied, in the order of the tables.
    pub(super) pairs: Vec<Pair>,
    /// The last record of the log that holds nothing else.
    pub(super) last: Position,
}

impl PendingLikes {
    pub(super) fn new(memory: Arc<CountMemory>) -> Self {
        Self { memory, pending: Mutex::default() }
    }

    /// The state of this like, if it is not in the table yet. To be read before the table.
    pub(in super::super) fn state(&self, article: ArticleId, user: UserId) -> Option<bool> {
        self.pending.lock().pairs.wanted((article, user))
    }

    /// Number of likes, if that is not in the table yet. For jobs of the writer; others need a version.
    pub(in super::super) fn likes(&self, article: ArticleId) -> Option<u64> {
        self.pending.lock().pairs.likes(article)
    }

    /// Adds pending likes to the counts that a reader has found, and keeps the sum; `None` if they may have
    /// changed since the reader noted the version, and must be read again.
    pub(super) fn fill(&self, article: ArticleId, stored: Counts, since: u64) -> Option<Counts> {
        let pending = self.pending.lock();
        let likes = pending.pairs.likes(article).unwrap_or(stored.likes);
        let counts = Counts { likes, ..stored };
        self.memory.fill(article, counts, since).then_some(counts)
    }

    /// Version to be noted within a transaction before it reads any table, for [`shown`](Self::shown).
    pub(in super::super) fn applications(&self) -> u64 {
        self.pending.lock().applications
    }

    /// A page with pending likes; `None` if some were applied since.
    pub(in super::super) fn shown(&self, page: Vec<Summary>, since: u64) -> Option<Vec<Listed>> {
        let pending = self.pending.lock();
        (pending.applications == since).then(|| pending.listed(page))
    }

    /// As [`shown`](Self::shown), for a job of the writer.
    pub(in super::super) fn shown_to_writer(&self, page: Vec<Summary>) -> Vec<Listed> {
        self.pending.lock().listed(page)
    }

    /// Takes the counts that a commit left in the row of an article.
    pub(crate) fn stored(&self, article: ArticleId, counts: Counts) {
        self.pending.lock().stored(article, counts, &self.memory);
    }

    /// Forgets an article that a commit has deleted.
    pub(crate) fn forget(&self, article: ArticleId) {
        let mut pending = self.pending.lock();
        pending.pairs.forget(article);
        self.memory.forget(article);
    }

    /// Takes what a commit has added to the log, or what a start has found there and could not apply.
    pub(super) fn logged(&self, logged: &Logged) {
        let mut pending = self.pending.lock();
        if let Some((last, changes)) = logged.log {
            pending.last = last;
            pending.newer.changes += changes;
            pending.newer.since.get_or_insert_with(Instant::now);
        }
        for (pair, liked) in &logged.pairs {
            pending.pairs.change(*pair, *liked);
        }
        for (article, counts) in &logged.stored {
            pending.stored(*article, *counts, &self.memory);
        }
    }

    /// Work of a pass that begins now; `None` when the log is empty.
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

    pub(super) fn slice(&self, pairs: &[Pair]) -> Slice {
        self.pending.lock().pairs.slice(pairs)
    }

    /// Removes what a commit has applied.
    pub(super) fn applied(&self, slice: &Slice, outcome: &BatchOutcome) {
        let mut pending = self.pending.lock();
        pending.applications += 1;
        for gone in pending.pairs.applied(slice, outcome) {
            self.memory.forget(gone);
        }
        for (article, _, counts) in &outcome.counts {
            pending.stored(*article, *counts, &self.memory);
        }
    }

    /// Notes that the log was truncated up to the beginning of the pass.
    pub(super) fn passed(&self) {
        self.pending.lock().older = Backlog::default();
    }

    /// Changes in the log that no pass has begun to apply, and all changes in it.
    pub(super) fn backlog(&self) -> (u64, u64) {
        let pending = self.pending.lock();
        (pending.newer.changes, pending.newer.changes + pending.older.changes)
    }

    /// Number of pending pairs, and the age of the oldest.
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
