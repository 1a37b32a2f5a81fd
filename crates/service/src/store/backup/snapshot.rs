//! A copy of the embedded store as of one moment.
//!
//! **As its files lie.** Read through SQLite, page by page, a store of half a gigabyte keeps a read transaction open for
//! seconds, in which the write-ahead log cannot begin anew; copied as bytes it takes a fraction of that. The database is
//! copied first and the log after it, both under a read transaction. Meanwhile the server may put pages of the log into
//! the database, and the copy of the database may have half of such a page. But these pages are all in the log, which is
//! copied later: opening the copy takes them from there, as after a crash. What is appended while the log is copied is
//! in the copy up to the last whole commit, by the checksums of the log.
//!
//! **The log must not begin anew in between**: its pages would be lost for the copy. A transaction that reads from the
//! log keeps it from that. One that began when all of the log was in the database does not, but then it keeps the
//! database as it is (<https://sqlite.org/walformat.html>, "WAL locks": `WAL_READ_LOCK(0)`), and that alone is the
//! copy. The head of the log, which is another one after each beginning, says which of both it was.

use crate::store::sqlite::schema_version;
use crate::store::{StoreError, private};
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes copied at a time, after which progress is reported.
const CHUNK: u64 = 4 << 20;
/// How long to wait for a lock that another process holds for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The head of a log, with two numbers that are others each time it begins anew.
type Head = [u8; 32];

/// Copies the store in `from` to a new file `to`, and perhaps a log beside it, for [`settle`]; `watch` gets the bytes
/// done and in all.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    mut watch: impl FnMut(u64, u64),
) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::of_file(&error);
    // Closed after the connection, which is why they come before it: to close one that this process has opened gives
    // up the locks that SQLite has on the same file (<https://sqlite.org/howtocorrupt.html>, "Posix advisory locks").
    let database = File::open(from).map_err(failed)?;
    let log: Option<File>;
    let source = open(from)?;
    if schema_version(&source)? == 0 {
        return Err(StoreError::Foreign(format!("{} is an empty file", from.display())));
    }
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    log = match File::open(log_of(from)) {
        Ok(log) => Some(log),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let before = head(log.as_ref()).map_err(failed)?;
    copy_bytes(&database, to, &mut watch).map_err(failed)?;
    if let Some(log) = &log {
        let copy = log_of(to);
        copy_bytes(log, &copy, |_, _| {}).map_err(failed)?;
        if head(Some(log)).map_err(failed)? != before {
            std::fs::remove_file(&copy).map_err(failed)?;
        }
    }
    source.execute_batch("COMMIT")?;
    Ok(())
}

/// Makes one file of a copy and the log beside it.
pub(super) fn settle(copy: &Path) -> Result<(), StoreError> {
    let conn = open(copy)?;
    // Never synced: with luck a copy that is removed soon is not written to the disk at all, and the server's own syncs
    // do not wait for it.
    conn.execute_batch("PRAGMA synchronous=OFF")?;
    let busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy != 0 {
        return Err(StoreError::Busy);
    }
    Ok(())
}

/// The write-ahead log of a database.
fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Nothing of a log that has not begun.
fn head(log: Option<&File>) -> io::Result<Option<Head>> {
    let Some(log) = log else { return Ok(None) };
    let mut head = Head::default();
    match log.read_exact_at(&mut head, 0) {
        Ok(()) => Ok(Some(head)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// All bytes of a file that may grow meanwhile; as the kernel copies them, without a way through this program.
fn copy_bytes(from: &File, to: &Path, mut watch: impl FnMut(u64, u64)) -> io::Result<()> {
    let mut target = private::open(to)?;
    // Read once, they are not to push out what the server reads often. Advice may be refused.
    let _ = fadvise(from, 0, None, Advice::NoReuse);
    let mut done = 0;
    loop {
        let copied = io::copy(&mut from.take(CHUNK), &mut target)?;
        if copied == 0 {
            return Ok(());
        }
        done += copied;
        watch(done, from.metadata()?.len().max(done));
    }
}

/// How much of a copy is checked.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Check {
    /// All pages and rows.
    Rows,
    /// And that indexes agree with rows, which takes several times as long.
    Indexes,
}

/// Reads every page of a copy that nobody else uses; answers its schema version.
pub(super) fn check(file: &Path, how: Check) -> Result<usize, StoreError> {
    let conn = open(file)?;
    // Read where it lies: it would be read many times over through a small cache.
    conn.execute_batch("PRAGMA mmap_size=1099511627776")?;
    let version = schema_version(&conn)?;
    let query = match how {
        Check::Rows => "PRAGMA quick_check(1)",
        Check::Indexes => "PRAGMA integrity_check(1)",
    };
    let found: String = conn.query_row(query, [], |row| row.get(0))?;
    if found != "ok" {
        return Err(StoreError::Corrupt(found.replace('\n', " ")));
    }
    Ok(version)
}

fn open(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.execute_batch("PRAGMA trusted_schema=OFF")?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{SCHEMA_VERSION, run_to};

    /// A store of 12 MB in write-ahead mode whose log nobody copies: the first and the last row belong together.
    fn store(file: &Path) -> Connection {
        let mut conn = Connection::open(file).unwrap();
        run_to(&mut conn, SCHEMA_VERSION).unwrap();
        conn.execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF;
             CREATE TABLE pairs (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, filler BLOB);
             WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 3000)
             INSERT INTO pairs SELECT id, 0, zeroblob(4000) FROM ids;
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
        conn
    }

    /// Changes both rows, and then another one, each time with the log begun anew if nobody is in the way.
    fn change(conn: &Connection) {
        conn.execute_batch(
            "UPDATE pairs SET value = value + 1 WHERE id IN (1, 3000); PRAGMA wal_checkpoint;
             UPDATE pairs SET value = value + 1 WHERE id = 1500; PRAGMA wal_checkpoint;",
        )
        .unwrap();
    }

    /// First and last value in a copy.
    fn pair(copy: &Path) -> (i64, i64) {
        settle(copy).unwrap();
        assert!(!log_of(copy).exists());
        check(copy, Check::Indexes).unwrap();
        let value = "SELECT (SELECT value FROM pairs WHERE id = 1), (SELECT value FROM pairs WHERE id = 3000)";
        let conn = Connection::open(copy).unwrap();
        conn.query_row(value, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    #[test]
    fn writes_and_checkpoints_during_a_copy_leave_it_as_of_one_moment() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from.db"), dir.path().join("to.db"));
        let conn = store(&from);
        // In the log when the copy begins.
        conn.execute_batch("UPDATE pairs SET value = value + 1 WHERE id IN (1, 3000)").unwrap();
        let mut chunks = 0;
        copy(&from, &to, |_, _| {
            change(&conn);
            chunks += 1;
        })
        .unwrap();
        assert!(chunks >= 3, "{chunks}");
        assert_eq!(pair(&to), (1 + chunks, 1 + chunks));
    }

    #[test]
    fn a_log_that_begins_anew_during_a_copy_is_not_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from.db"), dir.path().join("to.db"));
        let conn = store(&from);
        change(&conn);
        conn.execute_batch("PRAGMA wal_checkpoint").unwrap();
        copy(&from, &to, |_, _| change(&conn)).unwrap();
        assert!(!log_of(&to).exists());
        assert_eq!(pair(&to), (1, 1));
    }

    #[test]
    fn a_store_without_a_log_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from.db"), dir.path().join("to.db"));
        store(&from).execute_batch("PRAGMA journal_mode=DELETE").unwrap();
        copy(&from, &to, |_, _| {}).unwrap();
        assert_eq!(pair(&to), (0, 0));
    }
}
