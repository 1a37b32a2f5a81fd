//! Transactions on runs and the ranking. One method is one whole transaction.
#![allow(clippy::disallowed_types, reason = "this is the store of runs: SQL types live here")]

use super::super::TrackId;
use super::{AfterTime, NewRun, Ranked, StoredRun, ranking_of};
use crate::accounts;
use crate::bodies::ChangeError;
use crate::housekeeping::{NONE, Step};
use crate::idempotency::{Done, Once};
use crate::store::{Store, StoreError, Tx};
use rusqlite::{Connection, OptionalExtension as _, params};

/// What hangs on a track.
pub(in super::super) const OF_TRACK: &[Step] = &[
    Step {
        sql: "DELETE FROM track_bests WHERE track_id = ?1 AND user_id IN
              (SELECT user_id FROM track_bests WHERE track_id = ?1 LIMIT ?2) RETURNING user_id",
        ends: NONE,
    },
    Step {
        sql: "DELETE FROM track_records WHERE id IN
              (SELECT id FROM track_records WHERE track_id = ?1 LIMIT ?2) RETURNING id",
        ends: NONE,
    },
];

/// Takes a user out of rankings.
pub(in super::super) const BESTS_OF_USER: &str =
    "DELETE FROM track_bests WHERE user_id = ?1 AND track_id IN
     (SELECT track_id FROM track_bests WHERE user_id = ?1 LIMIT ?2) RETURNING track_id";
/// Takes a user's runs away.
pub(in super::super) const RUNS_OF_USER: &str = "DELETE FROM track_records WHERE id IN
     (SELECT id FROM track_records WHERE user_id = ?1 LIMIT ?2) RETURNING id";

/// Runs in the store.
#[derive(Clone, Debug)]
pub struct RecordStore {
    store: Store,
}

impl RecordStore {
    /// Runs in `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Stores a run, `once`, and, if it is the runner's fastest on this track, makes it the one that is
    /// ranked. Nothing when there is no such track.
    ///
    /// # Errors
    /// When the store cannot answer, or there is no such user.
    pub async fn add(
        &self,
        run: NewRun,
        once: Once,
    ) -> Result<Done<Option<StoredRun>>, ChangeError> {
        let job = move |tx: &mut Tx<'_>| {
            if !accounts::exists(tx, run.user).map_err(StoreError::from)? {
                return Err(ChangeError::UnknownUser);
            }
            once.run(tx, |tx| {
                let stored = insert(tx, &run).map_err(StoreError::from)?;
                if stored.is_some_and(|stored| stored.personal_best) {
                    tx.effects().end([ranking_of(run.track)]);
                }
                Ok(stored)
            })
        };
        self.store.write(job).await
    }

    /// Up to `limit` runners by their best time on a track, fastest first, after a position. Nothing
    /// when there is no such track.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn ranking(
        &self,
        track: TrackId,
        after: Option<AfterTime>,
        limit: usize,
    ) -> Result<Option<Vec<Ranked>>, StoreError> {
        self.store
            .read(move |conn| {
                if !exists(conn, track)? {
                    return Ok(None);
                }
                let mut rows = page(conn, track, after, limit)?;
                number(conn, track, &mut rows)?;
                Ok(Some(rows))
            })
            .await
    }
}

fn exists(conn: &Connection, track: TrackId) -> Result<bool, rusqlite::Error> {
    conn.prepare_cached("SELECT 1 FROM tracks WHERE id = ?")?.exists([track])
}

fn insert(tx: &Tx<'_>, run: &NewRun) -> Result<Option<StoredRun>, rusqlite::Error> {
    if !exists(tx, run.track)? {
        return Ok(None);
    }
    let id = tx
        .prepare_cached(
            "INSERT INTO track_records (track_id, user_id, duration_ms, ran_at_ms, created_at_ms)
             VALUES (?, ?, ?, ?, ?) RETURNING id",
        )?
        .query_row(
            params![run.track, run.user, run.duration_ms, run.ran_at_ms, run.created_at_ms],
            |row| row.get(0),
        )?;
    // One statement decides and writes: however runs of one runner interleave, the fastest stays,
    // and of equal ones the first.
    let changed = tx
        .prepare_cached(
            "INSERT INTO track_bests (track_id, user_id, duration_ms, record_id) VALUES (?, ?, ?, ?)
             ON CONFLICT (track_id, user_id) DO UPDATE
             SET duration_ms = excluded.duration_ms, record_id = excluded.record_id
             WHERE excluded.duration_ms < duration_ms",
        )?
        .execute(params![run.track, run.user, run.duration_ms, id])?;
    Ok(Some(StoredRun { id, personal_best: changed > 0, ran_at_ms: run.ran_at_ms }))
}

