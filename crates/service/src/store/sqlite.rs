//! The embedded store: SQLite in write-ahead mode with `synchronous=FULL`, many readers and **one writer thread with
//! group commit**.
//!
//! One writer, because SQLite has one write lock: requests for it from many connections become `SQLITE_BUSY` under
//! load, and every commit would pay for its own sync. One thread that drains the waiting jobs, runs each so that it can
//! be undone alone and commits once pays one sync for all of them.
//!
//! A write that returned `Ok` is in a commit that was synced before. A failed job is rolled back alone. A failed commit
//! fails every job in it.

#[cfg(test)]
pub(super) mod fixtures;
mod log;
mod migrations;
mod reader;
mod reserve;
#[cfg(test)]
mod tests;
mod writer;

pub(super) use log::checkpoint;
#[cfg(test)]
pub(crate) use migrations::test_schema;
pub(super) use migrations::{SCHEMA_VERSION, run_to, version as schema_version};
pub(super) use reader::READ_TIME;
pub(super) use writer::{Company, Writer};

use super::effects::{Effects, Memory};
use super::sql::Conn;
use super::{FileSizes, Pool, Result, StoreError, StoreMetrics, Tx, backup, handover, private};
use crate::config::DatabaseSettings;
use log::{Checkpoints, Log};
use reader::Reader;
use reserve::Reserve;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait of the writer for a lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Name of the database file in the data directory.
pub const FILE: &str = "madang.db";

pub(super) struct Embedded {
    // Order matters: readers close before the writer, whose connection then copies the log into the database.
    readers: Pool<Reader>,
    checkpoints: Checkpoints,
    pub(super) writer: Writer,
    // Last: it takes the space that the closed files leave.
    _reserve: Reserve,
    log: Arc<Log>,
    path: PathBuf,
}

impl Embedded {
    pub(super) fn open(
        dir: &Path,
        settings: &DatabaseSettings,
        memory: &Arc<Memory>,
    ) -> Result<Self> {
        match Self::open_once(dir, settings, memory) {
            Err(StoreError::Full(reason)) if Reserve::release(dir) => {
                tracing::warn!(%reason, "no space left: opening with the room kept in reserve");
                Self::open_once(dir, settings, memory)
            }
            other => other,
        }
    }

    fn open_once(dir: &Path, settings: &DatabaseSettings, memory: &Arc<Memory>) -> Result<Self> {
        let path = dir.join(FILE);
        refuse_foreign(&path).map_err(|error| way_back(error, dir))?;
        // SQLite gives its other files the mode of this one.
        let database = private::open(&path).map_err(|error| StoreError::of_file(&error))?;
        ["-wal", "-shm"].iter().for_each(|end| private::close_to_others(&beside(&path, end)));
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let log = Log::new(database, settings.log_limit);
        let mut conn = Connection::open_with_flags(&path, flags)?;
        configure(&conn)?;
        quick_check(&conn, &path)?;
        let version = schema_version(&conn)?;
        if (1..SCHEMA_VERSION).contains(&version) {
            backup::before_migration(&conn, dir, version)?;
        }
        migrations::run(&mut conn)?;
        let checkpoints = Checkpoints::start(&path, &mut conn, &log)?;
        let (group, queue) = (settings.commit_group, settings.queue);
        let writer = Writer::start(conn, group, queue, Arc::clone(&log), Arc::clone(memory))
            .map_err(|e| StoreError::Other(format!("cannot start the writer thread: {e}")))?;
        let count = settings.max_connections.unwrap_or_else(fitted_readers);
        let readers = (0..count)
            .map(|_| Reader::open(&path, Arc::clone(&log)))
            .collect::<Result<Vec<_>, _>>()?;
        let readers = Pool::start("store-read", readers, queue)
            .map_err(|e| StoreError::Other(format!("cannot start a reader thread: {e}")))?;
        let _reserve = Reserve::keep(dir);
        Ok(Self { readers, checkpoints, writer, _reserve, log, path })
    }

