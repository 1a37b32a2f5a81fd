//! Schedules: what a user plans, where and when; at most so many of them.
//!
//! What was wrong in the documented system: the limit was checked apart from the insert, so parallel
//! requests went past it, or blocked each other until the database gave up. Here check and insert are
//! one conditional update and one insert in one transaction; the documented ways are kept beside it
//! in files of their own, to be measured.
//!
//! A schedule is its owner's alone: others see and delete none of it. Nothing of it is cached. What
//! follows a commit (the figures below) runs on the writer's thread, as a part of the transaction, so
//! a client that leaves cannot stop it.

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
use crate::http::{By, Refusal};
use crate::idempotency::{Done, Once};
use crate::ops::openapi::Api;
use crate::response_cache::{Bodies, ResponseCache};
use crate::store::{Result, Store, StoreError};
use madang_cache::ConfigError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use utoipa_axum::routes;

/// Routes of schedules and their places.
pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(list::create, list::list))
        .routes(routes!(one::one, one::delete))
        .routes(routes!(locations::list))
}

/// What a user leaves who is deleted.
pub(crate) const OF_USER: &[DependentRows] = &[
    DependentRows::delete("schedules", "user_id", "id"),
    DependentRows::delete("schedule_counts", "user_id", "user_id"),
];

/// The system: its store, its limit, the cached responses of the places.
#[derive(Clone, Debug)]
pub struct Schedules {
    store: ScheduleStore,
    limit: ScheduleLimit,
    responses: ResponseCache,
    locations: Bodies,
    pub(crate) metrics: Arc<ScheduleMetrics>,
}

/// Why a schedule could not be stored.
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

/// What has happened since the start.
#[derive(Debug, Default)]
pub(crate) struct ScheduleMetrics {
    pub(crate) created: AtomicU64,
    /// Because of the limit.
    pub(crate) refused: AtomicU64,
    /// By their owners.
    pub(crate) deleted: AtomicU64,
}

impl Schedules {
    /// Schedules in `store`, those of the places among `responses`.
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
            metrics: Arc::default(),
        })
    }

    /// The store of schedules.
    pub fn store(&self) -> &ScheduleStore {
        &self.store
    }

    /// Stores a schedule, `once`, unless its owner has as many as allowed (`schedules.limit`).
    ///
    /// Dropping the future does not undo it: once the write was taken it is committed and counted. Nothing is stored on
    /// an error, unless it [is unknown](StoreError::is_unknown).
    async fn add(&self, new: NewSchedule, once: Once) -> Result<Done<ScheduleId>, CreateError> {
        let metrics = Arc::clone(&self.metrics);
        let committed = move || _ = metrics.created.fetch_add(1, Relaxed);
        let created = self.store.create(new, once, self.limit, committed).await;
        if matches!(created, Err(CreateError::LimitReached)) {
            self.metrics.refused.fetch_add(1, Relaxed);
        }
        created
    }

    /// Deletes a schedule of this user. Dropping the future does not undo it.
    async fn remove(&self, id: ScheduleId, by: By<Schedule>) -> Result<Result<(), Refusal>> {
        let metrics = Arc::clone(&self.metrics);
        let committed = move || _ = metrics.deleted.fetch_add(1, Relaxed);
        self.store.delete(id, by, committed).await
    }
}

/// Places change with migrations only, so within one run of the program not at all.
const LOCATIONS_TTL: Duration = Duration::from_secs(24 * 3600);
