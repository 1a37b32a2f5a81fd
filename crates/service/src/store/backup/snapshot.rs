//! A copy of the embedded store's file page by page, before a migration, and the check of any copy.

use super::pace::Pace;
use crate::store::sqlite::schema_version;
use crate::store::{Result, StoreError, private};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::{Duration, Instant};

/// Pages copied at a time: 4 MiB.
const PAGES: i32 = 1024;
/// How long to wait for a lock that another process holds for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Copies the store of a connection to a new file, in one read transaction: a backup of SQLite would otherwise begin again
/// after each write of others.
pub(super) fn copy_pages(source: &Connection, to: &Path) -> Result<()> {
    private::open(to).map_err(|error| StoreError::of_file(&error))?;
    let mut target = Connection::open(to)?;
    // Whoever is interrupted begins again with a new file; the caller syncs a whole one.
    target.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")?;
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let copied = (|| {
        let mut went_on = Instant::now();
        let backup = Backup::new(source, &mut target)?;
        loop {
            match backup.step(PAGES)? {
                StepResult::Done => return Ok(()),
                StepResult::More => went_on = Instant::now(),
                // A lock that lasts a moment.
                _ if went_on.elapsed() < BUSY_TIMEOUT => std::thread::sleep(PAUSE),
                _ => return Err(StoreError::Busy),
            }
        }
    })();
    source.execute_batch("COMMIT")?;
    copied
}

/// Steps of a check between two looks at its pace.
const STEPS: i32 = 1000;

#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Check {
    /// All pages and rows.
    Rows,
    /// And that indexes agree with rows, which takes several times as long.
    Indexes,
}

/// Reads every page of a copy that nobody else uses, at a pace if one is given; answers its schema version.
pub(super) fn check(file: &Path, how: Check, pace: Option<Pace>) -> Result<usize> {
    let mut conn = open(file)?;
    if let Some(mut pace) = pace {
        let rest = move || {
            pace.step();
            false
        };
        conn.progress_handler(STEPS, Some(rest))?;
    }
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

pub(super) fn open(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.execute_batch("PRAGMA trusted_schema=OFF")?;
    Ok(conn)
}
