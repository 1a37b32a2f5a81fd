//! `insert-select`, as documented: `INSERT … SELECT … WHERE (SELECT count(*) …) < limit`, then the last id.
//!
//! One statement is not one moment: on PostgreSQL it does not see rows that others have not yet
//! committed, and overruns; on MariaDB's default isolation it takes gap locks, and most parallel calls
//! fail. It is exact here, because no other write runs beside it.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::store::{Result, Tx, params};

/// Inserts if the statement's own count is below `most`.
pub(super) fn insert(tx: &Tx<'_>, new: &NewSchedule, most: u32) -> Result<Option<ScheduleId>> {
    let insert =
        "INSERT INTO schedules (user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6
         WHERE (SELECT count(*) FROM schedules s WHERE s.user_id = ?1) < ?7";
    let NewSchedule { user, location, title, start_at_ms, end_at_ms, created_at_ms } = new;
    let values = params![user, location, title, start_at_ms, end_at_ms, created_at_ms, most];
    let Some(id) = tx.insert_some(insert, values)? else { return Ok(None) };
    store::count_up(tx, new.user, 1)?;
    Ok(Some(id))
}
