//! Transactions on runs and the ranking. One method is one whole transaction.

use super::super::TrackId;
use super::{NewRun, Ranked, StoredRun, ranking_of};
use crate::accounts::{self, OwnedRows, Quota, UserId};
use crate::housekeeping::DependentRows;
use crate::idempotency::{Done, Once};
use crate::store::{ChangeError, Conn, Result, Row, Sql, Store, Tx, columns, params};

/// Rows that belong to a track.
pub(in super::super) const OF_TRACK: &[DependentRows] = &[
    DependentRows::delete("track_bests", "track_id", "user_id"),
    DependentRows::delete("track_records", "track_id", "id"),
];

/// Runs in the store. A method that fails has written nothing, unless the error
/// [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct RecordStore {
    store: Store,
    quota: Quota,
}

impl RecordStore {
    /// Runs in `store`, at most `quota` of each user.
    pub fn new(store: Store, quota: Quota) -> Self {
        Self { store, quota }
    }

    /// Stores a run, `once`, and ranks it if it is the runner's fastest on this track; `None` if there is no such
    /// track.
    ///
    /// # Errors
    /// Also when there is no such user.
    pub async fn add(
        &self,
        run: NewRun,
        once: Once,
    ) -> Result<Done<Option<StoredRun>>, ChangeError> {
        let quota = self.quota;
        let job = move |tx: &mut Tx<'_>| {
            if !accounts::stays(tx, run.user)? {
                return Err(ChangeError::UnknownUser);
            }
            once.run(tx, |tx| {
                quota.room_for_one(tx, OwnedRows::Runs, run.user)?;
                let stored = insert(tx, &run)?;
                if stored.is_some_and(|stored| stored.personal_best) {
                    tx.effects().end([ranking_of(run.track)]);
                }
                Ok(stored)
            })
        };
        self.store.write(job).await
    }

    /// Up to `limit` runners by their best time on a track, fastest first, after this time and runner; `None` if
    /// there is no such track.
    pub async fn ranking(
        &self,
        track: TrackId,
        after: Option<(i64, UserId)>,
        limit: usize,
    ) -> Result<Option<Vec<Ranked>>> {
        let (duration, user) = after.unwrap_or((-1, 0));
        let page = move |conn: &Conn<'_>| {
            if !conn.exists("SELECT 1 FROM tracks WHERE id = ?", params![track])? {
                return Ok(None);
            }
            let mut rows = conn.rows(RANKING, params![track, duration, user, limit], ranked)?;
            number(conn, track, &mut rows)?;
            Ok(Some(rows))
        };
        self.store.read(page).await
    }
}

fn insert(tx: &Tx<'_>, run: &NewRun) -> Result<Option<StoredRun>> {
    if !tx.keep("tracks", run.track)? {
        return Ok(None);
    }
    let id = tx.insert(
        "INSERT INTO track_records (track_id, user_id, duration_ms, ran_at_ms, created_at_ms)
         VALUES (?, ?, ?, ?, ?)",
        params![run.track, run.user, run.duration_ms, run.ran_at_ms, run.created_at_ms],
    )?;
    // One statement decides and writes: however runs of one runner interleave, the fastest stays, and of equal ones
    // the first.
    tx.run(BEST, params![run.track, run.user, run.duration_ms, id])?;
    let best: i64 = tx.one(
        "SELECT record_id FROM track_bests WHERE track_id = ? AND user_id = ?",
        params![run.track, run.user],
    )?;
    Ok(Some(StoredRun { id, personal_best: best == id, ran_at_ms: run.ran_at_ms }))
}

/// MariaDB assigns from left to right, so the time comes last.
const BEST: Sql<'_> = Sql::each(
    "INSERT INTO track_bests (track_id, user_id, duration_ms, record_id) VALUES (?, ?, ?, ?)
     ON CONFLICT (track_id, user_id) DO UPDATE
     SET duration_ms = excluded.duration_ms, record_id = excluded.record_id
     WHERE excluded.duration_ms < duration_ms",
    "INSERT INTO track_bests (track_id, user_id, duration_ms, record_id) VALUES (?, ?, ?, ?)
     ON DUPLICATE KEY UPDATE
     record_id = IF(VALUES(duration_ms) < duration_ms, VALUES(record_id), record_id),
     duration_ms = LEAST(duration_ms, VALUES(duration_ms))",
);

