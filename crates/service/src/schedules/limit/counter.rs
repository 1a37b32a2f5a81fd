//! `counter`, the default: a conditional update of the user's count, and the insert, in one transaction.
//!
//! The update is look, lock and write at once, whatever the store and its isolation: of two that
//! arrive together the second waits for the first and then sees its count. It touches one row however
//! many schedules there are, and a refusal writes nothing.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::accounts::UserId;
use crate::store::{StoreError, Tx, params};

/// Inserts if the count, taken up by one, stays within `most`.
pub(super) fn insert(
    tx: &Tx<'_>,
    new: &NewSchedule,
    most: u32,
) -> Result<Option<ScheduleId>, StoreError> {
    if !take(tx, new.user, most)? {
        // Full, or the first of this user: the row is made when it is needed. Two may make it at once.
        let made = "INSERT INTO schedule_counts (user_id, n) VALUES (?, 0)";
        tx.insert_new(made, params![new.user])?;
        if !take(tx, new.user, most)? {
            return Ok(None);
        }
    }
    store::insert_row(tx, new).map(Some)
}

/// Counts one more, if that is allowed.
fn take(tx: &Tx<'_>, user: UserId, most: u32) -> Result<bool, StoreError> {
    let update = "UPDATE schedule_counts SET n = n + 1 WHERE user_id = ? AND n < ?";
    Ok(tx.run(update, params![user, most])? > 0)
}
