//! Applies the log to the tables.
//!
//! A pass takes the pairs that are pending when it begins, by article and user, and writes them a few hundred at
//! a time: neighbours share pages, the count of an article is written once, and other writes get their turn
//! after every slice. The last slice truncates the log.
//!
//! A pair is written as it is wanted at that moment, and the count of its article changes by the rows really
//! added or removed, in the same transaction. So applying a record again is harmless, in part or as a whole, if
//! all later records are applied again too. [`replay`] does that before anything is served. If the disk has no
//! room for it, the log lies over the tables in memory again, and passes keep trying.

use super::batch::BatchOutcome;
use super::log::{self, Position};
use super::pairs::Slice;
use super::pending::{Frozen, Logged};
use super::store::apply;
use super::{Core, Like, Pair, record};
use crate::accounts;
use crate::articles::store::{counts, likes};
use crate::store::{Conn, Result, Store, StoreError, Tx};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pairs of a slice: some 3 ms of the writer.
const SLICE: usize = 256;

/// Applies what is pending now; returns whether that succeeded. A failure leaves it for the next pass.
pub(super) async fn run(core: &Core) -> bool {
    let Some(mut pass) = Pass::begin(core.clone(), SLICE) else { return true };
    let done = async {
        while pass.step().await? {}
        Ok::<_, StoreError>(())
    };
    let done = done.await;
    if let Err(error) = &done {
        core.counters.flush_failed();
        let pending = core.pending.metrics().0;
        tracing::error!(%error, pending, "acknowledged likes are in the log but not yet in their tables");
    }
    done.is_ok()
}

/// A pass in progress.
pub(super) struct Pass {
    core: Core,
    frozen: Frozen,
    /// Most pairs of a step.
    slice: usize,
    next: usize,
}

impl Pass {
    /// Begins a pass; `None` when the log is empty.
    pub(super) fn begin(core: Core, slice: usize) -> Option<Self> {
        let frozen = core.pending.freeze()?;
        Some(Self { core, frozen, slice, next: 0 })
    }

    /// Applies a slice; returns whether there is another.
    pub(super) async fn step(&mut self) -> Result<bool> {
        let end = self.frozen.pairs.len().min(self.next + self.slice);
        let pairs = self.frozen.pairs[self.next..end].to_vec();
        let more = end < self.frozen.pairs.len();
        let truncate = (!more).then_some(self.frozen.last);
        let pending = Arc::clone(&self.core.pending);
        let job = move |tx: &mut Tx<'_>| {
            let slice = pending.slice(&pairs);
            let outcome = apply(tx, &slice.likes)?;
            if let Some(last) = truncate {
                log::truncate(tx, last)?;
            }
            Ok::<_, StoreError>((slice, outcome))
        };
        let Core { pending, counters, .. } = self.core.clone();
        let committed = move |(slice, outcome): &(Slice, BatchOutcome)| {
            counters.applied(outcome.changed());
            pending.applied(slice, outcome);
            if truncate.is_some() {
                pending.passed();
            }
        };
        self.core.store.store.write_then(job, committed).await?;
        self.next = end;
        Ok(more)
    }
}

/// Result of replaying the log of an earlier process.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Pairs that were applied.
    pub(crate) pairs: usize,
    /// Acknowledged likes for which the disk has no room: to be shown, and applied later.
    pub(super) left: Option<Logged>,
}

/// Applies the log of an earlier process, before anything reads likes or counts. A full disk is no error: a
/// service that can read must start.
///
/// # Errors
/// When the log cannot be read, or the store fails for another reason than a full disk. Slices applied until
/// then stay, which is harmless.
pub(crate) fn replay(store: &Store) -> Result<Replayed> {
    // On a server likes are applied before they are acknowledged: there is no log.
    if store.is_shared() {
        return Ok(Replayed::default());
    }
    let Some(log) = store.read_blocking(FoldedLog::read)? else { return Ok(Replayed::default()) };
    match log.apply(store) {
        Ok(()) => Ok(Replayed { pairs: log.pairs.len(), left: None }),
        Err(StoreError::Full(reason)) => {
            let left = store.read_blocking(move |conn| log.not_applied(conn))?;
            let likes = left.pairs.len();
            tracing::warn!(%reason, likes, "the log of likes is kept in memory until the disk has room");
            Ok(Replayed { pairs: 0, left: Some(left) })
        }
        Err(error) => Err(error),
    }
}

/// Final state of each pair of the log.
struct FoldedLog {
    /// In the order of the tables.
    pairs: BTreeMap<Pair, bool>,
    last: Position,
    /// Pairs in all records, repetitions included.
    changes: u64,
}

impl FoldedLog {
    fn read(conn: &Conn<'_>) -> Result<Option<Self>> {
        let (mut pairs, mut changes) = (BTreeMap::new(), 0);
        let last = log::replay(conn, |bytes| {
            let of_record = record::read(bytes)?;
            changes += of_record.len() as u64;
            pairs.extend(of_record);
            Ok::<_, record::RecordError>(())
        })?;
        Ok(last.map(|last| Self { pairs, last, changes }))
    }

    fn apply(&self, store: &Store) -> Result<()> {
        let likes = self.pairs.iter().map(|(pair, liked)| Like::set(*pair, *liked));
        let likes: Vec<_> = likes.collect();
        for slice in likes.chunks(SLICE).map(<[Like]>::to_vec) {
            store.write_blocking(move |tx| apply(tx, &slice).map(drop))?;
        }
        let last = self.last;
        store.write_blocking(move |tx| log::truncate(tx, last))
    }

    /// The part of the log that is not in the tables, as if it had just been logged. Pairs of an absent article
    /// or user are left out: their likes would be refused.
    fn not_applied(&self, conn: &Conn<'_>) -> Result<Logged> {
        let mut logged =
            Logged { log: Some((self.last, self.changes)), pairs: Vec::new(), stored: Vec::new() };
        let mut known = None;
        for (&(article, user), &liked) in &self.pairs {
            if known.is_none_or(|(id, _)| id != article) {
                let stored = counts(conn, article)?;
                logged.stored.extend(stored.map(|stored| (article, stored)));
                known = Some((article, stored.is_some()));
            }
            let there = known.is_some_and(|(_, there)| there) && accounts::exists(conn, user)?;
            if there && likes(conn, article, user)? != liked {
                logged.pairs.push(((article, user), liked));
            }
        }
        Ok(logged)
    }
}
