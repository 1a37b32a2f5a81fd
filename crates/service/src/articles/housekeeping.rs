//! What is done for articles beside the requests, on one thread, until the service stops.
//!
//! - **Sweeping.** The comments and likes of a deleted article go in transactions of [`SWEEP_ROWS`] rows,
//!   with a pause after each as long as it took, so that other writes have their turn.
//! - **Checking.** Counts are changed in the transactions of their rows, so they can be wrong only if
//!   somebody else writes to the file: an operator, or a repair by hand. A pass at the start, and again
//!   a minute after the last one has ended, compares them in the snapshot of a reader, a hundred articles
//!   at a time, resting nineteen times as long as it works. What is wrong is set right in a transaction
//!   that counts again, is counted, and is logged. Counts in memory that such a change has made old are
//!   read again on the way.
//! - **Flushing**, where likes are acknowledged before they are in their tables (`likes.write = behind`: every
//!   second, or sooner when there are many; `queue`: every `likes.queue_flush`), and once more at the end,
//!   when nobody asks any longer. What is nowhere but in memory then is tried again for as long as a drain may
//!   take.

use super::Articles;
use super::types::ArticleId;
use crate::store::StoreError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// Rows of one sweeping transaction: a millisecond or two of the writer.
const SWEEP_ROWS: usize = 1000;
/// Articles compared in one snapshot.
const CHECKED_AT_ONCE: usize = 100;
/// Share of the time that checking may take of one reader: one in so many parts.
const REST: u32 = 19;
/// Time between two passes, and between two looks for articles that an operator has deleted.
const EVERY: Duration = Duration::from_secs(60);

/// Time between two tries to write what would be lost.
const AGAIN: Duration = Duration::from_millis(100);

/// What was found and mended since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptFigures {
    /// Passes over all articles that were finished.
    pub passes: u64,
    /// Articles whose counts were compared with their rows.
    pub checked: u64,
    /// Articles whose counts were wrong, and were set right.
    pub repaired: u64,
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    deleted: Notify,
    passes: AtomicU64,
    checked: AtomicU64,
    repaired: AtomicU64,
}

impl Kept {
    /// Says that an article was deleted.
    pub(super) fn sweep_soon(&self) {
        self.deleted.notify_one();
    }

    pub(super) fn figures(&self) -> KeptFigures {
        KeptFigures {
            passes: self.passes.load(Relaxed),
            checked: self.checked.load(Relaxed),
            repaired: self.repaired.load(Relaxed),
        }
    }
}

/// The running thread. Dropped, it finishes what it must and ends.
#[derive(Debug)]
pub struct Housekeeping {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    articles: Articles,
}

impl Housekeeping {
    /// Starts it. At the end it tries for so long to write what would be lost.
    ///
    /// # Errors
    /// When the thread or its event loop cannot be made.
    pub fn start(articles: &Articles, drain_timeout: Duration) -> std::io::Result<Housekeeping> {
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (all, articles) = (articles.clone(), articles.clone());
        let thread = std::thread::Builder::new().name("articles".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::join!(
                    until(&stopped, articles.sweep()),
                    until(&stopped, articles.check()),
                    articles.flush(&stopped, drain_timeout)
                )
            });
        })?;
        Ok(Housekeeping { stop, thread: Some(thread), articles: all })
    }

    /// Ends it, when nobody asks any longer; answers how many likes are lost that were acknowledged, as only
    /// `likes.write = queue` can. Blocks the thread.
    pub fn finish(mut self) -> u64 {
        self.end();
        self.articles.likes.in_memory_alone()
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.end();
    }
}

/// Breaks off `work` at the stop; a transaction that was handed over is done all the same.
async fn until(stopped: &watch::Receiver<bool>, work: impl Future<Output = ()>) {
    let mut stopped = stopped.clone();
    tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => {}
        () = work => {}
    }
}

impl Articles {
    async fn sweep(&self) {
        loop {
            if let Err(error) = self.sweep_all().await {
                tracing::debug!(%error, "rows of deleted articles remain for now");
            }
            tokio::select! {
                () = self.kept.deleted.notified() => {}
                () = sleep(EVERY) => {}
            }
        }
    }

    async fn sweep_all(&self) -> Result<(), StoreError> {
        loop {
            let started = Instant::now();
            if !self.store.sweep(SWEEP_ROWS).await? {
                return Ok(());
            }
            sleep(started.elapsed()).await;
        }
    }

    async fn check(&self) {
        loop {
            match self.check_all().await {
                Ok(()) => {
                    self.kept.passes.fetch_add(1, Relaxed);
                }
                Err(error) => tracing::debug!(%error, "cannot check counts"),
            }
            sleep(EVERY).await;
        }
    }

    async fn check_all(&self) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let started = Instant::now();
            let Some(last) = self.check_some(after).await? else { return Ok(()) };
            after = last;
            sleep(started.elapsed().saturating_mul(REST)).await;
        }
    }

    /// Checks some articles after this one; answers the last of them.
    pub(super) async fn check_some(
        &self,
        after: ArticleId,
    ) -> Result<Option<ArticleId>, StoreError> {
        let found = self.store.compare(after, CHECKED_AT_ONCE).await?;
        let Some(last) = found.last() else { return Ok(None) };
        self.kept.checked.fetch_add(found.len() as u64, Relaxed);
        let wrong: Vec<_> = found.iter().filter(|one| one.kept != one.rows).collect();
        for one in &wrong {
            tracing::warn!(article = one.article, kept = ?one.kept, rows = ?one.rows, "wrong counts");
        }
        if !wrong.is_empty() {
            let wrong = wrong.iter().map(|one| one.article).collect();
            let overlay = Arc::clone(self.likes.overlay());
            let repaired = self.store.repair(wrong, move |id, counts| overlay.stored(id, counts));
            self.kept.repaired.fetch_add(repaired.await?, Relaxed);
        }
        for one in &found {
            // What is pending differs from the table, and is set by those who apply it.
            let pending = self.likes.overlay().likes(one.article).is_some();
            let counts = self.counts.get(one.article).filter(|_| !pending);
            if counts.is_some_and(|counts| counts != one.kept) {
                self.likes.read_counts(one.article).await?;
            }
        }
        Ok(Some(last.article))
    }

    async fn flush(&self, stopped: &watch::Receiver<bool>, drain_timeout: Duration) {
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
        while !self.likes.flush().await
            && self.likes.in_memory_alone() > 0
            && stopping.elapsed() < drain_timeout
        {
            sleep(AGAIN).await;
        }
    }
}
