//! Schema versions, embedded. A migration never changes once released; a new one is added below it.
#![allow(clippy::disallowed_types, reason = "runs the schema's SQL")]

use super::StoreError;
use rusqlite::{Connection, TransactionBehavior};

/// Each file brings the schema from version `index` to `index + 1`.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tracks.sql"),
    include_str!("migrations/0002_accounts.sql"),
    include_str!("migrations/0003_schedules.sql"),
    include_str!("migrations/0004_track_records.sql"),
    include_str!("migrations/0005_idempotency.sql"),
];

/// `MADG` in ASCII: marks the file as ours (SQLite's `application_id`).
const APPLICATION_ID: i64 = 0x4d41_4447;

/// The schema version of a file that is ours or still empty, which is version 0.
///
/// # Errors
/// [`StoreError::Foreign`] when it is another program's or newer than this one.
pub(super) fn version(conn: &Connection) -> Result<usize, StoreError> {
    let id: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if id != APPLICATION_ID && (id != 0 || tables > 0) {
        return Err(StoreError::Foreign("the database file belongs to another program".to_owned()));
    }
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > MIGRATIONS.len() {
        return Err(StoreError::Foreign(format!(
            "the database has schema version {version}, this program knows up to {}; use a newer program",
            MIGRATIONS.len()
        )));
    }
    Ok(version)
}

/// Brings the schema up to date, each step in a transaction of its own.
pub(super) fn run(conn: &mut Connection) -> Result<(), StoreError> {
    let version = version(conn)?;
    for (done, sql) in MIGRATIONS.iter().enumerate().skip(version) {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(sql)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", i64::try_from(done + 1).unwrap_or(i64::MAX))?;
        tx.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_or_foreign_file_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn).unwrap();
        run(&mut conn).unwrap();
        conn.pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(run(&mut conn), Err(StoreError::Foreign(text)) if text.contains("newer")));
        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE notes (body TEXT)").unwrap();
        assert!(
            matches!(run(&mut foreign), Err(StoreError::Foreign(text)) if text.contains("another"))
        );
    }
}
