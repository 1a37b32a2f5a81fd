//! The store of all systems: a file of this process (SQLite), or a server that several nodes share (MariaDB).
//!
//! A job is one whole transaction. It gets a `Conn`, on which a statement is the same for both engines or is written
//! once for each (`Sql`). No type of an engine leaves this folder (a lint ensures that). Both engines give the same
//! guarantees: a write that returned `Ok` is committed and synced, and a failed job leaves nothing.
//!
//! They differ in concurrency. The embedded store runs transactions one after the other. On a server they run at the
//! same time, so a job may be run again, and locks a row (`Tx::hold`) before it writes what it has read.
#![allow(clippy::disallowed_types, reason = "this is the store: SQL types live here")]

pub mod backup;
pub mod copy;
mod effects;
mod error;
#[cfg(test)]
mod fixtures;
pub(crate) mod handover;
mod lock;
mod maria;
mod pool;
mod private;
mod sql;
mod sqlite;
#[cfg(test)]
mod testing;
mod tx;

pub(crate) use effects::Effects;
use error::JobError;
pub use error::{ChangeError, Result, StoreError};
pub(crate) use handover::Handover;
pub use lock::{DirLock, LockError};
pub(crate) use maria::{Freshness, now};
pub(crate) use pool::panic_text;
pub use pool::{Pool, PoolError};
pub(crate) use sql::{Conn, Parameter, Row, Sql, Value, columns, params};
pub use sqlite::FILE;
#[cfg(test)]
pub(crate) use sqlite::test_schema;
#[cfg(test)]
pub(crate) use testing::plan;
pub(crate) use tx::{Tx, follow};

use crate::config::DatabaseSettings;
use crate::current;
use crate::ops::record::Part;
use effects::Memory;
use madang_cache::{Horizon, Stamp};
use maria::Maria;
use parking_lot::Mutex;
use sqlite::{Company, Embedded, READ_TIME};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, oneshot};

tokio::task_local! {
    /// Stamps that the reads of the current load depend on.
    static STAMPS: Vec<Stamp>;
}

/// Runs a load whose outcome depends on these stamps alone, which were read before. A replica that contains everything
/// that has ended them may answer its reads.
pub(crate) fn load_with<F: Future>(stamps: Vec<Stamp>, load: F) -> impl Future<Output = F::Output> {
    STAMPS.scope(stamps, load)
}

/// Handle to an open store; cheap to clone. The last one closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    memory: Arc<Memory>,
    dir: PathBuf,
}

enum Engine {
    Sqlite(Box<Embedded>),
    Maria(Box<Maria>),
}

crate::opaque_debug!(Store);

impl Store {
    /// Opens the store that the settings name, or creates the one in `dir`, and brings its schema up to date.
    ///
    /// The caller holds the directory's [`DirLock`].
    ///
    /// # Errors
    /// The store cannot be opened, is damaged, is not a store of Madang, or is newer than this program.
    pub fn open(dir: &Path, settings: &DatabaseSettings) -> Result<Store> {
        let memory = Arc::new(Memory::default());
        let engine = match &settings.url {
            None => Engine::Sqlite(Box::new(Embedded::open(dir, settings, &memory)?)),
            Some(url) => Engine::Maria(Box::new(Maria::open(url, dir, settings, &memory)?)),
        };
        Ok(Store { inner: Arc::new(Inner { engine, memory, dir: dir.to_owned() }) })
    }

    /// Whether other processes write to it, so that what this one remembers may be out of date.
    pub(crate) fn is_shared(&self) -> bool {
        self.maria().is_some()
    }

    fn maria(&self) -> Option<&Maria> {
        match &self.inner.engine {
            Engine::Sqlite(_) => None,
            Engine::Maria(maria) => Some(maria),
        }
    }

