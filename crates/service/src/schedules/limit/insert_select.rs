//! `insert-select`, as documented: `INSERT … SELECT … WHERE (SELECT count(*) …) < limit`, then the last id.
//!
//! One statement is not one moment: on PostgreSQL it does not see rows that others have not yet
//! committed, and overruns; on MariaDB's default isolation it takes gap locks, and most parallel calls
//! fail. It is exact here, because no other write runs beside it.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::store::{StoreError, Tx};
use rusqlite::named_params;

/// Inserts if the statement's own count is below `most`.
pub(super) fn insert(
    tx: &Tx<'_>,
    new: &NewSchedule,
    most: u32,
) -> Result<Option<ScheduleId>, StoreError> {
    let mut insert = tx.prepare_cached(
        "INSERT INTO schedules (user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms)
         SELECT :user, :location, :title, :start, :end, :now
         WHERE (SELECT count(*) FROM schedules WHERE user_id = :user) < :most",
    )?;
    let rows = insert.execute(named_params! {
        ":user": new.user, ":location": new.location, ":title": new.title,
        ":start": new.start_at_ms, ":end": new.end_at_ms, ":now": new.created_at_ms,
        ":most": most,
    })?;
    if rows == 0 {
        return Ok(None);
    }
    let id = tx.last_insert_rowid();
    store::count_up(tx, new.user, 1)?;
    Ok(Some(id))
}
