//! Many likes at once: folded for the store, answered one by one.
//!
//! Likes of one pair of article and user in one batch come down to one change of at most one row, and all
//! likes of one article to one change of its count. Those who sent them get the answers they would
//! have got one after another, in the order in which they came.

use super::{Change, Like, Liked};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use std::collections::HashMap;

/// What several changes of one pair come down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// It stays as it is.
    Keep,
    /// It becomes this, whatever it was.
    Set(bool),
    /// It becomes the other.
    Flip,
}

impl Fold {
    /// This, and then another change.
    pub(super) fn then(self, change: Change) -> Fold {
        match (self, change) {
            (_, Change::On) => Fold::Set(true),
            (_, Change::Off) => Fold::Set(false),
            (Fold::Keep, Change::Toggle) => Fold::Flip,
            (Fold::Flip, Change::Toggle) => Fold::Keep,
            (Fold::Set(liked), Change::Toggle) => Fold::Set(!liked),
        }
    }

    /// What becomes of this state.
    pub(super) fn applied_to(self, liked: bool) -> bool {
        match self {
            Fold::Keep => liked,
            Fold::Set(liked) => liked,
            Fold::Flip => !liked,
        }
    }
}

/// A batch in the order in which the store likes it: by article, then by user, then as they came.
pub(super) struct Sorted<'a> {
    likes: &'a [Like],
    order: Vec<u32>,
}

impl<'a> Sorted<'a> {
    /// Sorts up to 2^32 likes.
    pub(super) fn new(likes: &'a [Like]) -> Self {
        let mut order: Vec<u32> = (0..).take(likes.len()).collect();
        order.sort_by_key(|at| {
            let like = &likes[*at as usize];
            (like.article, like.user)
        });
        Self { likes, order }
    }

    /// Likes of one article after another.
    pub(super) fn articles(&self) -> impl Iterator<Item = OfArticle<'_>> {
        let likes = self.likes;
        let same = move |a: &u32, b: &u32| likes[*a as usize].article == likes[*b as usize].article;
        self.order.chunk_by(same).map(move |order| OfArticle { likes, order })
    }
}

/// The likes of one article in a batch.
pub(super) struct OfArticle<'a> {
    likes: &'a [Like],
    order: &'a [u32],
}

impl<'a> OfArticle<'a> {
    pub(super) fn article(&self) -> ArticleId {
        self.likes[self.order[0] as usize].article
    }

    /// Where in the batch they are.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        self.order.iter().map(|at| *at as usize)
    }

    /// Each user, and what their likes come down to.
    pub(super) fn folded(&self) -> impl Iterator<Item = (UserId, Fold)> {
        let likes = self.likes;
        let same = move |a: &u32, b: &u32| likes[*a as usize].user == likes[*b as usize].user;
        self.order.chunk_by(same).map(move |of_user| {
            let fold = |fold: Fold, at: &u32| fold.then(likes[*at as usize].change);
            (likes[of_user[0] as usize].user, of_user.iter().fold(Fold::Keep, fold))
        })
    }

    /// The answers, with their places in the batch, as if the likes had run one after another on these
    /// counts; `before` says who liked it before, and knows no user who does not exist.
    pub(super) fn answers(
        &self,
        counts: Counts,
        mut before: HashMap<UserId, bool>,
    ) -> Vec<(usize, Option<Liked>)> {
        let mut places: Vec<usize> = self.places().collect();
        places.sort_unstable();
        let mut count = counts.likes;
        let answer = |at: usize| {
            let like = &self.likes[at];
            let liked = before.get_mut(&like.user).map(|state| {
                let was = std::mem::replace(state, like.change.applied_to(*state));
                // Counted as rows are: below nothing there is nothing, even if the count was wrong.
                count = (count + u64::from(*state)).saturating_sub(u64::from(was));
                Liked { liked: *state, count }
            });
            (at, liked)
        };
        places.into_iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![Just(Change::On), Just(Change::Off), Just(Change::Toggle)]
    }

    proptest! {
        #[test]
        fn a_fold_is_its_changes_one_after_another(changes in prop::collection::vec(change(), 0..9), liked: bool) {
            let one_by_one = changes.iter().fold(liked, |liked, change| change.applied_to(liked));
            let folded = changes.iter().fold(Fold::Keep, |fold, change| fold.then(*change));
            prop_assert_eq!(folded.applied_to(liked), one_by_one);
        }

        #[test]
        fn answers_are_those_of_likes_that_run_one_after_another(
            likes in prop::collection::vec((1i64..4, 1i64..4, change()), 1..40), already in prop::collection::hash_set((1i64..4, 1i64..4), 0..9),
        ) {
            let likes: Vec<_> = likes.into_iter().map(|(article, user, change)| Like { article, user, change }).collect();
            // User 3 does not exist.
            let mut model = already.clone();
            model.retain(|(_, user)| *user != 3);
            let stored = model.clone();
            let mut wanted = vec![None; likes.len()];
            for (like, wanted) in likes.iter().zip(&mut wanted).filter(|(like, _)| like.user != 3) {
                let pair = (like.article, like.user);
                let liked = like.change.applied_to(model.contains(&pair));
                if liked { model.insert(pair); } else { model.remove(&pair); }
                let count = model.iter().filter(|(article, _)| *article == like.article).count() as u64;
                *wanted = Some(Liked { liked, count });
            }
            let mut got = vec![None; likes.len()];
            let mut end = stored.clone();
            for of_article in Sorted::new(&likes).articles() {
                let article = of_article.article();
                let before: HashMap<_, _> = of_article.folded().filter(|(user, _)| *user != 3)
                    .map(|(user, _)| (user, stored.contains(&(article, user)))).collect();
                for (user, fold) in of_article.folded().filter(|(user, _)| *user != 3) {
                    let pair = (article, user);
                    if fold.applied_to(stored.contains(&pair)) { end.insert(pair); } else { end.remove(&pair); }
                }
                let counts = Counts { likes: stored.iter().filter(|(a, _)| *a == article).count() as u64, comments: 0 };
                for (at, answer) in of_article.answers(counts, before) {
                    got[at] = answer;
                }
            }
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(end, model);
        }
    }
}
