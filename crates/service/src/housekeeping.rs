//! What is done beside the requests, on one thread, until the service stops.
//!
//! - **Sweeping.** What is deleted is gone at once, for everybody; the rows that hung on it go in transactions of
//!   [`SWEEP_ROWS`] rows, with a pause after each as long as it took, so that other writes have their turn. So go
//!   runs and rankings of deleted tracks, comments and likes of deleted articles, and what a user leaves whom an
//!   operator has deleted ([`leftovers`]); and towns in which there is no post any longer.
//! - **Indexing** texts that have changed: see `search/upkeep.rs`.
//! - **Checking** the counts of articles, and **flushing** likes: see `articles/upkeep.rs`.
//!
//! Where several nodes share a database, one of them sweeps, indexes and checks for all; each flushes its own likes.

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

/// Rows of one sweeping transaction: a millisecond or two of the writer.
pub(crate) const SWEEP_ROWS: usize = 1000;
/// Time between two looks for what an operator has deleted, or what no deletion has announced.
const EVERY: Duration = Duration::from_secs(60);

/// What hung on a user.
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

/// The running thread. Dropped, it finishes what it must and ends.
#[derive(Debug)]
pub struct Housekeeping {
    _thread: Joined,
    stop: watch::Sender<bool>,
    articles: Articles,
}

impl Housekeeping {
    /// Starts it, for the store of `articles`. At the end it tries for so long to write what would be lost.
    pub fn start(articles: &Articles, drain_timeout: Duration) -> std::io::Result<Housekeeping> {
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Left over from before the last stop. Asked before anybody is served, and cheap.
        if runtime.block_on(is_due(articles)).unwrap_or(true) {
            articles.sql().deletions().notify_one();
        }
        let (all, articles) = (articles.clone(), articles.clone());
        let _thread = Joined::spawn("housekeeping", move || {
            runtime.block_on(async {
                // Asked by all of them in turn, on this thread alone.
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

    /// Ends it, when nobody asks any longer; answers how many likes are lost that were acknowledged, as only
    /// `likes.write = queue` can. Blocks the thread.
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

/// Breaks off `work` at the stop; a transaction that was handed over is done all the same.
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
    // No deletion announces a town without posts, and none makes all towns be read.
    let mut towns = true;
    loop {
        tokio::select! {
            () = deletions.notified() => {}
            _ = looks.tick() => towns = true,
        }
        if !is_ours() {
            // Whoever takes it over looks at everything.
            towns = true;
            continue;
        }
        match sweep_all(articles, towns).await {
            Ok(()) => towns = false,
            Err(error) => tracing::debug!(%error, "rows of deleted items remain for now"),
        }
    }
}

/// Whether anything is noted that hung on what was deleted, or more towns may be without posts than go at once.
async fn is_due(articles: &Articles) -> Result<bool> {
    for kind in KINDS {
        if !kind.noted(articles.sql()).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(posts::sweep_towns(articles.sql(), 0, SWEEP_ROWS).await?.is_some())
}

/// Takes away everything that is noted now, and if so asked the towns without posts.
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

/// Work, and a pause as long as it took.
async fn rested<T>(work: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let done = work.await;
    sleep(started.elapsed()).await;
    done
}
