//! Likes that are acknowledged and not in the tables: the wanted state of each pair, and the difference that makes
//! to the count of each article.
//!
//! Their owner decides what acknowledged means: in the log (`pending`), or only in memory (`queue`).

use super::batch::BatchOutcome;
use super::{Like, LikeError, Pair};
use crate::articles::types::ArticleId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct PendingPairs {
    pairs: HashMap<Pair, PendingPair>,
    articles: HashMap<ArticleId, PendingCount>,
}

/// A pair stays until it is written, even if it returns to its stored state: it may be written at this moment.
#[derive(Clone, Copy, Debug)]
struct PendingPair {
    /// True if it has a row.
    stored: bool,
    /// True if it is to have one.
    wanted: bool,
    since: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct PendingCount {
    /// Count in the row.
    stored: u64,
    /// Difference that the pending pairs make.
    difference: i64,
    /// Number of pending pairs.
    pairs: usize,
}

impl PendingCount {
    fn now(&self) -> u64 {
        self.stored.saturating_add_signed(self.difference)
    }
}

/// Some of the pairs, as they are wanted when they are written.
#[derive(Debug)]
pub(super) struct Slice {
    /// Wanted state of each pair.
    sent: Vec<(Pair, bool)>,
    /// Those whose stored state differs.
    pub(super) likes: Vec<Like>,
}

impl Slice {
    /// Also writes the pairs that are taken to be stored as wanted: after a commit without an answer their stored
    /// state is unknown, and another node may have changed them.
    pub(super) fn with_all(mut self) -> Self {
        self.likes = self.sent.iter().map(|(pair, liked)| Like::set(*pair, *liked)).collect();
        self
    }
}

impl PendingPairs {
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Wanted state of a pending pair.
    pub(super) fn wanted(&self, pair: Pair) -> Option<bool> {
        self.pairs.get(&pair).map(|state| state.wanted)
    }

    /// Number of likes of an article with pending pairs.
    pub(super) fn likes(&self, article: ArticleId) -> Option<u64> {
        self.articles.get(&article).map(PendingCount::now)
    }

    /// Number of likes of an article whose row has this count.
    pub(super) fn likes_with_row(&mut self, article: ArticleId, stored: u64) -> u64 {
        self.articles.get_mut(&article).map_or(stored, |entry| {
            entry.stored = stored;
            entry.now()
        })
    }

    /// Arrival of the oldest pair.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.pairs.values().map(|state| state.since).min()
    }

    /// All pairs, in no order.
    pub(super) fn all(&self) -> Vec<Pair> {
        self.pairs.keys().copied().collect()
    }

    /// Inverts a pair to this state.
    pub(super) fn change(&mut self, pair: Pair, liked: bool) {
        let entry = self.articles.entry(pair.0).or_default();
        match self.pairs.entry(pair) {
            Entry::Occupied(mut state) => {
                let was = std::mem::replace(&mut state.get_mut().wanted, liked);
                entry.difference += i64::from(liked) - i64::from(was);
            }
            Entry::Vacant(vacant) => {
                vacant.insert(PendingPair { stored: !liked, wanted: liked, since: Instant::now() });
                entry.difference += if liked { 1 } else { -1 };
                entry.pairs += 1;
            }
        }
    }

    /// Those of these pairs that are pending, as they are wanted now.
    pub(super) fn slice(&self, pairs: &[Pair]) -> Slice {
        let mut slice = Slice { sent: Vec::with_capacity(pairs.len()), likes: Vec::new() };
        for pair in pairs {
            let Some(state) = self.pairs.get(pair) else { continue };
            slice.sent.push((*pair, state.wanted));
            if state.wanted != state.stored {
                slice.likes.push(Like::set(*pair, state.wanted));
            }
        }
        slice
    }

    /// Removes what a commit has applied. The table has each pair as it was sent, or its article or user is gone;
    /// returns the articles that are.
    pub(super) fn applied(&mut self, slice: &Slice, outcome: &BatchOutcome) -> Vec<ArticleId> {
        for (pair, sent) in &slice.sent {
            self.wrote(*pair, *sent);
        }
        let mut gone = Vec::new();
        for (like, answer) in slice.likes.iter().zip(&outcome.answers) {
            if let Err(error) = answer {
                self.drop_pair(like.pair());
                gone.extend((*error == LikeError::NoArticle).then_some(like.article));
            }
        }
        gone
    }

    /// An article was deleted.
    pub(super) fn forget(&mut self, article: ArticleId) {
        self.articles.remove(&article);
    }

    fn wrote(&mut self, pair: Pair, sent: bool) {
        let Some(state) = self.pairs.get_mut(&pair) else { return };
        let by = i64::from(sent) - i64::from(std::mem::replace(&mut state.stored, sent));
        let done = state.wanted == sent;
        if done {
            self.pairs.remove(&pair);
        }
        self.differ(pair.0, -by, done);
    }

    fn drop_pair(&mut self, pair: Pair) {
        let Some(state) = self.pairs.remove(&pair) else { return };
        self.differ(pair.0, i64::from(state.stored) - i64::from(state.wanted), true);
    }

    fn differ(&mut self, article: ArticleId, by: i64, one_less: bool) {
        // A deleted article has no entry any more, though its pairs may be here.
        let Entry::Occupied(mut entry) = self.articles.entry(article) else { return };
        entry.get_mut().difference += by;
        entry.get_mut().pairs -= usize::from(one_less);
        if entry.get().pairs == 0 {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_is_what_it_was_is_sent_only_with_all() {
        let mut pairs = PendingPairs::default();
        for (pair, liked) in [((1, 7), true), ((1, 8), true), ((1, 7), false)] {
            pairs.change(pair, liked);
        }
        let slice = || pairs.slice(&pairs.all());
        let [back, new] = [((1, 7), false), ((1, 8), true)].map(|(pair, on)| Like::set(pair, on));
        assert_eq!(slice().likes, [new]);
        let all = slice().with_all().likes;
        assert!(all.len() == 2 && all.contains(&back) && all.contains(&new), "{all:?}");
    }
}
