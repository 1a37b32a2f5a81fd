//! Schedules: a user's plans with place and time, limited in number.
//!
//! In the documented system the limit was checked apart from the insert, so parallel requests exceeded it, or blocked
//! each other until the database gave up. Here check and insert are one conditional update and one insert in one
//! transaction; the documented ways are kept for comparison.
//!
//! Only its owner can see and delete a schedule. It is not cached. The counters below change on the writer's thread
//! after the commit, so a client that leaves cannot stop that.

pub(crate) mod draft;
mod limit;
mod list;
mod locations;
mod one;
mod store;
#[cfg(test)]
mod tests;
mod types;

use limit::ScheduleLimit;
pub use store::ScheduleStore;
use types::{Location, Schedule};
pub use types::{LocationId, NewSchedule, ScheduleId};

use crate::config::Settings;
use crate::housekeeping::DependentRows;
use crate::ops::openapi::Api;
use crate::response_cache::{Bodies, ResponseCache};
use crate::store::{Store, StoreError};
use madang_cache::ConfigError;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use utoipa_axum::routes;

pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(list::create, list::list))
        .routes(routes!(one::one, one::delete))
        .routes(routes!(locations::list))
}

/// Rows that a deleted user leaves.
pub(crate) const OF_USER: &[DependentRows] = &[
    DependentRows::delete("schedules", "user_id", "id"),
    DependentRows::delete("schedule_counts", "user_id", "user_id"),
];

/// Schedules and places: store, limit, and cached responses of the places.
#[derive(Clone, Debug)]
pub struct Schedules {
    store: ScheduleStore,
    limit: ScheduleLimit,
    responses: ResponseCache,
    locations: Bodies,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CreateError {
    #[error("the limit of schedules per user is reached")]
    LimitReached,
    #[error("there is no such location")]
    UnknownLocation,
    #[error("there is no such user")]
    UnknownUser,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct ScheduleMetrics {
    pub(crate) created: AtomicU64,
    /// Refused because of the limit.
    pub(crate) refused: AtomicU64,
    /// Deleted by their owners.
    pub(crate) deleted: AtomicU64,
}

impl Schedules {
    /// Schedules in `store`; `responses` caches the places.
    ///
    /// # Errors
    /// When a setting of the cache is invalid.
    pub fn new(
        store: Store,
        responses: ResponseCache,
        settings: &Settings,
    ) -> Result<Self, ConfigError> {
        let schedules = &settings.schedules;
        Ok(Self {
            store: ScheduleStore::new(store),
            limit: ScheduleLimit { most: schedules.limit, check: schedules.limit_check },
            locations: responses.listings("locations", LOCATIONS_TTL)?,
            responses,
        })
    }

    /// The store of schedules.
    pub fn store(&self) -> &ScheduleStore {
        &self.store
    }
}

/// Places change only with migrations, never while the program runs.
const LOCATIONS_TTL: Duration = Duration::from_secs(24 * 3600);
