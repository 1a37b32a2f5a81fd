//! `load-all`, as documented: fetch the user's rows, take their number, insert in a second transaction.
//!
//! Races: whoever looks between another's look and its insert sees the same number.

use super::super::store::{self, ScheduleStore};
use super::super::types::{NewSchedule, ScheduleId};
use crate::accounts::UserId;
use crate::store::{StoreError, Tx};

/// How many rows the user has, found by fetching them all with all their columns.
pub(super) async fn before(store: &ScheduleStore, user: UserId) -> Result<u64, StoreError> {
    Ok(store.all_of(user).await?.len() as u64)
}

/// Inserts without looking again.
pub(super) fn insert(tx: &Tx<'_>, new: &NewSchedule) -> Result<ScheduleId, StoreError> {
    let id = store::insert_row(tx, new)?;
    store::count_up(tx, new.user, 1)?;
    Ok(id)
}
