//! Each like in a commit of its own, as if there were no group commit.

use super::store::apply as write;
use super::{Like, LikeError, Liked, Parts};
use crate::http::gate::Permit;
use crate::store::StoreError;
use std::sync::Arc;

pub(super) async fn apply(parts: &Parts, like: Like, turn: Permit) -> Result<Liked, LikeError> {
    let (counts, counted) = (Arc::clone(&parts.counts), Arc::clone(&parts.counted));
    let written = parts.store.store.write_alone(move |tx| {
        let applied = write(tx, &[like])?;
        tx.after_commit(move || {
            counted.committed(applied.changed);
            applied.counts.iter().for_each(|(article, now)| counts.set(*article, *now));
        });
        // The place is kept until the commit is done.
        Ok::<_, StoreError>((applied.answers, turn))
    });
    let (answers, _turn) = written.await?;
    answers.into_iter().next().unwrap_or(Err(LikeError::NoArticle))
}
