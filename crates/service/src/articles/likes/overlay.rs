//! Likes that are in the log and not in the tables yet, laid over what the tables say.
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
//! first, finds nothing, and reads the table then, finds it there ([`state`](Overlay::state)). A count may
//! have changed several times between the two, and in parts: a reader of one article notes its version
//! before and reads again when that is another afterwards, as every change of an article's entry here
//! moves it on ([`fill`](Overlay::fill)); a reader of many notes how often anything was applied
//! ([`shown`](Overlay::shown)).

use super::log::Logged;
use super::store::Applied;
use super::{Change, Like, LikeError};
use crate::accounts::UserId;
use crate::articles::counts::{CountMemory, Version};
use crate::articles::store::listing::Listed;
use crate::articles::types::{ArticleId, Counts, Summary};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An article and a user.
pub(crate) type Pair = (ArticleId, UserId);

/// What is logged and not applied, and the counts that everybody is shown.
#[derive(Debug)]
pub(crate) struct Overlay {
    memory: Arc<CountMemory>,
    pending: Mutex<Pending>,
}

/// How often something was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Applications(u64);

#[derive(Debug, Default)]
struct Pending {
    pairs: HashMap<Pair, State>,
    articles: HashMap<ArticleId, OfArticle>,
    /// The last row of the log.
    last: i64,
    /// What the log holds: of a pass that has begun, and since.
    older: Backlog,
    newer: Backlog,
    applied: u64,
}

/// A pair that is here stays until a pass comes by, even if it becomes what it was: the pass may be
/// writing it at this very moment.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Whether there is a row.
    stored: bool,
    /// Whether there is to be one.
    wanted: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfArticle {
    /// As the row has it.
    stored: u64,
    /// What its pairs here add to that.
    difference: i64,
    /// How many are here.
    pairs: usize,
}

/// Part of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    /// Pairs in its rows.
    changes: u64,
    /// When the first of them came.
    since: Option<Instant>,
}

/// Part of what a pass has to do, as it is when its turn comes.
#[derive(Debug)]
pub(super) struct Slice {
    /// How each pair is to be stored.
    sent: Vec<(Pair, bool)>,
    /// Those that are not stored so.
    pub(super) likes: Vec<Like>,
}

/// What a pass has to do.
#[derive(Debug)]
pub(super) struct Frozen {
    /// Pairs to be applied, in the order of the tables.
    pub(super) pairs: Vec<Pair>,
    /// The last row of the log that holds nothing else.
    pub(super) last: i64,
}

impl OfArticle {
    fn now(&self) -> u64 {
        self.stored.saturating_add_signed(self.difference)
    }
}

impl Overlay {
    pub(super) fn new(memory: Arc<CountMemory>) -> Self {
        Self { memory, pending: Mutex::default() }
    }

    /// Whether this user likes it, if that is not in the table yet. To be asked before the table.
    pub(in super::super) fn state(&self, article: ArticleId, user: UserId) -> Option<bool> {
        self.pending.lock().pairs.get(&(article, user)).map(|state| state.wanted)
    }

    /// How many like it, if that is not in the table yet. For jobs of the writer; others take a version.
    pub(in super::super) fn likes(&self, article: ArticleId) -> Option<u64> {
        self.pending.lock().articles.get(&article).map(OfArticle::now)
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
        let likes = pending.articles.get(&article).map_or(stored.likes, OfArticle::now);
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
        pending.articles.remove(&article);
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
            pending.wants(*pair, *liked);
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
        let mut pairs: Vec<_> = pending.pairs.keys().copied().collect();
        let last = pending.last;
        drop(pending);
        pairs.sort_unstable();
        Some(Frozen { pairs, last })
    }

    /// How these pairs are to be stored: those that differ from the table, each with its place.
    pub(super) fn slice(&self, pairs: &[Pair]) -> Slice {
        let pending = self.pending.lock();
        let mut slice = Slice { sent: Vec::with_capacity(pairs.len()), likes: Vec::new() };
        for pair in pairs {
            let Some(state) = pending.pairs.get(pair) else { continue };
            slice.sent.push((*pair, state.wanted));
            if state.wanted != state.stored {
                let change = if state.wanted { Change::On } else { Change::Off };
                slice.likes.push(Like { article: pair.0, user: pair.1, change });
            }
        }
        slice
    }

    /// Takes away what a transaction has applied; for what follows it alone.
    pub(super) fn applied(&self, slice: &Slice, applied: &Applied) {
        let mut pending = self.pending.lock();
        pending.applied += 1;
        for (pair, sent) in &slice.sent {
            pending.wrote(*pair, *sent);
        }
        let refused = slice.likes.iter().zip(&applied.answers);
        for (like, answer) in refused.filter(|(_, answer)| answer.is_err()) {
            pending.drop_pair((like.article, like.user));
            if matches!(answer, Err(LikeError::NoArticle)) {
                self.memory.forget(like.article);
            }
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
    pub(super) fn figures(&self) -> (u64, Duration) {
        let pending = self.pending.lock();
        let since = pending.older.since.or(pending.newer.since);
        let waits = !pending.pairs.is_empty();
        let lag = since.filter(|_| waits).map_or(Duration::ZERO, |since| since.elapsed());
        (pending.pairs.len() as u64, lag)
    }
}

impl Pending {
    fn listed(&self, page: Vec<Summary>) -> Vec<Listed> {
        let listed = |article: Summary| {
            let now = self.articles.get(&article.id).map(OfArticle::now);
            Listed { likes: now.unwrap_or(article.counts.likes), article }
        };
        page.into_iter().map(listed).collect()
    }

    fn stored(&mut self, article: ArticleId, counts: Counts, memory: &CountMemory) {
        let now = self.articles.get_mut(&article).map(|entry| {
            entry.stored = counts.likes;
            entry.now()
        });
        memory.set(article, Counts { likes: now.unwrap_or(counts.likes), ..counts });
    }

    /// A pair becomes what it was not.
    fn wants(&mut self, pair: Pair, liked: bool) {
        let entry = self.articles.entry(pair.0).or_default();
        match self.pairs.entry(pair) {
            Entry::Occupied(mut state) => {
                let was = std::mem::replace(&mut state.get_mut().wanted, liked);
                entry.difference += i64::from(liked) - i64::from(was);
            }
            Entry::Vacant(vacant) => {
                vacant.insert(State { stored: !liked, wanted: liked });
                entry.difference += if liked { 1 } else { -1 };
                entry.pairs += 1;
            }
        }
    }

    /// The table has a pair as it was sent.
    fn wrote(&mut self, pair: Pair, sent: bool) {
        let Some(state) = self.pairs.get_mut(&pair) else { return };
        let by = i64::from(sent) - i64::from(std::mem::replace(&mut state.stored, sent));
        let done = state.wanted == sent;
        if done {
            self.pairs.remove(&pair);
        }
        self.differ(pair.0, -by, done);
    }

    /// Article or user are gone.
    fn drop_pair(&mut self, pair: Pair) {
        let Some(state) = self.pairs.remove(&pair) else { return };
        self.differ(pair.0, i64::from(state.stored) - i64::from(state.wanted), true);
    }

    fn differ(&mut self, article: ArticleId, by: i64, one_less: bool) {
        // An article that was deleted is not here any more, though its pairs may be.
        let Entry::Occupied(mut entry) = self.articles.entry(article) else { return };
        entry.get_mut().difference += by;
        entry.get_mut().pairs -= usize::from(one_less);
        if entry.get().pairs == 0 {
            entry.remove();
        }
    }
}
