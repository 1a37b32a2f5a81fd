//! An append-only log of opaque records, each a row of one table.
//!
//! The store does the rest: a record is durable with the commit of its transaction, which the writer shares with
//! all jobs that wait, and recovery removes a transaction that was cut off. Only the names in the statements and in
//! the message refer to likes.

use crate::store::{Conn, Result, StoreError, Tx, Value, columns, params};
use std::fmt::Display;

/// Position of a record: larger than those of all earlier records in the log.
pub(super) type Position = i64;

pub(super) fn append(tx: &Tx<'_>, record: &[u8]) -> Result<Position> {
    tx.insert("INSERT INTO like_log (likes) VALUES (?)", &[Value::Bytes(record)])
}

/// Passes all records to `read`, the oldest first, and returns the position of the last one.
pub(super) fn replay<E: Display>(
    conn: &Conn<'_>,
    mut read: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Option<Position>> {
    let mut last = None;
    conn.rows("SELECT seq, likes FROM like_log ORDER BY seq", &[], |row| {
        let (seq, record): (Position, Vec<u8>) = columns(row)?;
        last = Some(seq);
        read(&record).map_err(|error| {
            StoreError::Corrupt(format!("row {seq} of the log of likes cannot be read: {error}"))
        })
    })?;
    Ok(last)
}

/// Deletes the records up to this one.
pub(super) fn truncate(tx: &Tx<'_>, last: Position) -> Result<()> {
    tx.run("DELETE FROM like_log WHERE seq <= ?", params![last])?;
    Ok(())
}
