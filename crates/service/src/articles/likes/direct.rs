//! Each like in a commit of its own, as if there were no group commit.

use super::store::{Applied, apply as write};
use super::{Like, LikeError, Liked, Parts};
use crate::http::gate::Permit;
use crate::store::{StoreError, Tx};
use std::sync::Arc;

pub(super) async fn apply(parts: &Parts, like: Like, turn: Permit) -> Result<Liked, LikeError> {
    let counted = Arc::clone(&parts.counted);
    let job = move |tx: &mut Tx<'_>| {
        let applied = write(tx, &[like])?;
        applied.counts.iter().for_each(|(article, now)| tx.effects().count(*article, *now));
        Ok::<_, StoreError>(applied)
    };
    // The place is kept until the commit is done, also when nobody waits for it.
    let committed = move |applied: &Applied| {
        counted.committed(applied.changed);
        drop(turn);
    };
    let applied = parts.store.store.write_alone(job, committed).await?;
    applied.answers.into_iter().next().unwrap_or(Err(LikeError::NoArticle))
}
