//! Running tracks: lists by nearness and by length, and paths at fixed levels of detail.
//!
//! What was slow in the documented system: a long path was read, turned into thousands of objects
//! and into JSON for every request. Here the finished body is made once, simplified in metres,
//! compressed, and kept; a request for it touches neither the store nor the path.

mod detail;
mod list;
mod near;
pub mod records;
mod represent;
mod store;
mod types;
mod upload;

pub use represent::Form;
pub use store::{PreparedTrack, TrackStore};
pub use types::{
    AfterDistance, AfterLength, Deleted, NewTrack, Stored, StoredTrack, TrackId, TrackSummary,
};

use crate::accounts::UserId;
use crate::app::App;
use crate::config::{CacheMode, CacheSettings, Settings, TrackSettings};
use crate::http::{Gate, Problem};
use crate::idempotency::{Done, Once};
use crate::store::{Pool, PoolError, Store, StoreError};
use madang_cache::{Cache, CacheError, ConfigError, NamedCache, Policy, Stamp, WriteError};
use records::RecordStore;
use std::sync::Arc;
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Routes of tracks.
pub fn router() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list::list, upload::create))
        .routes(routes!(detail::detail, upload::delete))
        .routes(routes!(records::ranking::ranking, records::add::add))
}

/// The system: its store, its cached bodies, and the threads that make them.
#[derive(Clone, Debug)]
pub struct Tracks {
    store: TrackStore,
    cache: Cache,
    details: NamedCache<LoadError>,
    lists: NamedCache<LoadError>,
    records: RecordStore,
    rankings: NamedCache<LoadError>,
    compute: Arc<Pool<()>>,
    /// What everything passes that is not in the cache.
    reads: Gate,
    settings: TrackSettings,
    compression: bool,
    max_entry: usize,
}

/// Why a body could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The threads for heavy work did not.
    #[error("compute pool: {0}")]
    Compute(#[from] PoolError),
    /// What is stored is no path.
    #[error("track {0}: the stored path is damaged: {1}")]
    Damaged(TrackId, String),
}

/// Why a track could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteTrackError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cache takes no more writes at once.
    #[error(transparent)]
    Cache(#[from] WriteError),
    /// Its owner is gone, or never was.
    #[error("there is no such user")]
    UnknownUser,
    /// The task that ran the write was ended with its event loop.
    #[error("the write was abandoned: its outcome is unknown")]
    Abandoned,
}

impl Tracks {
    /// Tracks in `store`, cached in `cache`.
    ///
    /// # Errors
    /// When the cache has parts of these names already, or its settings cannot work.
    pub fn new(
        store: Store,
        cache: Cache,
        compute: Arc<Pool<()>>,
        reads: Gate,
        settings: &Settings,
    ) -> Result<Self, ConfigError> {
        let policy = policy(&settings.cache, &reads);
        Ok(Self {
            records: RecordStore::new(store.clone()),
            store: TrackStore::new(store),
            details: cache.named("tracks", policy.clone())?,
            lists: cache.named("track_lists", policy.clone())?,
            rankings: cache.named("track_rankings", policy)?,
            cache,
            compute,
            reads,
            settings: settings.tracks.clone(),
            compression: settings.compression,
            max_entry: settings.cache.max_entry,
        })
    }

    /// The store of tracks.
    pub fn store(&self) -> &TrackStore {
        &self.store
    }

    /// Stores a track unless it is there already. Runs to its end even when the caller goes away.
    ///
    /// # Errors
    /// When the store or the cache cannot take it; nothing was stored then, unless the error says
    /// that the outcome is unknown.
    pub async fn add(&self, track: NewTrack) -> Result<Stored, WriteTrackError> {
        // Packing and hashing a long path is no work for an event loop.
        let prepared = self.compute.run(move |()| TrackStore::prepare(track)).await;
        self.add_prepared(prepared.map_err(StoreError::from)?).await
    }

