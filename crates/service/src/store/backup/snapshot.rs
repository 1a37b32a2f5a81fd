//! A page-by-page copy of the embedded store before a migration, and the check of any copy.

use super::pace::Pace;
use crate::store::sqlite::{check_pages, schema_version};
use crate::store::{Result, StoreError, private};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::{Duration, Instant};

/// Pages copied at a time: 4 MiB.
const PAGES: i32 = 1024;
/// Longest wait for a lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Copies the store of a connection to a new file, in one read transaction: otherwise SQLite's backup would restart
/// after each write of others.
pub(super) fn copy_pages(source: &Connection, to: &Path) -> Result<()> {
    private::open(to).map_err(|error| StoreError::of_file(&error))?;
    let mut target = Connection::open(to)?;
    // An interrupted copy begins again with a new file; the caller syncs a complete one.
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

/// Steps of a check between two pauses.
const STEPS: i32 = 1000;

/// Runs a check (see [`check_pages`]) on a copy that is not in use, with pauses if given a pace. Returns its schema
/// version.
pub(super) fn check(file: &Path, check: &str, pace: Option<Pace>) -> Result<usize> {
    let mut conn = open(file)?;
    if let Some(mut pace) = pace {
        let rest = move || {
            pace.step();
            false
        };
        conn.progress_handler(STEPS, Some(rest))?;
    }
    // Mapped, because a small cache would read it many times over.
    conn.execute_batch("PRAGMA mmap_size=1099511627776")?;
    let version = schema_version(&conn)?;
    check_pages(&conn, check)?;
    Ok(version)
}

pub(super) fn open(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.execute_batch("PRAGMA trusted_schema=OFF")?;
    Ok(conn)
}
