//! Transactions on schedules and places. One method is one whole transaction; the functions are the parts that the
//! ways of enforcing the limit share.

use super::limit::ScheduleLimit;
use super::types::{Location, LocationId, NewSchedule, Schedule, ScheduleId};
use super::{CreateError, ScheduleMetrics};
use crate::accounts::{self, UserId};
use crate::http::{By, Refusal};
use crate::idempotency::{Done, Once};
use crate::store::{Conn, Result, Row, Sql, Store, StoreError, Tx, columns, params};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const COLUMNS: &str = "id, user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms";

/// Schedules in the store. A method that fails has written nothing, unless the error
/// [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct ScheduleStore {
    store: Store,
    pub(crate) metrics: Arc<ScheduleMetrics>,
}

impl ScheduleStore {
    /// Schedules in `store`.
    pub fn new(store: Store) -> Self {
        Self { store, metrics: Arc::default() }
    }

    /// Stores a schedule, `once`, within the limit. Dropping the future does not cancel a write that was accepted.
    ///
    /// # Errors
    /// Also when the limit is reached, or the owner or the place does not exist.
    pub(super) async fn create(
        &self,
        new: NewSchedule,
        once: Once,
        limit: ScheduleLimit,
    ) -> Result<Done<ScheduleId>, CreateError> {
        let created = self.create_uncounted(new, once, limit).await;
        if matches!(created, Err(CreateError::LimitReached)) {
            self.metrics.refused.fetch_add(1, Relaxed);
        }
        created
    }

    /// As [`create`](Self::create), without counting refusals.
    async fn create_uncounted(
        &self,
        new: NewSchedule,
        once: Once,
        limit: ScheduleLimit,
    ) -> Result<Done<ScheduleId>, CreateError> {
        if let Err(error) = limit.before(self, &new).await {
            return self.refused_before(once, error).await;
        }
        let job = move |tx: &mut Tx<'_>| once.run(tx, |tx| insert(tx, &new, limit));
        let metrics = Arc::clone(&self.metrics);
        let created = self.store.write_then(job, move |done: &Done<Option<ScheduleId>>| {
            if done.outcome.is_some() && !done.replayed {
                metrics.created.fetch_add(1, Relaxed);
            }
        });
        created.await?.made().ok_or(CreateError::LimitReached)
    }

    /// A check before the write transaction must not refuse a repeated request because of the schedule that it
    /// created itself. The key is looked up after the check: in the other order the first request may commit between
    /// the two.
    async fn refused_before(
        &self,
        once: Once,
        error: CreateError,
    ) -> Result<Done<ScheduleId>, CreateError> {
        if error != CreateError::LimitReached || !once.has_key() {
            return Err(error);
        }
        let found = self.store.read(move |conn| Ok(once.find::<Option<ScheduleId>>(conn)));
        let id = found.await??.flatten().ok_or(error)?;
        Ok(Done { outcome: id, replayed: true })
    }

    /// Stores schedules without a limit in one transaction, for filling a store.
    ///
    /// # Errors
    /// Also when one is refused; then none is stored.
    pub async fn create_all(&self, all: Vec<NewSchedule>) -> Result<()> {
        let job = move |tx: &mut Tx<'_>| {
            for of_one in all.chunk_by(|a, b| a.user == b.user) {
                if !accounts::stays(tx, of_one[0].user)? {
                    return Err(StoreError::Constraint("there is no such user".to_owned()));
                }
                for new in of_one {
                    insert_row(tx, new)?;
                }
                count_up(tx, of_one[0].user, of_one.len() as u64)?;
            }
            Ok(())
        };
        self.store.write(job).await
    }

    /// Deletes a schedule of this user and decreases the count. Dropping the future does not cancel it.
    pub(super) async fn delete(
        &self,
        id: ScheduleId,
        by: impl Into<By<Schedule>>,
    ) -> Result<Result<(), Refusal>> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            let user = by.user;
            if !by.holds(|| find(tx, id, user))? {
                return Ok(Err(Refusal::Outdated));
            }
            let delete = "DELETE FROM schedules WHERE id = ? AND user_id = ?";
            if tx.run(delete, params![id, user])? == 0 {
                return Ok(Err(Refusal::Absent));
            }
            // Only a deleted row changes the count: of two deletions at once one finds nothing.
            let count = "UPDATE schedule_counts SET n = n - 1 WHERE user_id = ? AND n > 0";
            tx.run(count, params![user])?;
            Ok(Ok(()))
        };
        let metrics = Arc::clone(&self.metrics);
        let committed = move |deleted: &Result<(), Refusal>| {
            if deleted.is_ok() {
                metrics.deleted.fetch_add(1, Relaxed);
            }
        };
        self.store.write_then(job, committed).await
    }

    pub(super) async fn find(&self, id: ScheduleId, user: UserId) -> Result<Option<Schedule>> {
        self.store.read(move |conn| find(conn, id, user)).await
    }

    /// Up to `limit` schedules of a user, by begin, after the one with this begin and id.
    pub(super) async fn page(
        &self,
        user: UserId,
        after: Option<(i64, ScheduleId)>,
        limit: usize,
    ) -> Result<Vec<Schedule>> {
        // Before every begin, so that the first page needs no query of its own.
        let (start, id) = after.unwrap_or((i64::MIN, 0));
        let page =
            move |conn: &Conn<'_>| conn.rows(PAGE, params![user, start, id, limit], schedule);
        self.store.read(page).await
    }

    /// All schedules of a user, in no order.
    pub(super) async fn all_of(&self, user: UserId) -> Result<Vec<Schedule>> {
        let sql = format!("SELECT {COLUMNS} FROM schedules WHERE user_id = ?");
        self.store.read(move |conn| conn.rows(&sql, params![user], schedule)).await
    }

    /// Number of rows of a user, by counting them.
    pub(super) async fn count_of(&self, user: UserId) -> Result<u64> {
        self.store.read(move |conn| count_rows(conn, user)).await
    }

    /// Stored counts of all users that ever had a schedule, by user.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn counts(&self) -> Result<Vec<(UserId, u64)>> {
        let sql = "SELECT user_id, n FROM schedule_counts ORDER BY user_id";
        self.store.read(move |conn| conn.rows(sql, &[], columns)).await
    }

    /// Up to `limit` places after this one, by id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn locations(&self, after: LocationId, limit: usize) -> Result<Vec<Location>> {
        let sql = "SELECT id, name, name_english, lat, lon FROM locations WHERE id > ? ORDER BY id LIMIT ?";
        self.store.read(move |conn| conn.rows(sql, params![after, limit], location)).await
    }
}

