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
#![allow(clippy::disallowed_types, reason = "this is the store: SQL types live here")]

#[cfg(test)]
pub(super) mod fixtures;
mod log;
mod migrations;
mod reader;
mod reserve;
#[cfg(test)]
mod tests;
mod writer;

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
use reader::{Bounds, Reader};
use reserve::Reserve;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long the writer waits for a lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Name of the database file in the data directory.
pub const FILE: &str = "madang.db";

pub(super) struct Embedded {
    // Order matters: readers close before the writer, whose connection then takes the log back in.
    readers: Pool<Reader>,
    checkpoints: Checkpoints,
    pub(super) writer: Writer,
    // Last: it takes the room that the closed files leave.
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

    /// Runs one read transaction on a reader thread, for so long at most.
    pub(super) async fn read<T, F>(&self, time: Option<Duration>, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Conn<'_>) -> Result<T> + Send + 'static,
    {
        // Dropped with this future.
        let here = Arc::new(());
        let waits = Arc::downgrade(&here);
        let answer = self.readers.run(move |reader| reader.run(Bounds { time, waits }, job));
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
            ..self.writer.stats.counted.metrics()
        }
    }

    /// As [`Checkpoints::cut`].
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

/// Adds to the refusal of a newer store where the copy is that an upgrade kept.
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
fn refuse_foreign(path: &Path) -> Result<()> {
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

/// Keeps so many statements, and the plan of each as it is (sqlite.org/queryplanner-ng.html, "query planner stability
/// guarantee"). Otherwise SQLite looks at the values of `LIMIT ?` and others before it plans, so it prepares such
/// statements anew whenever they are bound: 18 % of the processor time of an uncached listing.
fn keep_plans(conn: &Connection, statements: usize) -> Result<()> {
    conn.set_prepared_statement_cache_capacity(statements);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// A damaged file must stop the start, not a request at midnight. Reading every page of a large
/// store would take longer than a start may, so above 16 MiB only the pages that opening touches are read.
fn quick_check(conn: &Connection, path: &Path) -> Result<()> {
    const FULL_CHECK_UP_TO: u64 = 16 << 20;
    if std::fs::metadata(path).map_or(0, |m| m.len()) > FULL_CHECK_UP_TO {
        return Ok(());
    }
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(StoreError::Corrupt(found.replace('\n', " "))) }
}
