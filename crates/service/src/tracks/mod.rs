//! Running tracks: lists by nearness and by length, and paths at fixed levels of detail.
//!
//! What was slow in the documented system: a long path was read, turned into thousands of objects
//! and into JSON for every request. Here the finished body is made once, simplified in metres,
//! compressed, and kept; a request for it touches neither the store nor the path.

mod detail;
pub(crate) mod list;
mod near;
pub mod records;
mod represent;
mod store;
mod types;
pub(crate) mod upload;

pub use represent::Form;
#[cfg(test)]
pub(crate) use store::tests::plan;
pub use store::{PreparedTrack, TrackStore};
pub use types::{
    AfterDistance, AfterLength, Deleted, NAME_CHARS, NewTrack, Stored, StoredTrack, TrackId,
    TrackState, TrackSummary, track_name,
};
pub(crate) use upload::is_upload;

use crate::bodies::{Bodies, ChangeError, LoadError};
use crate::config::{Settings, TrackSettings};
use crate::housekeeping::{Leftovers, NONE as NO_BODY, Step};
use crate::http::Remover;
use crate::idempotency::{Done, Once};
use crate::ops::openapi::Api;
use crate::store::{Store, StoreError};
use madang_cache::{ConfigError, NamedCache, Stamp};
use records::RecordStore;
use utoipa_axum::routes;

/// Routes of tracks.
pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(list::list, upload::create))
        .routes(routes!(detail::detail, upload::delete))
        .routes(routes!(records::ranking::ranking, records::add::add))
}

/// Runs and ranking of a deleted track.
pub(crate) const LEFTOVERS: Leftovers =
    Leftovers { noted: "deleted_tracks", steps: &[records::OF_TRACK] };

/// What a user leaves who is deleted: tracks without an owner. Their runs go, and their places in rankings.
pub(crate) const OF_USER: &[Step] = &[
    Step {
        find: "SELECT id, id FROM tracks WHERE owner_id = ?1 LIMIT ?2",
        change: "UPDATE tracks SET owner_id = NULL WHERE owner_id = ?1 AND id = ?2",
        ends: NO_BODY,
    },
    Step {
        find: "SELECT track_id, track_id FROM track_bests WHERE user_id = ?1 LIMIT ?2",
        change: "DELETE FROM track_bests WHERE user_id = ?1 AND track_id = ?2",
        ends: |track| Some(records::ranking_of(track)),
    },
    Step {
        find: "SELECT id, id FROM track_records WHERE user_id = ?1 LIMIT ?2",
        change: "DELETE FROM track_records WHERE user_id = ?1 AND id = ?2",
        ends: NO_BODY,
    },
];

/// The system: its store, its cached bodies, and what they are made with.
#[derive(Clone, Debug)]
pub struct Tracks {
    store: TrackStore,
    bodies: Bodies,
    details: NamedCache<LoadError>,
    lists: NamedCache<LoadError>,
    records: RecordStore,
    rankings: NamedCache<LoadError>,
    settings: TrackSettings,
}

impl Tracks {
    /// Tracks in `store`, their bodies among `bodies`.
    ///
    /// # Errors
    /// When the cache has parts of these names already, or its settings cannot work.
    pub fn new(store: Store, bodies: Bodies, settings: &Settings) -> Result<Self, ConfigError> {
        let ttl = settings.cache.ttl.tracks;
        Ok(Self {
            records: RecordStore::new(store.clone()).within(settings.limits.quota),
            store: TrackStore::new(store).within(settings.limits.quota),
            details: bodies.things("tracks", ttl)?,
            lists: bodies.listings("track_lists", ttl)?,
            rankings: bodies.listings("track_rankings", ttl)?,
            bodies,
            settings: settings.tracks.clone(),
        })
    }

    /// The store of tracks.
    pub fn store(&self) -> &TrackStore {
        &self.store
    }

    /// Stores a track unless it is there already. Once the writer has it, it is stored even when the caller
    /// goes away.
    ///
    /// # Errors
    /// When the store cannot take it; nothing was stored then unless the error [is unknown](StoreError::is_unknown).
    pub async fn add(&self, track: NewTrack) -> Result<Stored, ChangeError> {
        // Packing and hashing a long path is no work for an event loop.
        let prepared = self.bodies.compute().run(move |()| TrackStore::prepare(track)).await;
        self.add_prepared(prepared.map_err(StoreError::from)?).await
    }

    /// [`add`](Self::add) for a track that was prepared elsewhere. Of several that are called in turn
    /// the first gets the lowest id.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn add_prepared(&self, prepared: PreparedTrack) -> Result<Stored, ChangeError> {
        Ok(self.add_once(prepared, Once::default()).await?.outcome)
    }

    /// [`add_prepared`](Self::add_prepared), once however often the same request is sent.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn add_once(
        &self,
        prepared: PreparedTrack,
        once: Once,
    ) -> Result<Done<Stored>, ChangeError> {
        self.store.insert_once(prepared, once).await
    }

    /// Sets a track's rating, 0 to 5 stars; answers whether there is such a track. Done even when the
    /// caller goes away.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn set_rate(&self, id: TrackId, rate: f64) -> Result<bool, ChangeError> {
        Ok(self.store.set_rate(id, rate).await?)
    }

    /// Deletes a track; answers whether there was one. Done even when the caller goes away.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn remove(&self, id: TrackId) -> Result<bool, ChangeError> {
        Ok(self.store.delete(id).await?)
    }

    /// Deletes a track, for its owner or the operator. Done even when the caller goes away.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn remove_owned(
        &self,
        id: TrackId,
        by: impl Into<Remover<TrackState>>,
    ) -> Result<Deleted, ChangeError> {
        Ok(self.store.delete_owned(id, by).await?)
    }

    fn is_kept(&self, length_metres: f64) -> bool {
        self.details.policy().enabled && length_metres >= self.settings.cache_from_metres
    }
}

fn all_tracks() -> Stamp {
    Stamp::new("tracks")
}

fn one_track(id: TrackId) -> Stamp {
    Stamp::from_args(format_args!("track:{id}"))
}
