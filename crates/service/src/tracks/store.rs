//! Transactions on tracks. One method is one whole transaction.

use super::types::{NewTrack, Position, Stored, StoredTrack, TrackId, TrackState, TrackSummary};
use super::{all_tracks, near, one_track};
use crate::accounts::{self, Quota, UserId};
use crate::http::rfc3339::now_ms;
use crate::http::{Refusal, Remover};
use crate::idempotency::{Done, Once};
use crate::store::{ChangeError, Conn, Result, Row, Sql, Store, StoreError, Tx, columns, params};
use madang_path::{Point, compact};
use sha2::{Digest as _, Sha256};

const SUMMARY: &str = "t.id, t.name, t.rate, t.length_metres, t.points, t.start_lat, t.start_lon";

/// Tracks in the store. A method that fails has written nothing, unless the error
/// [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct TrackStore {
    store: Store,
    quota: Quota,
}

impl TrackStore {
    /// Tracks in `store`, at most `quota` of each user.
    pub fn new(store: Store, quota: Quota) -> Self {
        Self { store, quota }
    }

    /// The track of this id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find(&self, id: TrackId) -> Result<Option<StoredTrack>> {
        let sql = format!(
            "SELECT {SUMMARY}, p.path, t.fingerprint
             FROM tracks t JOIN track_paths p ON p.track_id = t.id WHERE t.id = ?"
        );
        let read = |row: &Row<'_>| {
            let summary = summary(row)?;
            let state = TrackState { fingerprint: row.get(8)?, rate: summary.rate };
            Ok(StoredTrack { summary, path: row.get(7)?, state })
        };
        self.store.read(move |conn| conn.first(&sql, params![id], read)).await
    }

    /// Up to `limit` tracks, longest first, after a position.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn by_length(
        &self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<TrackSummary>> {
        // Beyond every length, so that the first page needs no query of its own.
        let (length, id) = after.unwrap_or((f64::MAX, i64::MAX));
        let page = move |conn: &Conn<'_>| conn.rows(BY_LENGTH, params![length, id, limit], summary);
        self.store.read(page).await
    }

    /// Up to `limit` tracks and the distance of their start from `centre` in metres, nearest first, after a position.
    ///
    /// # Errors
    /// Also when the order would take too many reads.
    pub(super) async fn nearest(
        &self,
        centre: Point,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<(TrackSummary, f64)>> {
        let sql = format!("SELECT {SUMMARY} FROM tracks t WHERE t.id = ?");
        let search = move |conn: &Conn<'_>| {
            let Some(found) = near::search(conn, centre, after, limit)? else { return Ok(None) };
            let (ids, metres): (Vec<_>, Vec<_>) = found.into_iter().unzip();
            let tracks = conn.rows_of(&sql, &ids, summary)?;
            Ok(Some(tracks.into_iter().zip(metres).collect()))
        };
        let found = self.store.read(search).await?;
        found.ok_or(StoreError::GivenUp("too many tracks are equally far from there"))
    }

    /// Encodes the path and computes its length and fingerprint. CPU-heavy for a long path.
    pub fn prepare(track: NewTrack) -> PreparedTrack {
        let path = compact::encode(&track.path);
        let name: String = track.name.chars().take(200).collect();
        // The separator cannot occur in a name, so no two pairs of name and path give the same input.
        let fingerprint =
            Sha256::new().chain_update(&name).chain_update([0]).chain_update(&path).finalize();
        let NewTrack { rate, path: full, owner, .. } = track;
        PreparedTrack {
            name,
            rate,
            length_metres: full.length_metres(),
            points: full.points(),
            start: stored(full.start()),
            fingerprint: fingerprint.into(),
            path,
            created_at_ms: now_ms(),
            owner,
        }
    }

    /// Stores a track, `once`, unless one has the same name and path, even if the caller leaves meanwhile.
    ///
    /// # Errors
    /// Also when the store refuses the values or the owner does not exist; [`StoreError::KeyReused`] when the key came
    /// with another request.
    pub async fn create(
        &self,
        row: PreparedTrack,
        once: Once,
    ) -> Result<Done<Stored>, ChangeError> {
        let quota = self.quota;
        let job = move |tx: &mut Tx<'_>| {
            if let Some(owner) = row.owner
                && !accounts::stays(tx, owner)?
            {
                return Err(ChangeError::UnknownUser);
            }
            once.run(tx, |tx| {
                if let Some(owner) = row.owner {
                    quota.room_for_track(tx, owner, row.path.len())?;
                }
                let stored = row.insert(tx)?;
                if let Stored::Created(id) = stored {
                    // "There is no such track" may be cached for the new id.
                    tx.effects().end([all_tracks(), one_track(id)]);
                }
                Ok(stored)
            })
        };
        self.store.write(job).await
    }

    /// Sets a track's rating, 0 to 5 stars; returns whether there is such a track.
    ///
    /// # Errors
    /// Also when the rating is out of range.
    pub async fn set_rate(&self, id: TrackId, rate: f64) -> Result<bool> {
        let job = move |tx: &mut Tx<'_>| {
            let update = "UPDATE tracks SET rate = ? WHERE id = ?";
            let is_there = tx.run(update, params![rate, id])? > 0;
            if is_there {
                tx.effects().end([all_tracks(), one_track(id)]);
            }
            Ok(is_there)
        };
        self.store.write(job).await
    }

    /// Deletes a track for its owner or the operator, even if the caller leaves meanwhile. Its runs and its ranking
    /// disappear at once, and their rows are deleted later.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delete(
        &self,
        id: TrackId,
        by: impl Into<Remover<TrackState>>,
    ) -> Result<Result<(), Refusal>> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            tx.hold("tracks", id)?;
            let sql =
                "SELECT u.id FROM tracks t LEFT JOIN users u ON u.id = t.owner_id WHERE t.id = ?";
            let owner = tx.first(sql, params![id], |row| row.get(0))?;
            let outcome = by.may(owner, || state(tx, id))?;
            if outcome.is_ok() {
                delete(tx, id)?;
            }
            Ok(outcome)
        };
        self.store.write(job).await
    }

    /// Number of tracks.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count(&self) -> Result<u64> {
        self.store.read(|conn| conn.one("SELECT count(*) FROM tracks", &[])).await
    }
}

