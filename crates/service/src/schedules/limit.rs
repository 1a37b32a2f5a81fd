//! The limit on schedules a user may have, in five ways (`schedules.limit_check`).
//!
//! | way | looks | writes | exact? |
//! |---|---|---|---|
//! | `load-all` | fetches all rows in one transaction | in a second one | no: many may look before one writes |
//! | `count` | counts the rows in one transaction | in a second one | no, likewise |
//! | [`insert_select`] | counts within the statement that inserts | the same statement | here yes, on other stores no |
//! | `row-lock` | locks what all creates of a user share, then counts | the same transaction | yes, as long as nothing was read before the lock |
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

mod counter;
mod insert_select;

use super::CreateError;
use super::store::{self, ScheduleStore};
use super::types::{NewSchedule, ScheduleId};
use crate::accounts::{self, UserId};
use crate::config::LimitCheck;
use crate::store::{Result, Tx};

/// The limit, and the way it is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleLimit {
    /// Schedules a user may have; nothing = any number.
    pub most: Option<u32>,
    pub check: LimitCheck,
}

impl ScheduleLimit {
    /// What a way does before the write transaction: a look in a read transaction of its own.
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

    /// Whether there is such a user, who stays so long. The lock of `row-lock` must be this look: a lock that others
    /// share cannot become one's own while they wait for the same. And on MariaDB a plain read before it would fix the
    /// snapshot that the count then sees, and the limit would be overrun.
    pub(super) fn finds_owner(self, tx: &Tx<'_>, user: UserId) -> Result<bool> {
        match (self.most, self.check) {
            (Some(_), LimitCheck::RowLock) => tx.hold("users", user),
            _ => accounts::stays(tx, user),
        }
    }

    /// Inserts the row, unless the user has as many as allowed; the count follows. When a row is refused, what was
    /// written until then must be rolled back.
    pub(super) fn insert(self, tx: &Tx<'_>, new: &NewSchedule) -> Result<Option<ScheduleId>> {
        match (self.most, self.check) {
            (Some(most), LimitCheck::InsertSelect) => insert_select::insert(tx, new, most),
            (Some(most), LimitCheck::Counter) => counter::insert(tx, new, most),
            (Some(most), LimitCheck::RowLock)
                if store::count_rows(tx, new.user)? >= u64::from(most) =>
            {
                Ok(None)
            }
            // A limit that is set later needs the count, too.
            _ => {
                let id = store::insert_row(tx, new)?;
                store::count_up(tx, new.user, 1)?;
                Ok(Some(id))
            }
        }
    }
}
