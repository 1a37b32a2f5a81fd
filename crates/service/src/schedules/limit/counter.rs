//! `counter`, the default: a conditional update of the user's count, and the insert, in one transaction.
//!
//! The update is look, lock and write at once, whatever the store and its isolation: of two that
//! arrive together the second waits for the first and then sees its count. It touches one row however
//! many schedules there are, and a refusal writes nothing.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::store::{StoreError, Tx};
use rusqlite::{OptionalExtension as _, params};

/// Inserts if the count, taken up by one, stays within `most`.
pub(super) fn insert(
    tx: &Tx<'_>,
    new: &NewSchedule,
    most: u32,
) -> Result<Option<ScheduleId>, StoreError> {
    let mut take = tx.prepare_cached(
        "UPDATE schedule_counts SET n = n + 1 WHERE user_id = :user AND n < :most",
    )?;
    if take.execute(params![new.user, most])? == 0 {
        // Full, or the first of this user: the row is made when it is needed.
        let full: Option<bool> = tx
            .prepare_cached("SELECT n >= ? FROM schedule_counts WHERE user_id = ?")?
            .query_row(params![most, new.user], |row| row.get(0))
            .optional()?;
        if full.unwrap_or(most == 0) {
            return Ok(None);
        }
        store::count_up(tx, new.user, 1)?;
    }
    store::insert_row(tx, new).map(Some)
}