fn delete(tx: &mut Tx<'_>, id: TrackId) -> Result<()> {
    // In a file triggers maintain the starts and delete the path, also for a deletion by an operator. On a server the
    // account may not be allowed to create triggers.
    if tx.is_shared() {
        tx.run("DELETE FROM track_starts WHERE id = ?", params![id])?;
        tx.run("DELETE FROM track_paths WHERE track_id = ?", params![id])?;
    }
    tx.run("DELETE FROM tracks WHERE id = ?", params![id])?;
    if tx.is_shared() {
        tx.insert_new("INSERT INTO deleted_tracks (id) VALUES (?)", params![id])?;
    }
    tx.effects().end([all_tracks(), one_track(id)]);
    tx.effects().leave_rows();
    Ok(())
}

/// The values of a new row, computed before the transaction, which then holds the writer only for the SQL.
pub struct PreparedTrack {
    name: String,
    rate: f64,
    length_metres: f64,
    points: usize,
    start: Point,
    fingerprint: [u8; 32],
    path: Vec<u8>,
    created_at_ms: i64,
    owner: Option<UserId>,
}

/// Rounds a point as in the stored path, to 1e-7 degrees: in the table of starts each such spot is a cell.
fn stored(point: Point) -> Point {
    let round = |degrees: f64| (degrees * 1e7).round() / 1e7;
    Point { lat: round(point.lat), lon: round(point.lon), ele: None }
}

impl PreparedTrack {
    fn insert(&self, tx: &Tx<'_>) -> Result<Stored> {
        let inserted = tx.insert_new(
            "INSERT INTO tracks (name, rate, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms, owner_id)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                self.name,
                self.rate,
                self.length_metres,
                self.points,
                self.start.lat,
                self.start.lon,
                self.fingerprint,
                self.created_at_ms,
                self.owner
            ],
        )?;
        let Some(id) = inserted else {
            // The other track may be deleted before it is read: then the client retries.
            let same = "SELECT id FROM tracks WHERE fingerprint = ?";
            let id = tx.first(same, params![self.fingerprint], |row| row.get(0))?;
            return id.map(Stored::Exists).ok_or(StoreError::Busy);
        };
        tx.run("INSERT INTO track_paths (track_id, path) VALUES (?, ?)", params![id, self.path])?;
        if tx.is_shared() {
            let cell = near::code_of(self.start);
            tx.run(
                "INSERT INTO track_starts (cell, lat, lon, id) VALUES (?, ?, ?, ?)",
                params![cell, self.start.lat, self.start.lon, id],
            )?;
        }
        Ok(Stored::Created(id))
    }
}

fn state(conn: &Conn<'_>, id: TrackId) -> Result<Option<TrackState>> {
    conn.first("SELECT fingerprint, rate FROM tracks WHERE id = ?", params![id], |row| {
        Ok(TrackState { fingerprint: row.get(0)?, rate: row.get(1)? })
    })
}

fn summary(row: &Row<'_>) -> Result<TrackSummary> {
    let (id, name, rate, length_metres, points_total, lat, lon) = columns(row)?;
    let start = Point { lat, lon, ele: None };
    Ok(TrackSummary { id, name, rate, length_metres, points_total, start })
}

/// SQLite seeks by a pair, MariaDB by two ranges.
const BY_LENGTH: Sql<'_> = Sql::each(
    "SELECT t.id, t.name, t.rate, t.length_metres, t.points, t.start_lat, t.start_lon FROM tracks t
     WHERE (t.length_metres, t.id) < (?1, ?2) ORDER BY t.length_metres DESC, t.id DESC LIMIT ?3",
    "SELECT t.id, t.name, t.rate, t.length_metres, t.points, t.start_lat, t.start_lon FROM tracks t
     WHERE t.length_metres < ?1 OR t.length_metres = ?1 AND t.id < ?2
     ORDER BY t.length_metres DESC, t.id DESC LIMIT ?3",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    #[tokio::test]
    async fn a_listing_reads_its_index_and_sorts_nothing() {
        let (store, _dir) = Store::fresh(&Sources::new());
        let length = store.plan(BY_LENGTH.sqlite()).await;
        assert!(length.contains("USING INDEX tracks_by_length (length_metres<?)"), "{length}");
        assert!(!length.contains("TEMP B-TREE"), "{length}");
    }
}
