//! Background work, on one thread, until the service stops.
//!
//! - **Sweeping.** A deletion takes effect at once. Dependent rows are deleted in transactions of [`SWEEP_ROWS`]
//!   rows, each followed by a pause as long as it took, so that other writes have their turn: runs and rankings of
//!   deleted tracks, comments and likes of deleted articles, and the rows of users that an operator has deleted
//!   ([`leftovers`]); also towns without posts.
//! - **Indexing** changed texts: see `search/upkeep.rs`.
//! - **Checking** the counts of articles, and **flushing** likes: see `articles/upkeep.rs`.
//!
//! If several nodes share a database, one of them sweeps, indexes and checks for all; each flushes its own likes.

mod leftovers;
#[cfg(test)]
mod tests;

pub(crate) use leftovers::{DependentRows, Leftovers};

use crate::articles::Articles;
use crate::ops::thread::Joined;
use crate::store::Result;
use crate::{articles, idempotency, posts, schedules, search, tracks};
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval_at, sleep};

/// Rows of one sweeping transaction: one or two milliseconds of the writer.
pub(crate) const SWEEP_ROWS: usize = 1000;
/// Time between two sweeps without a signal: an operator's deletions and towns without posts have none.
const EVERY: Duration = Duration::from_secs(60);

const OF_USERS: Leftovers = Leftovers {
    noted: "deleted_users",
    dependents: &[
        tracks::OF_USER,
        posts::OF_USER,
        articles::OF_USER,
        schedules::OF_USER,
        idempotency::OF_USER,
    ],
};

const KINDS: [Leftovers; 3] = [tracks::LEFTOVERS, articles::LEFTOVERS, OF_USERS];

/// The running thread. On drop it flushes likes and ends.
#[derive(Debug)]
pub struct Housekeeping {
    _thread: Joined,
    stop: watch::Sender<bool>,
    articles: Articles,
}

impl Housekeeping {
    /// Starts it, for the store of `articles`. At the end it retries for `drain_timeout` to write what would be lost.
    ///
    /// # Errors
    /// The thread or its event loop cannot start.
    pub fn start(articles: &Articles, drain_timeout: Duration) -> std::io::Result<Housekeeping> {
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Rows left before the last stop. The check is cheap, and comes before any request.
        if runtime.block_on(is_due(articles)).unwrap_or(true) {
            articles.sql().deletions().notify_one();
        }
        let (all, articles) = (articles.clone(), articles.clone());
        let _thread = Joined::spawn("housekeeping", move || {
            runtime.block_on(async {
                // All tasks use it, on this thread alone.
                let duty = RefCell::new(articles.sql().duty());
                let is_ours = || (duty.borrow_mut())();
                tokio::join!(
                    until(&stopped, sweep(&articles, &is_ours)),
                    until(&stopped, articles.check(&is_ours)),
                    until(&stopped, search::index_changes(articles.sql(), &is_ours)),
                    articles.flush(&stopped, drain_timeout)
                )
            });
        })?;
        Ok(Housekeeping { _thread, stop, articles: all })
    }

    /// Ends it, after the last request. Returns the number of acknowledged likes that are lost, which only
    /// `likes.write = queue` can cause. Blocks the thread.
    pub fn finish(self) -> u64 {
        let articles = self.articles.clone();
        drop(self);
        articles.lost_likes()
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Runs `work` until the stop. A transaction that was handed over is still done.
async fn until(stopped: &watch::Receiver<bool>, work: impl Future<Output = ()>) {
    let mut stopped = stopped.clone();
    tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => {}
        () = work => {}
    }
}

async fn sweep(articles: &Articles, is_ours: &impl Fn() -> bool) {
    let deletions = articles.sql().deletions();
    let mut looks = interval_at((Instant::now() + EVERY).into(), EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // No deletion signals a town without posts, and none causes a read of all towns.
    let mut towns = true;
    loop {
        tokio::select! {
            () = deletions.notified() => {}
            _ = looks.tick() => towns = true,
        }
        if !is_ours() {
            // The node that takes over sweeps everything.
            towns = true;
            continue;
        }
        match sweep_all(articles, towns).await {
            Ok(()) => towns = false,
            Err(error) => tracing::debug!(%error, "rows of deleted items remain for now"),
        }
    }
}

/// Whether dependent rows are noted, or more towns may be without posts than one transaction deletes.
async fn is_due(articles: &Articles) -> Result<bool> {
    for kind in KINDS {
        if !kind.noted(articles.sql()).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(posts::sweep_towns(articles.sql(), 0, SWEEP_ROWS).await?.is_some())
}

/// Deletes all dependent rows that are noted, and optionally towns without posts.
async fn sweep_all(articles: &Articles, towns: bool) -> Result<()> {
    for kind in KINDS {
        sweep_kind(articles, kind).await?;
    }
    let mut after = towns.then_some(0);
    while let Some(town) = after {
        after = rested(posts::sweep_towns(articles.sql(), town, SWEEP_ROWS)).await?;
    }
    Ok(())
}

async fn sweep_kind(articles: &Articles, kind: Leftovers) -> Result<()> {
    let store = articles.sql();
    loop {
        let noted = kind.noted(store).await?;
        if noted.is_empty() {
            return Ok(());
        }
        if kind.noted == OF_USERS.noted {
            articles.take_back_likes_of_the_gone().await?;
        }
        for id in noted {
            while rested(kind.sweep(store, id, SWEEP_ROWS)).await? {}
        }
    }
}

/// Runs work, then pauses as long as it took.
async fn rested<T>(work: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let done = work.await;
    sleep(started.elapsed()).await;
    done
}
