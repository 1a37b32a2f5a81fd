//! Copies of a store that are kept before an upgrade of its schema.

use super::snapshot::{check, copy_pages};
use super::{BackupError, Taken, Work};
use crate::accounts::KEY_FILE;
use crate::store::copy::{self, CopyError};
use crate::store::maria::Session;
use crate::store::{FILE, Result, StoreError, private};
use rusqlite::Connection;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;

/// Path of the copy that an upgrade keeps of a store with this schema version.
pub(crate) fn copy_of_schema(dir: &Path, version: usize) -> PathBuf {
    dir.join(format!("{FILE}.schema-{version}"))
}

/// Path of the backup that an upgrade keeps of a database on a server.
pub(crate) fn backup_of_schema(dir: &Path, version: usize) -> PathBuf {
    dir.join(format!("mariadb.schema-{version}.tar.zst"))
}

/// Keeps a copy of the store before its schema changes, unless one exists. The caller has the only connection.
pub(crate) fn before_migration(conn: &Connection, dir: &Path, version: usize) -> Result<()> {
    let copy = copy_of_schema(dir, version);
    if copy.exists() {
        return Ok(());
    }
    tracing::info!(copy = %copy.display(), "keeping a copy of the store before its schema changes");
    keep(&copy, |part| {
        copy_pages(conn, part)?;
        check(part, "quick_check", None)?;
        Ok(())
    })
}

/// Keeps a backup of a database on a server before its schema changes; `as_file` is the version of the embedded
/// schema with the same tables. It replaces an earlier one, made before the database was restored.
pub(crate) fn before_migration_of_server(
    session: Session,
    dir: &Path,
    version: usize,
    as_file: usize,
) -> Result<()> {
    let backup = backup_of_schema(dir, version);
    tracing::info!(
        copy = %backup.display(),
        "keeping a copy of the store before its schema changes"
    );
    keep(&backup, |part| {
        let work = Work::begin(dir)?;
        let created = OffsetDateTime::now_utc();
        let has_key = work.keep_key(&dir.join(KEY_FILE))?;
        copy::before_migration(session, &work.dir, as_file)?;
        let taken: Taken = work.taken(created, has_key, "mariadb")?;
        let file = private::open(part).map_err(BackupError::at(part))?;
        taken.pack(BufWriter::with_capacity(1 << 20, file), |_| {})?;
        Ok(())
    })
}

/// Makes a file that gets its name when it is complete.
fn keep(copy: &Path, make: impl FnOnce(&Path) -> Result<(), BackupError>) -> Result<()> {
    let part = copy.with_extension("part");
    let _ = fs::remove_file(&part);
    let kept =
        make(&part).and_then(|()| private::place(&part, copy).map_err(BackupError::at(copy)));
    kept.map_err(|error| {
        let _ = fs::remove_file(&part);
        let why = format!(
            "the schema was not changed, because no copy of the store could be kept in the data directory: {error}; \
             free some room, or go on with the version of the program that ran before"
        );
        match error {
            BackupError::Store(error @ StoreError::Corrupt(_)) => error,
            BackupError::Store(StoreError::Full(_))
            | BackupError::Copy(CopyError::Store(StoreError::Full(_))) => StoreError::Full(why),
            BackupError::Io { reason, .. } if matches!(StoreError::of_file(&reason), StoreError::Full(_)) => {
                StoreError::Full(why)
            }
            _ => StoreError::Other(why),
        }
    })
}
