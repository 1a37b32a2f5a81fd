//! The limit on schedules a user may have, in five ways (`schedules.limit_check`).
//!
//! | way | looks | writes | exact? |
//! |---|---|---|---|
//! | [`load_all`] | fetches all rows in one transaction | in a second one | no: many may look before one writes |
//! | [`count`] | counts the rows in one transaction | in a second one | no, likewise |
//! | [`insert_select`] | counts within the statement that inserts | the same statement | here yes, on other stores no |
//! | [`row_lock`] | locks, then counts | the same transaction | yes, as long as nothing was read before the lock |
//! | [`counter`] | conditional update of a count | the same transaction | yes, on every store |
//!
//! The first three are those of the documented system, the other two those its author names as the
//! true fix. `counter` is the default: the others read as many index entries as the user has rows.
//!
//! What the embedded store makes of them: all writes run on one thread, each in a savepoint of a
//! transaction that holds the only write lock there is. So a check *within* a write is exact here
//! whichever way it is made; PostgreSQL and MariaDB overrun or fail with `insert_select`. A check on
//! a reading connection is as far from its write as on any other store, and races as it does there.
//!
//! Every way keeps the count of [`counter`] up to date, in the transaction of its rows: one store can
//! be run with one way today and another tomorrow, and `n` is always the number of rows. For the
//! other ways this is one update of one row more than they need.
//!
//! Each file holds two steps at most: `before`, a read transaction of its own, and `insert`, a part of
//! the write transaction, which answers nothing when the user has as many rows as allowed.

mod count;
mod counter;
mod insert_select;
mod load_all;
mod row_lock;
mod unlimited;

use super::CreateError;
use super::store::ScheduleStore;
use super::types::{NewSchedule, ScheduleId};
use crate::accounts::{self, UserId};
use crate::config::LimitCheck;
use crate::store::{StoreError, Tx};

/// The limit, and the way it is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleLimit {
    /// Schedules a user may have; nothing = any number.
    pub most: Option<u32>,
    /// How that is enforced.
    pub check: LimitCheck,
}

impl ScheduleLimit {
    /// What a way does before the write transaction.
    ///
    /// # Errors
    /// [`CreateError::LimitReached`], or when the store cannot answer.
    pub(super) async fn before(
        self,
        store: &ScheduleStore,
        new: &NewSchedule,
    ) -> Result<(), CreateError> {
        let Some(most) = self.most else { return Ok(()) };
        let found = match self.check {
            LimitCheck::LoadAll => load_all::before(store, new.user).await?,
            LimitCheck::Count => count::before(store, new.user).await?,
            LimitCheck::InsertSelect | LimitCheck::RowLock | LimitCheck::Counter => return Ok(()),
        };
        if found < u64::from(most) { Ok(()) } else { Err(CreateError::LimitReached) }
    }

    /// Whether there is such a user, who stays so long. The lock of `row-lock` must be this look: a lock that others
    /// share cannot become one's own while they wait for the same.
    pub(super) fn finds_owner(self, tx: &Tx<'_>, user: UserId) -> Result<bool, StoreError> {
        match (self.most, self.check) {
            (Some(_), LimitCheck::RowLock) => tx.hold("users", user),
            _ => accounts::stays(tx, user),
        }
    }

    /// Inserts the row, unless the user has as many as allowed; the count follows.
    ///
    /// # Errors
    /// When a row is refused. What was written until then must be rolled back.
    pub(super) fn insert(
        self,
        tx: &Tx<'_>,
        new: &NewSchedule,
    ) -> Result<Option<ScheduleId>, StoreError> {
        let Some(most) = self.most else { return unlimited::insert(tx, new).map(Some) };
        match self.check {
            LimitCheck::LoadAll => load_all::insert(tx, new).map(Some),
            LimitCheck::Count => count::insert(tx, new).map(Some),
            LimitCheck::InsertSelect => insert_select::insert(tx, new, most),
            LimitCheck::RowLock => row_lock::insert(tx, new, most),
            LimitCheck::Counter => counter::insert(tx, new, most),
        }
    }
}