    /// [`add`](Self::add) for a track that was prepared elsewhere. Of several that are called in turn
    /// the first gets the lowest id.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn add_prepared(&self, prepared: PreparedTrack) -> Result<Stored, WriteTrackError> {
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
    ) -> Result<Done<Stored>, WriteTrackError> {
        let this = self.clone();
        run_to_end(async move {
            let write = this.cache.begin_write(&[all_tracks()]).await?;
            let stored = this.store.insert_once(prepared, once).await?;
            let Stored::Created(id) = stored.outcome else {
                write.unchanged().await?;
                return Ok(stored);
            };
            if stored.replayed {
                write.unchanged().await?;
                return Ok(stored);
            }
            // "There is no such track" may be remembered for the id that is now taken. The track
            // stands by now, so a cache that cannot be told is no reason to report a failure.
            match this.cache.begin_write(&[one_track(id)]).await {
                Ok(taken) => taken.finish().await?,
                Err(error) => {
                    tracing::warn!(%error, id, "a remembered absence may outlive a new track");
                }
            }
            write.finish().await?;
            Ok(stored)
        })
        .await
    }

    /// Sets a track's rating, 0 to 5 stars; answers whether there is such a track. Runs to its end even
    /// when the caller goes away.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn set_rate(&self, id: TrackId, rate: f64) -> Result<bool, WriteTrackError> {
        let this = self.clone();
        run_to_end(async move {
            let write = this.cache.begin_write(&[all_tracks(), one_track(id)]).await?;
            let found = this.store.set_rate(id, rate).await?;
            write.finish().await?;
            Ok(found)
        })
        .await
    }

    /// Deletes a track; answers whether there was one. Runs to its end even when the caller goes away.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn remove(&self, id: TrackId) -> Result<bool, WriteTrackError> {
        let this = self.clone();
        run_to_end(async move {
            let write = this.cache.begin_write(&[all_tracks(), one_track(id)]).await?;
            let removed = this.store.delete(id).await?;
            write.finish().await?;
            Ok(removed)
        })
        .await
    }

    /// Deletes a track of this owner. Runs to its end even when the caller goes away.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn remove_owned(
        &self,
        id: TrackId,
        owner: UserId,
    ) -> Result<Deleted, WriteTrackError> {
        let this = self.clone();
        run_to_end(async move {
            let write = this.cache.begin_write(&[all_tracks(), one_track(id)]).await?;
            let deleted = this.store.delete_owned(id, owner).await?;
            match deleted {
                Deleted::Gone => write.finish().await?,
                // Anybody may ask; the bodies that everybody reads must not pay for it.
                Deleted::NotOwner | Deleted::Missing => write.unchanged().await?,
            }
            Ok(deleted)
        })
        .await
    }

    fn is_kept(&self, length_metres: f64) -> bool {
        self.details.policy().enabled && length_metres >= self.settings.cache_from_metres
    }
}

/// A task of its own: a client that leaves must not stop a commit half-way to its invalidation.
async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, WriteTrackError>> + Send + 'static,
) -> Result<T, WriteTrackError> {
    crate::http::gate::run_to_end(work).await.unwrap_or(Err(WriteTrackError::Abandoned))
}

fn policy(settings: &CacheSettings, reads: &Gate) -> Policy {
    if settings.mode == CacheMode::Off {
        return Policy::off();
    }
    // A path changes only through a write, which is seen at once; age matters for nothing but memory.
    let hard_ttl = settings.ttl_tracks.saturating_mul(6).max(Duration::from_secs(60));
    Policy {
        max_entry_bytes: settings.max_entry as u64,
        // Loads queue at the gate alone.
        max_loads_in_flight: reads.capacity(),
        ..Policy::with_ttl(settings.ttl_tracks, hard_ttl)
    }
}

fn all_tracks() -> Stamp {
    Stamp::new("tracks")
}

fn one_track(id: TrackId) -> Stamp {
    Stamp::from_args(format_args!("track:{id}"))
}

impl From<CacheError<LoadError>> for Problem {
    fn from(error: CacheError<LoadError>) -> Self {
        let temporary = match error.load_error() {
            Some(LoadError::Store(store)) => store.is_temporary(),
            Some(LoadError::Compute(pool)) => !matches!(pool, PoolError::Panicked(_)),
            Some(LoadError::Damaged(..)) => false,
            None => !matches!(error, CacheError::Panicked | CacheError::StampCount { .. }),
        };
        if temporary {
            let wait =
                error.retry_after().map_or(1, |d| u32::try_from(d.as_secs()).unwrap_or(60) + 1);
            Problem::unavailable("this cannot be made now", wait, error.to_string())
        } else {
            Problem::internal(error.to_string())
        }
    }
}