    /// Runs one whole read transaction on a thread of the store. All of its queries see the same moment. It ends when
    /// it takes longer than [`READ_TIME`], or when the future is dropped.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        job: impl Fn(&Conn<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        self.read_within(Some(READ_TIME), job).await
    }

    async fn read_within<T, F>(&self, time: Option<Duration>, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Conn<'_>) -> Result<T> + Send + Sync + 'static,
    {
        let _time = current::time(Part::Store);
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.read(time, job).await,
            Engine::Maria(maria) => {
                let stamps = STAMPS.try_with(Clone::clone).unwrap_or_default();
                maria.read(time, &stamps, job).await
            }
        }
    }

    /// [`read`](Self::read) without a time limit, for a thread without an event loop: opening the application.
    pub(crate) fn read_blocking<T: Send + 'static>(
        &self,
        job: impl Fn(&Conn<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        wait(self.read_within(None, job))
    }

    /// Signals the housekeeper that something was deleted of which rows are left.
    pub(crate) fn deletions(&self) -> Arc<Notify> {
        Arc::clone(&self.inner.memory.deletions)
    }

    /// Signals the housekeeper that many texts wait to be indexed.
    pub(crate) fn texts(&self) -> Arc<Notify> {
        Arc::clone(&self.inner.memory.texts)
    }

    /// [`write`](Self::write) for a thread without an event loop: opening the application.
    pub(crate) fn write_blocking<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        wait(self.write(job))
    }

    /// Runs one whole write transaction. Returns once it is durable. The response of a request, or without one this
    /// method, waits until all nodes have dropped what it ends from memory. A job may be run again when its transaction
    /// could not be committed.
    ///
    /// Dropping the future does not undo it: an accepted job runs and commits regardless.
    pub(crate) async fn write<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let _time = current::time(Part::Store);
        let delay = self.freshness().map(|freshness| freshness.delay());
        // After a write of a command, or of background work, the thread waits as well.
        let pause = delay.filter(|_| !handover::is_request());
        let paused = move |_: &T| pause.into_iter().for_each(std::thread::sleep);
        let outcome = self.commit(Company::Shared, job, paused).await;
        if let Some(delay) = delay {
            // The edge delays the response of a request, which then holds no place among the writes.
            handover::not_before(Instant::now() + delay);
        }
        outcome
    }

    /// [`write`](Self::write) that calls `committed` with the result, on the thread of the transaction, after the
    /// commit and before any response that may show it. It must be short. It is for effects on this process alone;
    /// others belong into [`Effects`]. It does not wait for other nodes, so no node may remember what it writes.
    pub(crate) async fn write_then<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        let _time = current::time(Part::Store);
        self.commit(Company::Shared, job, committed).await
    }

    /// [`write_then`](Self::write_then) with its own commit, as without group commit.
    pub(crate) async fn write_alone<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        let _time = current::time(Part::Store);
        self.commit(Company::Alone, job, committed).await
    }

    /// Starts a [`write`](Self::write). `settle` gets the result on the thread of the transaction, after the commit and
    /// its effects. It must be short: on the embedded store the next group waits for it.
    ///
    /// # Errors
    /// The job was not accepted; `settle` is not called.
    pub(crate) fn submit<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        settle: impl FnOnce(Result<T, E>) + Send + 'static,
    ) -> Result<()> {
        self.hand_over(Company::Shared, job, settle)
    }

    async fn commit<T: Send + 'static, E: JobError>(
        &self,
        company: Company,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        let (answer, result) = oneshot::channel();
        let settle = move |outcome: Result<T, E>| {
            if let Ok(outcome) = &outcome {
                follow(|| committed(outcome));
            }
            // The caller may be gone; the write stands.
            drop(answer.send(outcome));
        };
        self.hand_over(company, job, settle)?;
        result.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    fn hand_over<T: Send + 'static, E: JobError>(
        &self,
        company: Company,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        settle: impl FnOnce(Result<T, E>) + Send + 'static,
    ) -> Result<()> {
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.writer.submit(company, job, settle),
            Engine::Maria(maria) => maria.submit(job, settle),
        }
    }

    /// Identity of the shared database, and the judge of responses in a shared cache; `None` for an embedded store.
    pub(crate) fn horizon(&self) -> Option<(i64, Arc<dyn Horizon>)> {
        self.maria().map(|maria| (maria.shared.identity, maria.horizon()))
    }

    /// Whether this node may answer from memory; `None` for an embedded store, where it always may.
    pub(crate) fn freshness(&self) -> Option<Arc<Freshness>> {
        self.maria().map(|maria| Arc::clone(&maria.shared.freshness))
    }

    /// Returns a function that reports whether this node does the work that one node does for all. With an embedded
    /// store it always does. The function blocks the thread for a few seconds at most.
    pub(crate) fn duty(&self) -> impl FnMut() -> bool + use<> {
        let mut duty = self.maria().map(Maria::duty);
        move || duty.as_mut().is_none_or(maria::Duty::is_mine)
    }

    /// Error of the last group of writes, or of the last try since then, or that the server is unavailable; `None`
    /// while writes succeed.
    pub(crate) fn write_failure(&self) -> Option<StoreError> {
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.writer.stats.failure.lock().clone(),
            Engine::Maria(maria) => maria.failure(),
        }
    }

    /// Describes the store of these settings without changing it, one line for each server.
    ///
    /// # Errors
    /// A server cannot be reached or used.
    pub fn check(dir: &Path, settings: &DatabaseSettings) -> Result<Vec<String>> {
        match &settings.url {
            Some(url) => maria::check(url, settings),
            None => {
                let file = dir.join(FILE);
                let made = if file.exists() { "" } else { ", made at the first start" };
                Ok(vec![format!("store: {}{made}", file.display())])
            }
        }
    }

    /// Copies the write-ahead log into the database and restarts the log. `false` means that another program prevented
    /// it, `None` that a server keeps the log. Blocks the thread.
    ///
    /// # Errors
    /// The log cannot be copied: the disk is full, or fails.
    pub(crate) fn checkpoint(&self) -> Result<Option<bool>> {
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.checkpoint().map(Some),
            Engine::Maria(_) => Ok(None),
        }
    }

    /// Ends all cached responses on every node, as a transaction does.
    pub(crate) async fn end_everything(&self) -> Result<()> {
        let job = |tx: &mut Tx<'_>| {
            tx.effects().end_everything();
            Ok(())
        };
        self.write(job).await
    }

    /// Metrics since the store was opened.
    pub fn metrics(&self) -> StoreMetrics {
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.metrics(),
            Engine::Maria(maria) => maria.metrics(),
        }
    }

    pub(crate) fn replicas(&self) -> Vec<ReplicaMetrics> {
        self.maria().map(Maria::replica_metrics).unwrap_or_default()
    }

    /// Time of the last successful backup of the store on this machine.
    pub(crate) fn last_backup(&self) -> Option<SystemTime> {
        backup::last_success(&self.inner.dir)
    }

    /// Sizes of the store's files and free space, from the file system.
    pub(crate) fn sizes(&self) -> StoreSizes {
        let files = match &self.inner.engine {
            Engine::Sqlite(embedded) => Some(embedded.sizes()),
            Engine::Maria(_) => None,
        };
        let disk = rustix::fs::statvfs(&self.inner.dir);
        let disk_free_bytes = disk.map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        StoreSizes { files, disk_free_bytes }
    }
}

