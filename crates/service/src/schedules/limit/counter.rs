//! `counter`, the default: a conditional update of the user's count, and the insert, in one transaction.
//!
//! The update is look, lock and write at once, whatever the store and its isolation: of two that
//! arrive together the second waits for the first and then sees its count. It touches one row however
//! many schedules there are, and a refusal writes nothing.
//!
//! On a server the insert comes first: others of the same user wait for the count from its update to the commit, and
//! an insert between would make that a way to the server and back longer.
//! Who is full is refused before, by a look without a lock; whoever becomes so meanwhile takes the row away again.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::accounts::UserId;
use crate::store::{Result, Tx, params};

/// Inserts if the count, taken up by one, stays within `most`.
pub(super) fn insert(tx: &Tx<'_>, new: &NewSchedule, most: u32) -> Result<Option<ScheduleId>> {
    if tx.is_shared() {
        let full = "SELECT 1 FROM schedule_counts WHERE user_id = ? AND n >= ?";
        if tx.exists(full, params![new.user, most])? {
            return Ok(None);
        }
        let id = store::insert_row(tx, new)?;
        if counted(tx, new.user, most)? {
            return Ok(Some(id));
        }
        tx.run("DELETE FROM schedules WHERE id = ?", params![id])?;
        return Ok(None);
    }
    if counted(tx, new.user, most)? { store::insert_row(tx, new).map(Some) } else { Ok(None) }
}

/// Whether one more was counted.
fn counted(tx: &Tx<'_>, user: UserId, most: u32) -> Result<bool> {
    if take(tx, user, most)? {
        return Ok(true);
    }
    // Full, or the first of this user: the row is made when it is needed. Two may make it at once.
    let made = "INSERT INTO schedule_counts (user_id, n) VALUES (?, 0)";
    tx.insert_new(made, params![user])?;
    take(tx, user, most)
}

/// Counts one more, if that is allowed.
fn take(tx: &Tx<'_>, user: UserId, most: u32) -> Result<bool> {
    let update = "UPDATE schedule_counts SET n = n + 1 WHERE user_id = ? AND n < ?";
    Ok(tx.run(update, params![user, most])? > 0)
}
