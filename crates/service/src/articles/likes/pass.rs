//! From the log to the tables: what was acknowledged is applied with what was acknowledged since.
//!
//! A pass takes the pairs that are pending when it begins, by article and user, and writes them a few
//! hundred at a time: neighbours share pages, an article's count is written once, and other writes have
//! their turn after every slice. The last one takes away the rows of the log that hold nothing else.
//!
//! A pair is written as it is wanted when its turn comes, and its article's count changes by the rows that
//! are really added or taken away, in the same transaction. So it does no harm to apply a row of the log
//! again, in part or as a whole, as long as all rows that follow it are applied again, too. That is what
//! [`replay`] does before anything is served: it applies the whole log, from its first row on. If there is no
//! room for that, the log is laid over the tables as it was before, and passes go on trying.

use super::log::{self, Folded, Logged};
use super::pairs::{Pair, Slice};
use super::pending::Frozen;
use super::store::{Applied, apply};
use super::{Like, Parts};
use crate::store::{Result, Store, StoreError, Tx};
use std::sync::Arc;

/// Pairs of a slice: some 3 ms of the writer.
const SLICE: usize = 256;

/// Applies what is pending now; answers whether it could. What cannot be applied stays, for the next time.
pub(super) async fn run(parts: &Parts) -> bool {
    let Some(mut pass) = Pass::begin(parts.clone(), SLICE) else { return true };
    let done = async {
        while pass.step().await? {}
        Ok::<_, StoreError>(())
    };
    let done = done.await;
    if let Err(error) = &done {
        parts.counted.flush_failed();
        let pending = parts.pending.metrics().0;
        tracing::error!(%error, pending, "acknowledged likes are in the log but not yet in their tables");
    }
    done.is_ok()
}

/// A pass that has begun.
pub(super) struct Pass {
    parts: Parts,
    frozen: Frozen,
    slice: usize,
    next: usize,
}

impl Pass {
    /// Begins one with slices of so many pairs; nothing when the log is empty.
    pub(super) fn begin(parts: Parts, slice: usize) -> Option<Self> {
        let frozen = parts.pending.freeze()?;
        Some(Self { parts, frozen, slice, next: 0 })
    }

    /// Applies a slice; answers whether there is another.
    pub(super) async fn step(&mut self) -> Result<bool> {
        let end = self.frozen.pairs.len().min(self.next + self.slice);
        let pairs = self.frozen.pairs[self.next..end].to_vec();
        let more = end < self.frozen.pairs.len();
        let logged = (!more).then_some(self.frozen.last);
        apply_slice(&self.parts, pairs, logged).await?;
        self.next = end;
        Ok(more)
    }
}

/// Applies pairs, and takes away the log up to a row.
async fn apply_slice(parts: &Parts, pairs: Vec<Pair>, logged: Option<i64>) -> Result<()> {
    let pending = Arc::clone(&parts.pending);
    let job = move |tx: &mut Tx<'_>| {
        let slice = pending.slice(&pairs);
        let applied = apply(tx, &slice.likes)?;
        if let Some(logged) = logged {
            log::delete(tx, logged)?;
        }
        Ok::<_, StoreError>((slice, applied))
    };
    let (pending, counted) = (Arc::clone(&parts.pending), Arc::clone(&parts.counted));
    let committed = move |(slice, applied): &(Slice, Applied)| {
        counted.applied(applied.changed);
        pending.applied(slice, applied);
        if logged.is_some() {
            pending.passed();
        }
    };
    parts.store.store.write_then(job, committed).await.map(drop)
}

/// What became of the log of an earlier process.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Pairs that were applied.
    pub(crate) pairs: usize,
    /// What has found no room in the tables. It is acknowledged, so it must be shown, and applied later.
    pub(super) left: Option<Logged>,
}

/// Applies what the log of an earlier process holds. To be done before anything reads likes or counts. On a
/// full disk what could not be applied is handed back: a service that can read must not stay away for it.
///
/// # Errors
/// When the log cannot be read, or the store not be written for another reason than a full disk. What was
/// applied until then stays, and does no harm.
pub(crate) fn replay(store: &Store) -> Result<Replayed> {
    // On a server likes are applied before they are acknowledged: there is no log.
    if store.is_shared() {
        return Ok(Replayed::default());
    }
    let folded = store.read_blocking(log::read)?;
    let Some(last) = folded.last else { return Ok(Replayed::default()) };
    match apply_all(store, &folded, last) {
        Ok(()) => Ok(Replayed { pairs: folded.pairs.len(), left: None }),
        Err(StoreError::Full(reason)) => {
            let left = store.read_blocking(move |conn| log::not_applied(conn, &folded))?;
            let likes = left.pairs.len();
            tracing::warn!(%reason, likes, "the log of likes is kept in memory until the disk has room");
            Ok(Replayed { pairs: 0, left: Some(left) })
        }
        Err(error) => Err(error),
    }
}

fn apply_all(store: &Store, folded: &Folded, last: i64) -> Result<()> {
    let likes = folded.pairs.iter().map(|(pair, liked)| Like::to_be(*pair, *liked));
    let likes: Vec<_> = likes.collect();
    for slice in likes.chunks(SLICE).map(<[Like]>::to_vec) {
        store.write_blocking(move |tx| apply(tx, &slice).map(drop))?;
    }
    store.write_blocking(move |tx| log::delete(tx, last))
}