/// SQLite seeks by a pair, MariaDB by two ranges.
const RANKING: Sql<'_> = Sql::each(
    "SELECT b.record_id, b.user_id, u.nickname, b.duration_ms, r.ran_at_ms
     FROM track_bests b JOIN users u ON u.id = b.user_id JOIN track_records r ON r.id = b.record_id
     WHERE b.track_id = ?1 AND (b.duration_ms, b.user_id) > (?2, ?3)
     ORDER BY b.duration_ms, b.user_id LIMIT ?4",
    "SELECT b.record_id, b.user_id, u.nickname, b.duration_ms, r.ran_at_ms
     FROM track_bests b FORCE INDEX (track_bests_by_time)
     JOIN users u ON u.id = b.user_id JOIN track_records r ON r.id = b.record_id
     WHERE b.track_id = ?1 AND (b.duration_ms > ?2 OR b.duration_ms = ?2 AND b.user_id > ?3)
     ORDER BY b.duration_ms, b.user_id LIMIT ?4",
);

const BEFORE: Sql<'_> = Sql::each(
    "SELECT count(CASE WHEN duration_ms < ?2 THEN 1 END), count(*) FROM track_bests
     WHERE track_id = ?1 AND (duration_ms, user_id) < (?2, ?3)
       AND user_id NOT IN (SELECT id FROM deleted_users)",
    "SELECT count(CASE WHEN duration_ms < ?2 THEN 1 END), count(*) FROM track_bests
     WHERE track_id = ?1 AND (duration_ms < ?2 OR duration_ms = ?2 AND user_id < ?3)
       AND user_id NOT IN (SELECT id FROM deleted_users)",
);

/// A run without its rank.
fn ranked(row: &Row<'_>) -> Result<Ranked> {
    let (id, user, nickname, duration_ms, ran_at_ms) = columns(row)?;
    Ok(Ranked { id, user, nickname, duration_ms, ran_at_ms, rank: 0 })
}

/// Sets the ranks of a page, by standard competition ranking: equal times share a rank, and the next one counts them
/// all. The bests of a deleted user may remain for a while; they do not count, as they are on no page.
fn number(conn: &Conn<'_>, track: TrackId, rows: &mut [Ranked]) -> Result<()> {
    let Some(first) = rows.first() else { return Ok(()) };
    let (faster, before): (u64, u64) =
        conn.only(BEFORE, params![track, first.duration_ms, first.user], columns)?;
    let (mut rank, mut time) = (faster + 1, first.duration_ms);
    for (position, row) in (before + 1..).zip(rows) {
        if row.duration_ms != time {
            (rank, time) = (position, row.duration_ms);
        }
        row.rank = rank;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    /// The rows of a deleted user are still there.
    #[tokio::test]
    async fn a_deleted_user_counts_in_no_rank_on_any_page() {
        let (store, _dir) = Store::fresh(&Sources::new());
        store.add_users(1..=4).await;
        let fill =
            "INSERT INTO tracks (id, name, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms)
             VALUES (1, 't', 1, 2, 37.5, 127, randomblob(32), 0);
             INSERT INTO track_records SELECT id, 1, id, 100 * id, 0, 0 FROM users;
             INSERT INTO track_bests SELECT 1, id, 100 * id, id FROM users;
             DELETE FROM users WHERE id IN (1, 3);";
        store.execute(fill).await;
        let records = RecordStore::new(store, Quota::default());
        let ranks = async |after| {
            let page = records.ranking(1, after, 1).await.unwrap().unwrap();
            page.iter().map(|one| (one.user, one.rank)).collect::<Vec<_>>()
        };
        assert_eq!(ranks(None).await, [(2, 1)]);
        assert_eq!(ranks(Some((200, 2))).await, [(4, 2)]);
    }

    #[tokio::test]
    async fn the_ranking_reads_its_index_and_sorts_nothing() {
        let (store, _dir) = Store::fresh(&Sources::new());
        let plan = store.plan(RANKING.sqlite()).await;
        assert!(
            plan.contains(
                "USING COVERING INDEX track_bests_by_time (track_id=? AND duration_ms>?)"
            ) || plan.contains("USING INDEX track_bests_by_time"),
            "{plan}"
        );
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