    /// Runs one read transaction on a reader thread, with a time limit.
    pub(super) async fn read<T, F>(&self, time: Option<Duration>, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Conn<'_>) -> Result<T> + Send + 'static,
    {
        // Dropped with this future.
        let here = Arc::new(());
        let waits = Arc::downgrade(&here);
        let answer = self.readers.run(move |reader| reader.run(time, waits, job));
        answer.await.unwrap_or_else(|error| Err(error.into()))
    }

    pub(super) fn metrics(&self) -> StoreMetrics {
        let (checkpoints, log_cuts) = self.log.metrics();
        StoreMetrics {
            keeps_house: true,
            waiting_writes: self.writer.waiting() as u64,
            reads: self.readers.jobs(),
            waiting_reads: self.readers.waiting() as u64,
            checkpoints,
            log_cuts,
            ..self.writer.stats.metrics()
        }
    }

    pub(super) fn checkpoint(&self) -> Result<bool> {
        self.checkpoints.cut()
    }

    pub(super) fn sizes(&self) -> FileSizes {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        FileSizes {
            database_bytes: length(&self.path),
            log_bytes: length(&beside(&self.path, "-wal")),
        }
    }
}

/// Adds the path of the copy that an upgrade kept to the refusal of a newer store.
fn way_back(error: StoreError, dir: &Path) -> StoreError {
    let copy = backup::copy_of_schema(dir, SCHEMA_VERSION);
    match error {
        StoreError::Foreign(text) if copy.exists() => StoreError::Foreign(format!(
            "{text}. {} is the store as it was before the upgrade: put it in the place of {FILE}, with no \
             {FILE}-wal and {FILE}-shm beside it, to go back, without what was written since",
            copy.display()
        )),
        other => other,
    }
}

/// One reader for each core, at least two, so that one long read never blocks all others.
fn fitted_readers() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().max(2))
}

/// The path of a file that SQLite keeps beside the database.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Refuses a file of another program before anything writes to it, as choosing the journal mode does.
///
/// It is opened as `immutable`: no lock, no log, no index beside the file. The content of a log is not seen. A file
/// that cannot be read this way is left to the real opening, which reports the reason.
fn refuse_foreign(path: &Path) -> Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let path: String = bytes.flat_map(|byte| ["%".to_owned(), crate::hex(&[*byte])]).collect();
    let uri = format!("file:{path}?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let looked = Connection::open_with_flags(uri, flags).map_err(StoreError::from);
    match looked.and_then(|conn| migrations::version(&conn)) {
        Err(foreign @ StoreError::Foreign(_)) => Err(foreign),
        _ => Ok(()),
    }
}

/// Configures the writing connection. `busy_timeout` comes first: setting the journal mode may wait.
fn configure(conn: &Connection) -> Result<()> {
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
    keep_plans(conn, 128)
}

/// Sets the number of prepared statements that are kept, and keeps their plans (sqlite.org/queryplanner-ng.html, "query
/// planner stability guarantee"). Otherwise SQLite plans by the values of `LIMIT ?` and others, so it prepares such
/// statements again whenever they are bound: 18 % of the processor time of an uncached listing.
fn keep_plans(conn: &Connection, statements: usize) -> Result<()> {
    conn.set_prepared_statement_cache_capacity(statements);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Refuses a damaged file at the start, not at a later request. Above 16 MiB reading every page would take too long,
/// and only the pages that opening touches are checked.
fn quick_check(conn: &Connection, path: &Path) -> Result<()> {
    const FULL_CHECK_UP_TO: u64 = 16 << 20;
    if std::fs::metadata(path).map_or(0, |m| m.len()) > FULL_CHECK_UP_TO {
        return Ok(());
    }
    check_pages(conn, "quick_check")
}

/// Runs `quick_check` over all pages and rows, or `integrity_check`, which compares indexes with rows as well and takes
/// several times as long.
pub(super) fn check_pages(conn: &Connection, check: &str) -> Result<()> {
    let found: String = conn.query_row(&format!("PRAGMA {check}(1)"), [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(StoreError::Corrupt(found.replace('\n', " "))) }
}
