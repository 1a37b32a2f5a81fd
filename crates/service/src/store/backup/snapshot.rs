//! A copy of the embedded store's file as of one moment.

use crate::store::sqlite::schema_version;
use crate::store::{StoreError, private};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::{Duration, Instant};

/// Pages copied at a time: 4 MiB, after which progress is reported.
const PAGES: i32 = 1024;
/// How long to wait for a lock that another process holds for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Copies the store in `from` to a new file `to`; `watch` gets the bytes done and in all.
pub(super) fn copy(from: &Path, to: &Path, watch: impl FnMut(u64, u64)) -> Result<(), StoreError> {
    let source = open(from)?;
    if schema_version(&source)? == 0 {
        return Err(StoreError::Foreign(format!("{} is an empty file", from.display())));
    }
    copy_pages(&source, to, watch)
}

/// One read transaction for all steps: a backup of SQLite would otherwise begin again after each write of others.
pub(super) fn copy_pages(
    source: &Connection,
    to: &Path,
    mut watch: impl FnMut(u64, u64),
) -> Result<(), StoreError> {
    private::open(to).map_err(|error| StoreError::of_file(&error))?;
    let mut target = Connection::open(to)?;
    // Whoever is interrupted begins again with a new file. Never synced: with luck a copy that is removed soon is not
    // written to the disk at all, and the server's own syncs do not wait for it.
    target.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")?;
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let page: u64 = source.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let copied = (|| {
        let mut went_on = Instant::now();
        let backup = Backup::new(source, &mut target)?;
        loop {
            let step = backup.step(PAGES)?;
            let progress = backup.progress();
            let [all, left] =
                [progress.pagecount, progress.remaining].map(|n| u64::try_from(n).unwrap_or(0));
            watch(all.saturating_sub(left) * page, all * page);
            match step {
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
