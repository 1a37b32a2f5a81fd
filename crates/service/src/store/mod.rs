//! The embedded store: SQLite in write-ahead mode with `synchronous=FULL`, many readers and **one
//! writer thread with group commit**.
//!
//! Why one writer: SQLite has one write lock anyway; asking for it from many connections turns into
//! `SQLITE_BUSY` under load, and every commit would pay for a sync of its own. One thread that
//! drains the waiting jobs, runs each so that it can be undone alone and commits once pays one sync
//! for all of them.
//!
//! What is promised: a write that was answered `Ok` is in a commit that was synced before. A job
//! that fails rolls back alone. A commit that fails answers every job in it with an error.
//!
//! The systems' `store.rs` files are the only users; no SQL type leaves them (a lint sees to that).
#![allow(clippy::disallowed_types, reason = "this is the store: SQL types live here")]

mod effects;
mod error;
pub(crate) mod handover;
mod lock;
mod log;
mod migrations;
mod pool;
mod private;
mod reader;
mod reserve;
#[cfg(test)]
mod tests;
mod writer;

pub use effects::Effects;
pub use error::StoreError;
pub use handover::Handover;
pub use lock::{DirLock, LockError};
#[cfg(test)]
pub(crate) use migrations::test_schema;
pub(crate) use pool::panic_text;
pub use pool::{Pool, PoolError};
pub use writer::Tx;
pub(crate) use writer::follow;

use crate::config::DatabaseSettings;
use effects::Memory;
use log::{Checkpoints, Log};
use reader::{Bounds, READ_TIME, Reader, Waits};
use reserve::Reserve;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use writer::Company;

/// How long the writer waits for a lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Name of the database file in the data directory.
pub const FILE: &str = "madang.db";

/// Handle on an open store; cheap to clone. The last one closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    // Order matters: readers close before the writer, whose connection then takes the log back in.
    readers: Pool<Reader>,
    _checkpoints: Checkpoints,
    writer: writer::Writer,
    // Last: it takes the room that the closed files leave.
    _reserve: Reserve,
    log: Arc<Log>,
    memory: Arc<Memory>,
    path: PathBuf,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens or creates the store in `dir` and brings its schema up to date.
    ///
    /// The caller holds the directory's [`DirLock`].
    ///
    /// # Errors
    /// When the file cannot be opened, is damaged, is not a store of Madang, or is newer than this program.
    pub fn open(dir: &Path, settings: &DatabaseSettings) -> Result<Store, StoreError> {
        match Self::open_once(dir, settings) {
            Err(StoreError::Full(reason)) if Reserve::release(dir) => {
                tracing::warn!(%reason, "no space left: opening with the room kept in reserve");
                Self::open_once(dir, settings)
            }
            other => other,
        }
    }

    fn open_once(dir: &Path, settings: &DatabaseSettings) -> Result<Store, StoreError> {
        let path = dir.join(FILE);
        refuse_foreign(&path)?;
        // SQLite gives its other files the mode of this one.
        private::open(&path).map_err(|error| StoreError::of_file(&error))?;
        ["-wal", "-shm"].iter().for_each(|end| private::close_to_others(&beside(&path, end)));
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = Connection::open_with_flags(&path, flags)?;
        configure(&conn)?;
        quick_check(&conn, &path)?;
        migrations::run(&mut conn)?;
        let log = Log::new(settings.log_limit);
        let _checkpoints = Checkpoints::start(&path, &mut conn, &log)?;
        let (group, queue) = (settings.commit_group, settings.queue);
        let memory = Arc::new(Memory::default());
        let writer =
            writer::Writer::start(conn, group, queue, Arc::clone(&log), Arc::clone(&memory))
                .map_err(|e| StoreError::Other(format!("cannot start the writer thread: {e}")))?;
        let count = settings.max_connections.unwrap_or_else(fitted_readers);
        let readers = (0..count)
            .map(|_| Reader::open(&path, Arc::clone(&log)))
            .collect::<Result<Vec<_>, _>>()?;
        let readers = Pool::start("store-read", readers, queue)
            .map_err(|e| StoreError::Other(format!("cannot start a reader thread: {e}")))?;
        let _reserve = Reserve::keep(dir);
        let inner = Inner { readers, _checkpoints, writer, _reserve, log, memory, path };
        Ok(Store { inner: Arc::new(inner) })
    }

    /// Runs one whole read transaction on a reader thread. It ends when it takes longer than [`READ_TIME`], or
    /// when the future is dropped.
    pub(crate) async fn read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    {
        self.read_within(Some(READ_TIME), job).await
    }

    async fn read_within<T, F>(&self, time: Option<Duration>, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    {
        let left = Arc::default();
        let _waits = Waits(Arc::clone(&left));
        let answer = self.inner.readers.run(move |reader| reader.run(Bounds { time, left }, job));
        answer.await.unwrap_or_else(|error| Err(error.into()))
    }

    /// [`read`](Self::read) for a thread without an event loop, as long as it takes: opening the application.
    pub(crate) fn read_blocking<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    {
        wait(self.read_within(None, job))
    }

    /// Told when something was deleted of which rows are left: the housekeeper waits for it.
    pub(crate) fn deletions(&self) -> Arc<Notify> {
        Arc::clone(&self.inner.memory.deletions)
    }

    /// [`write`](Self::write) for a thread without an event loop: opening the application.
    pub(crate) fn write_blocking<T, E, F>(&self, job: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        wait(self.write(job))
    }

    /// Runs one whole write transaction on the writer thread and answers once it is durable. A job may be run
    /// again when its transaction could not be committed; here it never is.
    ///
    /// Dropping the future does not undo it: a job that was taken runs and commits regardless.
    pub(crate) async fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.inner.writer.run(Company::Shared, job).await
    }

    /// [`write`](Self::write) that calls `committed` with the outcome: on the writer's thread, after the commit and
    /// before the answers to all who may have seen it. It must be short. It is for what only this process must
    /// know; the rest belongs into [`Effects`].
    pub(crate) async fn write_then<T, E, F>(
        &self,
        job: F,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.inner.writer.run_then(Company::Shared, job, committed).await
    }

    /// [`write_then`](Self::write_then) with a commit of its own, as if there were no group commit.
    pub(crate) async fn write_alone<T, E, F>(
        &self,
        job: F,
        committed: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.inner.writer.run_then(Company::Alone, job, committed).await
    }

    /// [`write`](Self::write) for whoever does not wait: `settle` is told on the writer's thread what
    /// became of it, after the commit and its effects. It must be short: the next group waits for it.
    ///
    /// # Errors
    /// When the job was not taken; `settle` is not called then.
    pub(crate) fn submit<T, E, F, S>(&self, job: F, settle: S) -> Result<(), StoreError>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        S: FnOnce(Result<T, E>) + Send + 'static,
    {
        self.inner.writer.submit(Company::Shared, job, settle)
    }

    /// Why writes fail now: what the last group of writes, or the last try since then, met. Nothing while
    /// they succeed.
    pub fn write_failure(&self) -> Option<StoreError> {
        self.inner.writer.stats().failure()
    }

    /// What the store has done so far.
    pub fn figures(&self) -> StoreFigures {
        let stats = self.inner.writer.stats();
        let (checkpoints, log_cuts) = self.inner.log.figures();
        StoreFigures {
            commits: stats.commits.load(Ordering::Relaxed),
            committed_jobs: stats.committed_jobs.load(Ordering::Relaxed),
            failed_jobs: stats.failed_jobs.load(Ordering::Relaxed),
            failed_commits: stats.failed_commits.load(Ordering::Relaxed),
            commit_micros: stats.commit_micros.load(Ordering::Relaxed),
            waiting_writes: self.inner.writer.waiting() as u64,
            reads: self.inner.readers.jobs(),
            waiting_reads: self.inner.readers.waiting() as u64,
            checkpoints,
            log_cuts,
        }
    }

    /// What the store takes of its disk, asked of the file system.
    pub fn sizes(&self) -> StoreSizes {
        let path = &self.inner.path;
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let disk = rustix::fs::statvfs(path.parent().unwrap_or(path));
        StoreSizes {
            database_bytes: length(path),
            log_bytes: length(&beside(path, "-wal")),
            disk_free_bytes: disk.map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
        }
    }
}

