//! `counter`, the default: a conditional update of the user's count, and the insert, in one transaction.
//!
//! The update checks, locks and writes at once, on every store and isolation level: of two that arrive together the
//! second waits for the first and then sees its count. It touches one row however many schedules there are, and a
//! refusal writes nothing.
//!
//! On a server the insert comes first: other creates of the user wait for the count from its update to the commit,
//! and an insert between would prolong that by a round trip. A user at the limit is refused before, by a read without
//! a lock; one that reaches it meanwhile has the row deleted again.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::accounts::UserId;
use crate::store::{Result, Tx, params};

/// Inserts if the increased count stays within `most`.
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

/// Increases the count; returns false at the limit.
fn counted(tx: &Tx<'_>, user: UserId, most: u32) -> Result<bool> {
    if take(tx, user, most)? {
        return Ok(true);
    }
    // The limit, or the first schedule of this user: the row is created when needed, perhaps by two at once.
    let made = "INSERT INTO schedule_counts (user_id, n) VALUES (?, 0)";
    tx.insert_new(made, params![user])?;
    take(tx, user, most)
}

/// As [`counted`], if the row exists.
fn take(tx: &Tx<'_>, user: UserId, most: u32) -> Result<bool> {
    let update = "UPDATE schedule_counts SET n = n + 1 WHERE user_id = ? AND n < ?";
    Ok(tx.run(update, params![user, most])? > 0)
}
