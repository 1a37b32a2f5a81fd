//! What is done for articles beside the requests, on the housekeeper's thread.
//!
//! - **Checking.** Counts are changed in the transactions of their rows, so they can be wrong only if
//!   somebody else writes to the file: an operator, or a repair by hand. A pass at the start, and again
//!   a minute after the last one has ended, compares them in the snapshot of a reader, a hundred articles
//!   at a time, resting nineteen times as long as it works. What is wrong is set right in a transaction
//!   that counts again, is counted, and is logged. Counts in memory that such a change has made old are
//!   read again on the way.
//! - **Likes of users who are gone.** There is no index of likes by user, so all likes are read, in slices of a
//!   reader's snapshots with the same rests; what is found goes in small transactions with its counts.
//! - **Flushing**, where likes are acknowledged before they are in their tables (`likes.write = behind`: every
//!   second, or sooner when there are many; `queue`: every `likes.queue_flush`), and once more at the end,
//!   when nobody asks any longer. What is nowhere but in memory then is tried again for as long as a drain may
//!   take.

use super::Articles;
use super::types::ArticleId;
use crate::housekeeping::SWEEP_ROWS;
use crate::store::{Result, StoreError};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// Likes of which one snapshot looks whether their users are there.
const LIKES_AT_ONCE: usize = 5000;
/// Articles compared in one snapshot.
const CHECKED_AT_ONCE: usize = 100;
/// Share of the time that checking may take of one reader: one in so many parts.
const REST: u32 = 19;
/// Time between two passes.
const EVERY: Duration = Duration::from_secs(60);

/// Time between two tries to write what would be lost.
const AGAIN: Duration = Duration::from_millis(100);

/// What was found and mended since the start.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Passes over all articles that were finished.
    pub(super) passes: AtomicU64,
    /// Articles whose counts were compared with their rows.
    pub(super) checked: AtomicU64,
    /// Articles whose counts were wrong, and were set right.
    pub(super) repaired: AtomicU64,
}

impl Articles {
    /// Compares counts with rows, again and again, where it is this node's to do.
    pub(crate) async fn check(&self, is_ours: &impl Fn() -> bool) {
        loop {
            if !is_ours() {
                sleep(EVERY).await;
                continue;
            }
            match self.check_all().await {
                Ok(()) => {
                    self.kept.passes.fetch_add(1, Relaxed);
                }
                Err(error) => tracing::debug!(%error, "cannot check counts"),
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

    /// Checks some articles after this one; answers the last of them.
    pub(super) async fn check_some(&self, after: ArticleId) -> Result<Option<ArticleId>> {
        let found = match self.store.compare(after, CHECKED_AT_ONCE).await {
            // A hundred articles with a great many likes each: one by one then.
            Err(StoreError::GivenUp(_)) => self.store.compare(after, 1).await?,
            found => found?,
        };
        let Some(last) = found.last() else { return Ok(None) };
        self.kept.checked.fetch_add(found.len() as u64, Relaxed);
        let wrong: Vec<_> = found.iter().filter(|one| one.kept != one.rows).collect();
        for one in &wrong {
            tracing::warn!(article = one.article, kept = ?one.kept, rows = ?one.rows, "wrong counts");
        }
        if !wrong.is_empty() {
            let wrong = wrong.iter().map(|one| one.article).collect();
            self.kept.repaired.fetch_add(self.store.repair(wrong).await?, Relaxed);
        }
        for one in &found {
            // What is pending differs from the table, and is set by those who apply it.
            let pending = self.likes.pending().likes(one.article).is_some();
            let counts = self.counts.get(one.article).filter(|_| !pending);
            if counts.is_some_and(|counts| counts != one.kept) {
                self.likes.read_counts(one.article).await?;
            }
        }
        Ok(Some(last.article))
    }

    /// Takes the likes back of users who no longer exist.
    pub(crate) async fn take_back_likes_of_the_gone(&self) -> Result<()> {
        let mut after = (0, 0);
        loop {
            let started = Instant::now();
            let (gone, last) = match self.store.likes_of_the_gone(after, LIKES_AT_ONCE).await {
                // Too much else to do: not a reason to begin anew.
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

    /// Writes likes that are acknowledged and not in their tables, whenever that is due and at the end.
    pub(crate) async fn flush(&self, stopped: &watch::Receiver<bool>, drain_timeout: Duration) {
        let mut stop = stopped.clone();
        loop {
            let stopped = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => true,
                () = self.likes.until_due() => false,
            };
            if stopped {
                break;
            }
            self.likes.flush().await;
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