fn find(conn: &Conn<'_>, id: ScheduleId, user: UserId) -> Result<Option<Schedule>> {
    let sql = format!("SELECT {COLUMNS} FROM schedules WHERE id = ? AND user_id = ?");
    conn.first(&sql, params![id, user], schedule)
}

/// Creates a schedule within a transaction; `None` if the limit is reached.
pub(super) fn insert(
    tx: &Tx<'_>,
    new: &NewSchedule,
    limit: ScheduleLimit,
) -> Result<Option<ScheduleId>, CreateError> {
    if !limit.finds_owner(tx, new.user)? {
        return Err(CreateError::UnknownUser);
    }
    limit.insert(tx, new).map_err(|error| refusal(tx, new, error))
}

/// Finds the constraint that refused a new row: SQLite does not report which one it was.
fn refusal(tx: &Tx<'_>, new: &NewSchedule, error: StoreError) -> CreateError {
    let StoreError::Constraint(_) = &error else { return error.into() };
    match tx.exists("SELECT 1 FROM locations WHERE id = ?", params![new.location]) {
        Ok(false) => CreateError::UnknownLocation,
        _ => error.into(),
    }
}

/// Inserts a row; the caller updates the count.
pub(super) fn insert_row(tx: &Tx<'_>, new: &NewSchedule) -> Result<ScheduleId> {
    tx.insert(
        "INSERT INTO schedules (user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms)
         VALUES (?, ?, ?, ?, ?, ?)",
        params![
            new.user, new.location, new.title, new.start_at_ms, new.end_at_ms, new.created_at_ms
        ],
    )
}

/// Increases a user's count by `rows`, from 0 if there is none yet.
pub(super) fn count_up(tx: &Tx<'_>, user: UserId, rows: u64) -> Result<()> {
    tx.run(COUNT_UP, params![user, rows])?;
    Ok(())
}

const COUNT_UP: Sql<'_> = Sql::each(
    "INSERT INTO schedule_counts (user_id, n) VALUES (?, ?)
     ON CONFLICT (user_id) DO UPDATE SET n = n + excluded.n",
    "INSERT INTO schedule_counts (user_id, n) VALUES (?, ?)
     ON DUPLICATE KEY UPDATE n = n + VALUES(n)",
);

/// Number of rows of a user, by counting them.
pub(super) fn count_rows(conn: &Conn<'_>, user: UserId) -> Result<u64> {
    conn.one("SELECT count(*) FROM schedules WHERE user_id = ?", params![user])
}

/// SQLite seeks by a pair, MariaDB by two ranges.
pub(super) const PAGE: Sql<'_> = Sql::each(
    "SELECT id, user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms FROM schedules
     WHERE user_id = ?1 AND (start_at_ms, id) > (?2, ?3) ORDER BY start_at_ms, id LIMIT ?4",
    "SELECT id, user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms FROM schedules
     WHERE user_id = ?1 AND (start_at_ms > ?2 OR start_at_ms = ?2 AND id > ?3)
     ORDER BY start_at_ms, id LIMIT ?4",
);

fn schedule(row: &Row<'_>) -> Result<Schedule> {
    let (id, user, location, title, start_at_ms, end_at_ms, created_at_ms) = columns(row)?;
    let values = NewSchedule { user, location, title, start_at_ms, end_at_ms, created_at_ms };
    Ok(Schedule { id, values })
}

fn location(row: &Row<'_>) -> Result<Location> {
    let (id, name, name_english, lat, lon) = columns(row)?;
    Ok(Location { id, name, name_english, position: [lat, lon] })
}
