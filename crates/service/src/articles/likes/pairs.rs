//! Likes that are acknowledged and not in the tables: of each pair what it is to become, of each article what that adds
//! to its count.
//!
//! Whoever holds them decides what acknowledged means: in the log (`pending`), or nowhere but here (`queue`).

use super::store::Applied;
use super::{Like, LikeError};
use crate::accounts::UserId;
use crate::articles::types::ArticleId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Instant;

pub(crate) type Pair = (ArticleId, UserId);

#[derive(Debug, Default)]
pub(super) struct PendingPairs {
    pairs: HashMap<Pair, PairState>,
    articles: HashMap<ArticleId, PendingCount>,
}

/// A pair that is here stays until it is written, even if it becomes what it was: it may be being written at this very
/// moment.
#[derive(Clone, Copy, Debug)]
struct PairState {
    /// Whether there is a row.
    stored: bool,
    /// Whether there is to be one.
    wanted: bool,
    since: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct PendingCount {
    /// As the row has it.
    stored: u64,
    /// What its pairs here add to that.
    difference: i64,
    /// How many are here.
    pairs: usize,
}

impl PendingCount {
    fn now(&self) -> u64 {
        self.stored.saturating_add_signed(self.difference)
    }
}

/// Part of the pairs, as it is when its turn comes to be written.
#[derive(Debug)]
pub(super) struct Slice {
    /// How each pair is to be stored.
    sent: Vec<(Pair, bool)>,
    /// Those that are not stored so.
    pub(super) likes: Vec<Like>,
}

impl Slice {
    /// With the pairs that are taken to be stored so, too: who has no answer to a commit does not know how they are stored,
    /// and another node may have changed them.
    pub(super) fn with_all(mut self) -> Self {
        self.likes = self.sent.iter().map(|(pair, liked)| Like::to_be(*pair, *liked)).collect();
        self
    }
}

impl PendingPairs {
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether a user is to like an article.
    pub(super) fn wanted(&self, pair: Pair) -> Option<bool> {
        self.pairs.get(&pair).map(|state| state.wanted)
    }

    /// How many like an article of which a pair is here.
    pub(super) fn likes(&self, article: ArticleId) -> Option<u64> {
        self.articles.get(&article).map(PendingCount::now)
    }

    /// How many like an article whose row has so many.
    pub(super) fn likes_with_row(&mut self, article: ArticleId, stored: u64) -> u64 {
        self.articles.get_mut(&article).map_or(stored, |entry| {
            entry.stored = stored;
            entry.now()
        })
    }

    /// Since when the oldest waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.pairs.values().map(|state| state.since).min()
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> Vec<Pair> {
        self.pairs.keys().copied().collect()
    }

    /// A pair becomes what it was not.
    pub(super) fn change(&mut self, pair: Pair, liked: bool) {
        let entry = self.articles.entry(pair.0).or_default();
        match self.pairs.entry(pair) {
            Entry::Occupied(mut state) => {
                let was = std::mem::replace(&mut state.get_mut().wanted, liked);
                entry.difference += i64::from(liked) - i64::from(was);
            }
            Entry::Vacant(vacant) => {
                vacant.insert(PairState { stored: !liked, wanted: liked, since: Instant::now() });
                entry.difference += if liked { 1 } else { -1 };
                entry.pairs += 1;
            }
        }
    }

    /// How these pairs are to be stored.
    pub(super) fn slice(&self, pairs: &[Pair]) -> Slice {
        let mut slice = Slice { sent: Vec::with_capacity(pairs.len()), likes: Vec::new() };
        for pair in pairs {
            let Some(state) = self.pairs.get(pair) else { continue };
            slice.sent.push((*pair, state.wanted));
            if state.wanted != state.stored {
                slice.likes.push(Like::to_be(*pair, state.wanted));
            }
        }
        slice
    }

    /// Takes away what a transaction has applied. The table has each pair as it was sent, or article or user are gone;
    /// answers the articles that are.
    pub(super) fn applied(&mut self, slice: &Slice, applied: &Applied) -> Vec<ArticleId> {
        for (pair, sent) in &slice.sent {
            self.wrote(*pair, *sent);
        }
        let mut gone = Vec::new();
        for (like, answer) in slice.likes.iter().zip(&applied.answers) {
            if let Err(error) = answer {
                self.drop_pair((like.article, like.user));
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
        // An article that was deleted is not here any more, though its pairs may be.
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
        let [back, new] = [((1, 7), false), ((1, 8), true)].map(|(pair, on)| Like::to_be(pair, on));
        assert_eq!(slice().likes, [new]);
        let all = slice().with_all().likes;
        assert!(all.len() == 2 && all.contains(&back) && all.contains(&new), "{all:?}");
    }
}
