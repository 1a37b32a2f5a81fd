//! Likes are not stored: the cost of everything else, to measure the other ways against. The same route,
//! token, gate and counts; no row, no transaction, no thread but the one that answers.

use super::{Like, LikeError, Liked, Parts};
use crate::http::gate::Permit;

pub(super) async fn apply(parts: &Parts, like: Like, turn: Permit) -> Result<Liked, LikeError> {
    let counts = match parts.counts.get(like.article) {
        Some(counts) => counts,
        None => parts.read_counts(like.article).await?.ok_or(LikeError::NoArticle)?,
    };
    drop(turn);
    Ok(Liked { liked: like.change.applied_to(false), count: counts.likes })
}
