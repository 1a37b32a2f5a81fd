//! The limit on schedules of a user, checked in one of five ways (`schedules.limit_check`).
//!
//! | way | check | write | exact? |
//! |---|---|---|---|
//! | `load-all` | fetches all rows in one transaction | in a second one | no: many may check before one writes |
//! | `count` | counts the rows in one transaction | in a second one | no, likewise |
//! | `insert-select` | counts within the statement that inserts | the same statement | here yes, on other stores no |
//! | `row-lock` | locks the row of the user, then counts | the same transaction | yes, if nothing was read before the lock |
//! | [`counter`] | conditional update of a count | the same transaction | yes, on every store |
//!
//! The first three are those of the documented system, the other two are the true fixes that its author names.
//! `counter` is the default: the others read as many index entries as the user has rows.
//!
//! In the embedded store all writes run on one thread, each in a savepoint of a transaction that holds the only write
//! lock. So a check *within* a write is exact here, however it is made; PostgreSQL and MariaDB exceed the limit or
//! fail with `insert-select`. A check on a reading connection races with writes as on any other store.
//!
//! Every way keeps the count of [`counter`] up to date, in the transaction of its rows: the setting may change
//! between two starts, and `n` is always the number of rows. For the other ways this is one more update of one row.

mod counter;

use super::CreateError;
use super::store::{self, ScheduleStore};
use super::types::{NewSchedule, ScheduleId};
use crate::accounts::{self, UserId};
use crate::config::LimitCheck;
use crate::store::{Result, Tx, params};

/// The limit, and the way it is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleLimit {
    /// Schedules that a user may have; `None`: any number.
    pub most: Option<u32>,
    pub check: LimitCheck,
}

impl ScheduleLimit {
    /// The check before the write transaction, in a read transaction.
    pub(super) async fn before(
        self,
        store: &ScheduleStore,
        new: &NewSchedule,
    ) -> Result<(), CreateError> {
        let Some(most) = self.most else { return Ok(()) };
        let found = match self.check {
            LimitCheck::LoadAll => store.all_of(new.user).await?.len() as u64,
            LimitCheck::Count => store.count_of(new.user).await?,
            LimitCheck::InsertSelect | LimitCheck::RowLock | LimitCheck::Counter => return Ok(()),
        };
        if found < u64::from(most) { Ok(()) } else { Err(CreateError::LimitReached) }
    }

    /// Returns whether this user exists, and keeps the row until the end. The lock of `row-lock` must be this
    /// look-up: a shared lock cannot become exclusive while others wait for the same. And on MariaDB a plain read
    /// before it would fix the snapshot in which the rows are counted, and the limit would be exceeded.
    pub(super) fn finds_owner(self, tx: &Tx<'_>, user: UserId) -> Result<bool> {
        match (self.most, self.check) {
            (Some(_), LimitCheck::RowLock) => tx.hold("users", user),
            _ => accounts::stays(tx, user),
        }
    }

    /// Inserts the row and updates the count, unless the limit is reached. After an error the transaction must be
    /// rolled back.
    pub(super) fn insert(self, tx: &Tx<'_>, new: &NewSchedule) -> Result<Option<ScheduleId>> {
        match (self.most, self.check) {
            (Some(most), LimitCheck::InsertSelect) => insert_select(tx, new, most),
            (Some(most), LimitCheck::Counter) => counter::insert(tx, new, most),
            (Some(most), LimitCheck::RowLock)
                if store::count_rows(tx, new.user)? >= u64::from(most) =>
            {
                Ok(None)
            }
            // A limit that is set later needs the count too.
            _ => {
                let id = store::insert_row(tx, new)?;
                store::count_up(tx, new.user, 1)?;
                Ok(Some(id))
            }
        }
    }
}

/// One statement is not one moment: on PostgreSQL it does not see uncommitted rows of others, and exceeds the limit;
/// on MariaDB's default isolation it takes gap locks, and most parallel calls fail. It is exact here, because no
/// other write runs at the same time.
fn insert_select(tx: &Tx<'_>, new: &NewSchedule, most: u32) -> Result<Option<ScheduleId>> {
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
