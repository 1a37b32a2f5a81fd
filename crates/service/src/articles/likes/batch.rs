//! Decides a batch of likes: folds it for the store, and answers each like by itself.
//!
//! The likes of one pair of article and user come down to at most one changed row, and those of one article
//! to one change of its count. Their callers get the answers they would have got one after another, in the
//! order in which the likes came.

use super::{Change, Like, LikeError, Liked, Pair};
use crate::articles::types::{ArticleId, Counts};
use crate::store::Result;
use std::collections::HashMap;

/// Net effect of several changes of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Keep,
    Set(bool),
    Flip,
}

impl Fold {
    /// The effect of this and then `change`.
    fn then(self, change: Change) -> Fold {
        match (self, change) {
            (_, Change::On) => Fold::Set(true),
            (_, Change::Off) => Fold::Set(false),
            (Fold::Keep, Change::Toggle) => Fold::Flip,
            (Fold::Flip, Change::Toggle) => Fold::Keep,
            (Fold::Set(liked), Change::Toggle) => Fold::Set(!liked),
        }
    }

    pub(super) fn applied_to(self, liked: bool) -> bool {
        match self {
            Fold::Keep => liked,
            Fold::Set(liked) => liked,
            Fold::Flip => !liked,
        }
    }
}

/// Changes of a batch of likes, and the answers to its callers.
#[derive(Debug, Default)]
pub(super) struct BatchOutcome {
    /// Answers, in the order of the batch.
    pub(super) answers: Vec<Result<Liked, LikeError>>,
    /// Pairs that change, by article and user, with their new state.
    pub(super) changes: Vec<(Pair, bool)>,
    /// Articles of the batch with their counts before and after it, by id.
    pub(super) counts: Vec<(ArticleId, Counts, Counts)>,
}

impl BatchOutcome {
    /// Number of pairs that change.
    pub(super) fn changed(&self) -> u64 {
        self.changes.len() as u64
    }
}

/// Decides up to 2^32 likes, as if they ran one after another.
///
/// `counts` returns the counts of an article before the batch; `None` refuses its likes. `was_liked` returns the
/// state of a pair before the batch, and may apply the fold at once; `None` means that there is no such user.
/// Both are called once for each article and pair, in the order of the tables.
pub(super) fn decide(
    likes: &[Like],
    mut counts: impl FnMut(ArticleId) -> Result<Option<Counts>>,
    mut was_liked: impl FnMut(Pair, Fold) -> Result<Option<bool>>,
) -> Result<BatchOutcome> {
    let like = |at: &u32| &likes[*at as usize];
    let mut outcome = BatchOutcome {
        answers: vec![Err(LikeError::NoArticle); likes.len()],
        ..BatchOutcome::default()
    };
    let mut order: Vec<u32> = (0..).take(likes.len()).collect();
    order.sort_by_key(|at| like(at).pair());
    for of_article in order.chunk_by_mut(|a, b| like(a).article == like(b).article) {
        let article = like(&of_article[0]).article;
        let Some(before) = counts(article)? else { continue };
        let mut states = HashMap::new();
        let (mut added, mut removed) = (0, 0);
        for of_pair in of_article.chunk_by(|a, b| like(a).user == like(b).user) {
            let pair = like(&of_pair[0]).pair();
            let fold = of_pair.iter().fold(Fold::Keep, |fold, at| fold.then(like(at).change));
            let Some(was) = was_liked(pair, fold)? else { continue };
            states.insert(pair.1, was);
            let is = fold.applied_to(was);
            if is != was {
                outcome.changes.push((pair, is));
                if is { added += 1 } else { removed += 1 }
            }
        }
        of_article.sort_unstable();
        let mut count = before.likes;
        for at in of_article {
            let Like { user, change, .. } = *like(at);
            let answer = states.get_mut(&user).map(|liked| {
                let was = std::mem::replace(liked, change.applied_to(*liked));
                // A stored count may be too low: it never goes below zero.
                count = (count + u64::from(*liked)).saturating_sub(u64::from(was));
                Liked { liked: *liked, count }
            });
            outcome.answers[*at as usize] = answer.ok_or(LikeError::NoUser);
        }
        let likes = (before.likes + added).saturating_sub(removed);
        outcome.counts.push((article, before, Counts { likes, ..before }));
    }
    Ok(outcome)
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
        fn a_batch_is_decided_as_likes_that_run_one_after_another(
            likes in prop::collection::vec((1i64..4, 1i64..4, change()), 1..40), already in prop::collection::hash_set((1i64..4, 1i64..4), 0..9),
        ) {
            let likes: Vec<_> = likes.into_iter().map(|(article, user, change)| Like { article, user, change }).collect();
            // User 3 does not exist.
            let stored: std::collections::HashSet<Pair> = already.into_iter().filter(|(_, user)| *user != 3).collect();
            let mut model = stored.clone();
            let mut wanted = vec![Err(LikeError::NoUser); likes.len()];
            for (like, wanted) in likes.iter().zip(&mut wanted).filter(|(like, _)| like.user != 3) {
                let liked = like.change.applied_to(model.contains(&like.pair()));
                if liked { model.insert(like.pair()); } else { model.remove(&like.pair()); }
                let count = model.iter().filter(|(article, _)| *article == like.article).count() as u64;
                *wanted = Ok(Liked { liked, count });
            }
            let count = |article, pairs: &std::collections::HashSet<Pair>| {
                Counts { likes: pairs.iter().filter(|(a, _)| *a == article).count() as u64, comments: 0 }
            };
            let outcome = decide(
                &likes,
                |article| Ok(Some(count(article, &stored))),
                |pair, _| Ok((pair.1 != 3).then(|| stored.contains(&pair))),
            ).unwrap();
            prop_assert_eq!(outcome.answers, wanted);
            let mut end = stored.clone();
            for (pair, liked) in outcome.changes {
                prop_assert!(if liked { end.insert(pair) } else { end.remove(&pair) }, "a change that is none");
            }
            for (article, before, after) in outcome.counts {
                prop_assert_eq!((before, after), (count(article, &stored), count(article, &end)));
            }
            prop_assert_eq!(end, model);
        }
    }
}
