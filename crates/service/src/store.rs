//! The store of every system: one file of this process (SQLite), or a server that several nodes share (MariaDB).
//!
//! A job is one whole transaction. It sees a `Conn`, on which a statement is the same for both engines or is
//! written once for each (`Sql`); no type of an engine leaves this folder (a lint sees to that). What is promised
//! is the same, too: a write that was answered `Ok` is committed and synced, and a job that fails leaves nothing.
//!
//! They differ in how transactions meet. The embedded store runs one after the other; on a server they run at the
//! same time, so a job there may be run again, and takes a row's lock (`Tx::hold`) before it writes what it has read.

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

pub use effects::Effects;
use error::JobError;
pub use error::{ChangeError, Result, StoreError};
pub use handover::Handover;
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
use sqlite::{Company, Embedded, READ_TIME};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, oneshot};

tokio::task_local! {
    /// What the reads of a load depend on.
    static STAMPS: Vec<Stamp>;
}

/// Runs a load whose outcome depends on nothing but these stamps, which have been read: its reads may be answered by a
/// replica that contains whatever has ended them.
pub(crate) fn load_with<F: Future>(stamps: Vec<Stamp>, load: F) -> impl Future<Output = F::Output> {
    STAMPS.scope(stamps, load)
}

/// Handle on an open store; cheap to clone. The last one closes it.
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
    /// When it cannot be opened, is damaged, is not a store of Madang, or is newer than this program.
    pub fn open(dir: &Path, settings: &DatabaseSettings) -> Result<Store> {
        let memory = Arc::new(Memory::default());
        let engine = match &settings.url {
            None => Engine::Sqlite(Box::new(Embedded::open(dir, settings, &memory)?)),
            Some(url) => Engine::Maria(Box::new(Maria::open(url, dir, settings, &memory)?)),
        };
        Ok(Store { inner: Arc::new(Inner { engine, memory, dir: dir.to_owned() }) })
    }

    /// Whether other processes write to it, too: what this one remembers of it is not all there is to know.
    pub(crate) fn is_shared(&self) -> bool {
        self.maria().is_some()
    }

    fn maria(&self) -> Option<&Maria> {
        match &self.inner.engine {
            Engine::Sqlite(_) => None,
            Engine::Maria(maria) => Some(maria),
        }
    }

    /// Runs one whole read transaction on a thread of the store: all of its queries see the same moment. It ends
    /// when it takes longer than [`READ_TIME`], or when the future is dropped.
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

    /// [`read`](Self::read) for a thread without an event loop, as long as it takes: opening the application.
    pub(crate) fn read_blocking<T: Send + 'static>(
        &self,
        job: impl Fn(&Conn<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        wait(self.read_within(None, job))
    }

    /// Told when something was deleted of which rows are left: the housekeeper waits for it.
    pub(crate) fn deletions(&self) -> Arc<Notify> {
        Arc::clone(&self.inner.memory.deletions)
    }

    /// Told when many texts wait to be indexed: the housekeeper waits for it.
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

    /// Runs one whole write transaction and answers once it is durable, and once every node knows of it that remembers
    /// anything. A job may be run again when its transaction could not be committed.
    ///
    /// Dropping the future does not undo it: a job that was taken runs and commits regardless.
    pub(crate) async fn write<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let _time = current::time(Part::Store);
        let Some(delay) = self.freshness().map(|freshness| freshness.delay()) else {
            return self.commit(Company::Shared, job, |_| ()).await;
        };
        if !handover::is_request() {
            // A command, or what is done beside requests: the next write of this thread waits as well.
            return self.commit(Company::Shared, job, move |_| std::thread::sleep(delay)).await;
        }
        let outcome = self.commit(Company::Shared, job, |_| ()).await;
        // The edge lets the answer wait, which holds no place among the writes then.
        handover::not_before(Instant::now() + delay);
        outcome
    }

    /// [`write`](Self::write) that calls `committed` with the outcome: on the thread of the transaction, after the
    /// commit and before the answers to all who may have seen it. It must be short. It is for what only this process
    /// must know; the rest belongs into [`Effects`]. It is also for what no node remembers: other nodes are not waited
    /// for.
    pub(crate) async fn write_then<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        let _time = current::time(Part::Store);
        self.commit(Company::Shared, job, committed).await
    }

    /// [`write_then`](Self::write_then) with a commit of its own, as if there were no group commit.
    pub(crate) async fn write_alone<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        let _time = current::time(Part::Store);
        self.commit(Company::Alone, job, committed).await
    }

    /// [`write`](Self::write) for whoever does not wait: `settle` is told on the thread of the transaction what
    /// became of it, after the commit and its effects. It must be short: on the embedded store the next group waits
    /// for it.
    ///
    /// # Errors
    /// When the job was not taken; `settle` is not called then.
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
            // The caller may have left; the write stands all the same.
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

    /// Which database it is, and what judges bodies of a shared cache; nothing for a store of its own.
    pub(crate) fn horizon(&self) -> Option<(i64, Arc<dyn Horizon>)> {
        self.maria().map(|maria| (maria.shared.identity, maria.horizon()))
    }

    /// Where several nodes share the store: whether what this one remembers may be used.
    pub(crate) fn freshness(&self) -> Option<Arc<Freshness>> {
        self.maria().map(|maria| Arc::clone(&maria.shared.freshness))
    }

    /// Whose turn it is to do what is done once for all nodes.
    /// What is answered says whether it is this node's, which a file has alone, and blocks the thread for some seconds
    /// at most.
    pub(crate) fn duty(&self) -> impl FnMut() -> bool + use<> {
        let mut duty = self.maria().map(Maria::duty);
        move || duty.as_mut().is_none_or(maria::Duty::is_mine)
    }

    /// Why writes fail now: what the last group of writes, or the last try since then, met; or that the server is
    /// away. Nothing while they succeed.
    pub fn write_failure(&self) -> Option<StoreError> {
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.writer.stats.failure(),
            Engine::Maria(maria) => maria.failure(),
        }
    }

    /// What can be said of the store of these settings without changing it, a line for each server.
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

    /// Takes the write-ahead log into the database and begins it anew; answers whether no other program was in the
    /// way, or nothing where a server keeps the log. Blocks the thread.
    ///
    /// # Errors
    /// When the log cannot be copied: the disk is full, or fails.
    pub fn checkpoint(&self) -> Result<Option<bool>> {
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.checkpoint().map(Some),
            Engine::Maria(_) => Ok(None),
        }
    }

    /// Ends everything that is cached, on every node, as a transaction does.
    pub(crate) async fn end_everything(&self) -> Result<()> {
        let job = |tx: &mut Tx<'_>| {
            tx.effects().end_everything();
            Ok(())
        };
        self.write(job).await
    }

    /// What the store has done so far.
    pub fn metrics(&self) -> StoreMetrics {
        match &self.inner.engine {
            Engine::Sqlite(embedded) => embedded.metrics(),
            Engine::Maria(maria) => maria.metrics(),
        }
    }

    /// The same of each replica.
    pub fn replicas(&self) -> Vec<ReplicaMetrics> {
        self.maria().map(Maria::replica_metrics).unwrap_or_default()
    }

    /// When a backup of the store last succeeded that was taken on this machine.
    pub(crate) fn last_backup(&self) -> Option<SystemTime> {
        backup::last_success(&self.inner.dir)
    }

    /// What the store takes of its disk, asked of the file system; of a server's files nothing is known.
    pub fn sizes(&self) -> StoreSizes {
        let files = match &self.inner.engine {
            Engine::Sqlite(embedded) => Some(embedded.sizes()),
            Engine::Maria(_) => None,
        };
        let disk = rustix::fs::statvfs(&self.inner.dir);
        let disk_free_bytes = disk.map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        StoreSizes { files, disk_free_bytes }
    }
}