/// Sizes of the store's files, and of the room that is left for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSizes {
    /// The database, without the log.
    pub database_bytes: u64,
    /// The write-ahead log.
    pub log_bytes: u64,
    /// Free on their disk, for who runs the service.
    pub disk_free_bytes: u64,
}

/// Figures of the store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
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

/// One reader a core, at least two, so that one long read never blocks all others.
fn fitted_readers() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().max(2))
}

/// The path of a file that SQLite keeps beside the database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Looks at the file before anything may write to it: choosing the journal mode already does.
///
/// The look is `immutable`: no lock, no log, no index beside the file. What is still in a log is not
/// seen, and a file that cannot be read this way is left to the real opening, which says why.
fn refuse_foreign(path: &Path) -> Result<(), StoreError> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let looked = Connection::open_with_flags(uri, flags).map_err(StoreError::from);
    match looked.and_then(|conn| migrations::version(&conn)) {
        Err(foreign @ StoreError::Foreign(_)) => Err(foreign),
        _ => Ok(()),
    }
}

/// Pragmas of the writing connection. `busy_timeout` comes first: setting the journal mode may wait.
fn configure(conn: &Connection) -> Result<(), StoreError> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    let mode: String = conn.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Other(format!(
            "the file system does not support write-ahead logging (journal mode stayed {mode})"
        )));
    }
    conn.execute_batch(
        "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cache_size=-4096; PRAGMA trusted_schema=OFF;",
    )?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(())
}

/// A damaged file must stop the start, not a request at midnight. Reading every page of a large
/// store would take longer than a start may, so above 16 MiB only the pages that opening touches are read.
fn quick_check(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    const FULL_CHECK_UP_TO: u64 = 16 << 20;
    if std::fs::metadata(path).map_or(0, |m| m.len()) > FULL_CHECK_UP_TO {
        return Ok(());
    }
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(StoreError::Corrupt(found.replace('\n', " "))) }
}