fn ranking_sql() -> &'static str {
    "SELECT b.record_id, b.user_id, u.nickname, b.duration_ms, r.ran_at_ms
     FROM track_bests b JOIN users u ON u.id = b.user_id JOIN track_records r ON r.id = b.record_id
     WHERE b.track_id = ? AND (b.duration_ms, b.user_id) > (?, ?)
     ORDER BY b.duration_ms, b.user_id LIMIT ?"
}

fn page(
    conn: &Connection,
    track: TrackId,
    after: Option<AfterTime>,
    limit: usize,
) -> Result<Vec<Ranked>, rusqlite::Error> {
    let (duration, user) = after.map_or((-1, 0), |after| (after.duration_ms, after.user));
    conn.prepare_cached(ranking_sql())?
        .query_map(params![track, duration, user, limit], |row| {
            Ok(Ranked {
                id: row.get(0)?,
                user: row.get(1)?,
                nickname: row.get(2)?,
                duration_ms: row.get(3)?,
                ran_at_ms: row.get(4)?,
                rank: 0,
            })
        })?
        .collect()
}

/// Standard competition ranking: equal times share a rank, and the next one counts them all. The bests of a
/// deleted user may be there for a while; they count for nobody, as they are on no page.
fn number(conn: &Connection, track: TrackId, rows: &mut [Ranked]) -> Result<(), rusqlite::Error> {
    let Some(first) = rows.first() else { return Ok(()) };
    let faster: Option<(u64, u64)> = conn
        .prepare_cached(
            "SELECT count(*) FILTER (WHERE duration_ms < ?2), count(*) FROM track_bests
             WHERE track_id = ?1 AND (duration_ms, user_id) < (?2, ?3)
               AND user_id NOT IN (SELECT id FROM deleted_users)",
        )?
        .query_row(params![track, first.duration_ms, first.user], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let (faster, before) = faster.unwrap_or_default();
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
    use super::super::super::store::tests::plan;
    use super::*;

    fn open(dir: &tempfile::TempDir) -> Store {
        let settings = crate::config::Sources::new().resolve().unwrap().database;
        Store::open(dir.path(), &settings).unwrap()
    }

    /// Long before the rows of a deleted user have gone.
    #[tokio::test]
    async fn a_deleted_user_counts_in_no_rank_on_any_page() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let fill = |tx: &mut Tx<'_>| {
            tx.execute_batch(
                "INSERT INTO tracks (id, name, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms)
                 VALUES (1, 't', 1, 2, 37.5, 127, randomblob(32), 0);
                 INSERT INTO users (id, nickname, password_hash, region_id, created_at_ms)
                 VALUES (1, 'mina', '-', 11, 0), (2, 'juno', '-', 11, 0), (3, 'hana', '-', 11, 0), (4, 'dami', '-', 11, 0);
                 INSERT INTO track_records SELECT id, 1, id, 100 * id, 0, 0 FROM users;
                 INSERT INTO track_bests SELECT 1, id, 100 * id, id FROM users;
                 DELETE FROM users WHERE id IN (1, 3);",
            )?;
            Ok::<_, StoreError>(())
        };
        store.write(fill).await.unwrap();
        let records = RecordStore::new(store);
        let ranks = async |after| {
            let page = records.ranking(1, after, 1).await.unwrap().unwrap();
            page.iter().map(|one| (one.user, one.rank)).collect::<Vec<_>>()
        };
        assert_eq!(ranks(None).await, [(2, 1)]);
        let after_the_first = AfterTime { duration_ms: 200, user: 2 };
        assert_eq!(ranks(Some(after_the_first)).await, [(4, 2)]);
    }

    #[tokio::test]
    async fn the_ranking_reads_its_index_and_sorts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let plan = plan(&store, ranking_sql()).await;
        assert!(
            plan.contains(
                "USING COVERING INDEX track_bests_by_time (track_id=? AND duration_ms>?)"
            ) || plan.contains("USING INDEX track_bests_by_time"),
            "{plan}"
        );
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
