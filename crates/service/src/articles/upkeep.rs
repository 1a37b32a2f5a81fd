//! Background work for articles, on the housekeeper's thread.
//!
//! - **Checking.** Counts change in the transactions of their rows, so they are wrong only if somebody else writes to
//!   the file: an operator, or a repair by hand. A pass at the start, and again a minute after the last one has ended,
//!   compares them in the snapshot of a reader, a hundred articles at a time, resting nineteen times as long as it
//!   works. Wrong counts are logged and set right in a transaction that counts again. Counts in memory that an outside
//!   change has made old are read again.
//! - **Likes of deleted users.** There is no index of likes by user, so all likes are read, in slices with the same
//!   rests; those found are deleted in small transactions with their counts.
//! - **Flushing**, where likes are acknowledged before they are in their tables (`likes.write = behind`: every
//!   second, or sooner when there are many; `queue`: every `likes.queue_flush`), and once more after the last request.
//!   Likes that are then only in memory are retried for up to the drain timeout.

use super::Articles;
use super::types::ArticleId;
use crate::housekeeping::SWEEP_ROWS;
use crate::store::{Result, StoreError};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// Likes whose users are looked up in one snapshot.
const LIKES_AT_ONCE: usize = 5000;
/// Articles compared in one snapshot.
const CHECKED_AT_ONCE: usize = 100;
/// Rest after a slice, as a multiple of its time.
const REST: u32 = 19;
/// Time between two passes.
const EVERY: Duration = Duration::from_secs(60);
/// Time before a retry.
const AGAIN: Duration = Duration::from_millis(100);

/// Checks and repairs since the start.
#[derive(Debug, Default)]
pub(super) struct UpkeepCounters {
    /// Finished passes over all articles.
    pub(super) passes: AtomicU64,
    /// Articles whose counts were compared with their rows.
    pub(super) checked: AtomicU64,
    /// Articles whose wrong counts were corrected.
    pub(super) repaired: AtomicU64,
}

impl Articles {
    /// Compares counts with rows for ever, whenever `is_ours`: on one node.
    pub(crate) async fn check(&self, is_ours: &impl Fn() -> bool) {
        loop {
            if is_ours() {
                match self.check_all().await {
                    Ok(()) => _ = self.upkeep.passes.fetch_add(1, Relaxed),
                    Err(error) => tracing::debug!(%error, "cannot check counts"),
                }
            }
            sleep(EVERY).await;
        }
    }

    async fn check_all(&self) -> Result<()> {
        let mut after = 0;
        loop {
            let started = Instant::now();
            let Some(last) = self.check_some(after).await? else { return Ok(()) };
            after = last;
            sleep(started.elapsed().saturating_mul(REST)).await;
        }
    }

    /// Checks some articles after this one; returns the last of them.
    pub(super) async fn check_some(&self, after: ArticleId) -> Result<Option<ArticleId>> {
        let found = match self.store.compare(after, CHECKED_AT_ONCE).await {
            // A hundred articles with very many likes each: then one at a time.
            Err(StoreError::GivenUp(_)) => self.store.compare(after, 1).await?,
            found => found?,
        };
        let Some(last) = found.last() else { return Ok(None) };
        self.upkeep.checked.fetch_add(found.len() as u64, Relaxed);
        let wrong: Vec<_> = found.iter().filter(|one| one.kept != one.rows).collect();
        for one in &wrong {
            tracing::warn!(article = one.article, kept = ?one.kept, rows = ?one.rows, "wrong counts");
        }
        if !wrong.is_empty() {
            let wrong = wrong.iter().map(|one| one.article).collect();
            self.upkeep.repaired.fetch_add(self.store.repair(wrong).await?, Relaxed);
        }
        for one in &found {
            // Pending likes differ from the table until they are applied.
            let pending = self.likes.core.pending.likes(one.article).is_some();
            let counts = self.counts.get(one.article).filter(|_| !pending);
            if counts.is_some_and(|counts| counts != one.kept) {
                self.likes.core.read_counts(one.article).await?;
            }
        }
        Ok(Some(last.article))
    }

    /// Deletes the likes of deleted users.
    pub(crate) async fn take_back_likes_of_the_gone(&self) -> Result<()> {
        let mut after = (0, 0);
        loop {
            let started = Instant::now();
            let (gone, last) = match self.store.likes_of_the_gone(after, LIKES_AT_ONCE).await {
                // The store is busy: no reason to begin anew.
                Err(error) if error.is_temporary() => {
                    sleep(AGAIN).await;
                    continue;
                }
                found => found?,
            };
            for some in gone.chunks(SWEEP_ROWS) {
                self.store.take_back(some.to_vec()).await?;
            }
            let Some(last) = last else { return Ok(()) };
            after = last;
            sleep(started.elapsed().saturating_mul(REST)).await;
        }
    }

    /// Writes acknowledged likes that are not in their tables, whenever that is due and at the end.
    pub(crate) async fn flush(&self, stopped: &watch::Receiver<bool>, drain_timeout: Duration) {
        let mut stop = stopped.clone();
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                () = self.likes.until_due() => {
                    self.likes.flush().await;
                }
            }
        }
        let stopping = Instant::now();
        while !self.likes.finish().await
            && self.likes.in_memory_alone() > 0
            && stopping.elapsed() < drain_timeout
        {
            sleep(AGAIN).await;
        }
    }
}
