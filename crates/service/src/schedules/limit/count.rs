//! `count`, as documented: a `COUNT` query, then an insert in a second transaction.
//!
//! Races as `load-all` does; only the look is cheaper, an index range instead of all rows.

use super::super::store::{self, ScheduleStore};
use super::super::types::{NewSchedule, ScheduleId};
use crate::accounts::UserId;
use crate::store::{StoreError, Tx};

/// How many rows the user has, counted by the store.
pub(super) async fn before(store: &ScheduleStore, user: UserId) -> Result<u64, StoreError> {
    store.count_of(user).await
}

/// Inserts without looking again.
pub(super) fn insert(tx: &Tx<'_>, new: &NewSchedule) -> Result<ScheduleId, StoreError> {
    let id = store::insert_row(tx, new)?;
    store::count_up(tx, new.user, 1)?;
    Ok(id)
}