/// Sizes of the store's files, and the space left for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreSizes {
    /// Files of an embedded store.
    pub(crate) files: Option<FileSizes>,
    /// Free on the disk of the data directory, for the user that runs the service.
    pub(crate) disk_free_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSizes {
    /// Without the log.
    pub(crate) database_bytes: u64,
    /// Size of the write-ahead log.
    pub(crate) log_bytes: u64,
}

/// Metrics of a replica, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaMetrics {
    /// Host and port.
    pub(crate) name: String,
    /// Whether reads are sent there now.
    pub(crate) is_used: bool,
    /// Age of the oldest change that this node knows of and the replica lacks.
    pub(crate) lag: Duration,
    /// Reads that it has answered.
    pub(crate) reads: u64,
}

/// Metrics of the store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Commits that changed something and succeeded; each synced the log once.
    pub commits: u64,
    /// Writes that succeeded, whether or not they changed anything.
    pub committed_jobs: u64,
    /// Writes that failed and were rolled back alone.
    pub failed_jobs: u64,
    /// Commits that failed, with every write in them.
    pub failed_commits: u64,
    /// Time in `commits` and `failed_commits`, in microseconds.
    pub commit_micros: u64,
    /// Writes waiting now.
    pub waiting_writes: u64,
    /// Read transactions.
    pub reads: u64,
    /// Read transactions waiting now.
    pub waiting_reads: u64,
    /// Copies of the log into the database.
    pub checkpoints: u64,
    /// Pauses of all transactions to restart the log.
    pub log_cuts: u64,
    /// Transactions that were run again after a conflict or a connection lost before the commit.
    pub retries: u64,
    /// Whether this node does the work that one node does for all.
    pub keeps_house: bool,
    /// Polls for writes of other nodes.
    pub polls: u64,
    /// Requests that waited for such a poll.
    pub waits: u64,
}

/// Counters of both engines.
#[derive(Debug, Default)]
struct Counted {
    commits: AtomicU64,
    committed_jobs: AtomicU64,
    failed_jobs: AtomicU64,
    failed_commits: AtomicU64,
    commit_micros: AtomicU64,
    retries: AtomicU64,
    keeps_house: AtomicBool,
    /// Error of the last group of the embedded store's writes.
    failure: Mutex<Option<StoreError>>,
}

impl Counted {
    /// Notes the outcome of a group that had something to write, or of a try.
    fn note(&self, result: Result<()>) {
        *self.failure.lock() = result.err();
    }

    fn metrics(&self) -> StoreMetrics {
        StoreMetrics {
            commits: self.commits.load(Relaxed),
            committed_jobs: self.committed_jobs.load(Relaxed),
            failed_jobs: self.failed_jobs.load(Relaxed),
            failed_commits: self.failed_commits.load(Relaxed),
            commit_micros: self.commit_micros.load(Relaxed),
            retries: self.retries.load(Relaxed),
            keeps_house: self.keeps_house.load(Relaxed),
            ..StoreMetrics::default()
        }
    }
}

/// Blocks the thread until a future that needs no event loop is ready.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut answer = pin!(answer);
    loop {
        match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}