/// Sizes of the store's files, and of the room that is left for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSizes {
    /// The files of the database; `None` = they are a server's.
    pub files: Option<FileSizes>,
    /// Free on the disk of the data directory, for the user that runs the service.
    pub disk_free_bytes: u64,
}

/// Sizes of the files of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSizes {
    /// The database, without the log.
    pub database_bytes: u64,
    /// The write-ahead log.
    pub log_bytes: u64,
}

/// Metrics of a replica, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaMetrics {
    /// Host and port.
    pub name: String,
    /// Whether reads are sent there now.
    pub is_used: bool,
    /// For how long it has not had what this node knows of.
    pub lag: Duration,
    /// Reads that it has answered.
    pub reads: u64,
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
    /// Time in those commits and in those that failed, in microseconds.
    pub commit_micros: u64,
    /// Writes waiting now.
    pub waiting_writes: u64,
    /// Read transactions.
    pub reads: u64,
    /// Read transactions waiting now.
    pub waiting_reads: u64,
    /// Copies of the log into the database.
    pub checkpoints: u64,
    /// Times that everything paused so that the log could begin anew.
    pub log_cuts: u64,
    /// Transactions that were run again: they met another one, or lost their connection before the commit.
    pub retries: u64,
    /// Whether this node does what one does for all of them.
    pub keeps_house: bool,
    /// Looks for what other nodes have written.
    pub polls: u64,
    /// Requests that had to wait for such a look.
    pub waits: u64,
}

/// What both engines count.
#[derive(Debug, Default)]
struct Counted {
    commits: AtomicU64,
    committed_jobs: AtomicU64,
    failed_jobs: AtomicU64,
    failed_commits: AtomicU64,
    commit_micros: AtomicU64,
    retries: AtomicU64,
    keeps_house: AtomicBool,
}

impl Counted {
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

/// Waits for what needs no event loop.
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
