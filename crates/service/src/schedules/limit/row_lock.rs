//! `row-lock`: lock what all creates of this user share, count, insert, all in one transaction.
//!
//! On a server store the first step is `SELECT … FROM users WHERE id = ? FOR UPDATE`. Here the
//! transaction began as `BEGIN IMMEDIATE` and so holds the lock of the whole store already; what is
//! left of the step is to look whether the user is there, which every way does first (`store::insert`). There
//! the lock must be that look: on MariaDB a plain read before it fixes the snapshot that the count then
//! sees, and the limit is overrun.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::store::{StoreError, Tx};

/// Inserts if the count under the lock is below `most`.
pub(super) fn insert(
    tx: &Tx<'_>,
    new: &NewSchedule,
    most: u32,
) -> Result<Option<ScheduleId>, StoreError> {
    if store::count_rows(tx, new.user)? >= u64::from(most) {
        return Ok(None);
    }
    let id = store::insert_row(tx, new)?;
    store::count_up(tx, new.user, 1)?;
    Ok(Some(id))
}
