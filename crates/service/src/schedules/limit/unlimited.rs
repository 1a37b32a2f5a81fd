//! `schedules.limit = off`: an insert and nothing else, but for the count, which a limit that is set
//! later needs.

use super::super::store;
use super::super::types::{NewSchedule, ScheduleId};
use crate::store::{StoreError, Tx};

/// Inserts.
pub(super) fn insert(tx: &Tx<'_>, new: &NewSchedule) -> Result<ScheduleId, StoreError> {
    let id = store::insert_row(tx, new)?;
    store::count_up(tx, new.user, 1)?;
    Ok(id)
}
