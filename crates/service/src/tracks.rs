//! Running tracks: lists by nearness and by length, and paths at fixed levels of detail.
//!
//! In the documented system a long path was read, turned into thousands of objects and into JSON for every request.
//! Here the finished body is made once, simplified in metres, compressed, and cached; a request for it touches
//! neither the store nor the path.

pub(crate) mod create;
pub(crate) mod list;
mod near;
mod one;
mod records;
mod represent;
mod store;
mod types;

pub(crate) use create::is_upload;
pub use store::{PreparedTrack, TrackStore};
pub(crate) use types::NAME_CHARS;
use types::TrackState;
pub use types::{NewTrack, Stored, TrackId, track_name};

use crate::config::{Settings, TrackSettings};
use crate::housekeeping::{DependentRows, Leftovers};
use crate::http::Problem;
use crate::ops::openapi::Api;
use crate::response_cache::{Bodies, ResponseCache};
use crate::store::Store;
use madang_cache::{ConfigError, Stamp};
use records::RecordStore;
use utoipa_axum::routes;

pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(list::list, create::create))
        .routes(routes!(one::one, one::delete))
        .routes(routes!(records::list::list, records::create::create))
}

/// Runs and ranking of a deleted track.
pub(crate) const LEFTOVERS: Leftovers =
    Leftovers { noted: "deleted_tracks", dependents: &[records::OF_TRACK] };

/// Rows that a deleted user leaves: tracks lose their owner, runs and places in rankings are deleted.
pub(crate) const OF_USER: &[DependentRows] = &[
    DependentRows::clear("tracks", "owner_id", "id"),
    DependentRows::delete("track_bests", "user_id", "track_id")
        .ending("track_id", records::ranking_of),
    DependentRows::delete("track_records", "user_id", "id"),
];

/// Tracks, runs and rankings: stores, cached responses, and settings.
#[derive(Clone, Debug)]
pub struct Tracks {
    store: TrackStore,
    responses: ResponseCache,
    details: Bodies,
    lists: Bodies,
    records: RecordStore,
    rankings: Bodies,
    settings: TrackSettings,
}

impl Tracks {
    /// Tracks in `store`, cached in `responses`.
    ///
    /// # Errors
    /// When a setting of the cache is invalid.
    pub fn new(
        store: Store,
        responses: ResponseCache,
        settings: &Settings,
    ) -> Result<Self, ConfigError> {
        let ttl = settings.cache.ttl.tracks;
        Ok(Self {
            records: RecordStore::new(store.clone(), settings.limits.quota),
            store: TrackStore::new(store, settings.limits.quota),
            details: responses.things("tracks", ttl)?,
            lists: responses.listings("track_lists", ttl)?,
            rankings: responses.listings("track_rankings", ttl)?,
            responses,
            settings: settings.tracks.clone(),
        })
    }

    /// The store of tracks.
    pub fn store(&self) -> &TrackStore {
        &self.store
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

fn no_such_track() -> Problem {
    Problem::not_found("there is no track with this id")
}
