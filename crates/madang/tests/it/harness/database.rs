//! The database file, seen and changed behind the program's back.
#![allow(clippy::disallowed_types, reason = "a test looks at the file the program wrote")]

use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// The database file in a data directory.
pub fn file(dir: &Path) -> std::path::PathBuf {
    dir.join("madang.db")
}

/// One number from a read-only query; nothing while there is no such table yet.
pub fn number(dir: &Path, sql: &str) -> Option<i64> {
    let conn = Connection::open_with_flags(file(dir), OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    conn.query_row(sql, [], |row| row.get(0)).ok()
}

/// One text from a read-only query.
pub fn text(dir: &Path, sql: &str) -> String {
    let conn = Connection::open_with_flags(file(dir), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// What SQLite's own full check says: `ok`, or the first damage, be it that it cannot even begin.
pub fn integrity(dir: &Path) -> String {
    let conn = Connection::open(file(dir)).unwrap();
    conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .unwrap_or_else(|error| error.to_string())
}

/// Runs SQL on the file, which is made when missing.
pub fn execute(dir: &Path, sql: &str) {
    let conn = Connection::open(file(dir)).unwrap();
    conn.execute_batch(sql).unwrap();
}

/// Keeps everybody else from writing to the file until it is dropped.
#[must_use]
pub fn lock(dir: &Path) -> Connection {
    let conn = Connection::open(file(dir)).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}
