//! Runs on a track, and the ranking: one personal best for each runner.
//!
//! Every run is stored. The transaction that stores it also decides whether it is ranked, by one conditional
//! statement on a row whose key is the track and the runner: two simultaneous runs cannot both become the best, and
//! the slower cannot replace the faster.

pub(super) mod create;
pub(super) mod list;
mod store;

pub(super) use store::OF_TRACK;
pub(super) use store::RecordStore;

use super::TrackId;
use crate::accounts::UserId;
use crate::idempotency::Replayable;
use madang_cache::Stamp;
use serde::{Deserialize, Serialize};

/// A run to be stored. Times are in milliseconds since 1970 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    pub track: TrackId,
    pub user: UserId,
    pub duration_ms: i64,
    /// When it began.
    pub ran_at_ms: i64,
    pub created_at_ms: i64,
}

/// Result of storing a [`NewRun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRun {
    pub id: i64,
    /// It is now the runner's best on this track.
    pub personal_best: bool,
    /// When it began, as sent or assumed.
    pub ran_at_ms: i64,
}

impl Replayable for StoredRun {
    fn is_made(&self) -> bool {
        true
    }
}

/// A runner's best run on a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    pub id: i64,
    pub user: UserId,
    pub nickname: String,
    pub duration_ms: i64,
    /// When it began, in milliseconds since 1970 UTC.
    pub ran_at_ms: i64,
    /// 1 + the number of faster runners.
    pub rank: u64,
}

/// Stamp of a track's ranking.
pub(super) fn ranking_of(track: TrackId) -> Stamp {
    Stamp::from_args(format_args!("track-ranking:{track}"))
}

/// Milliseconds of a run in the unit of the API.
#[allow(clippy::cast_precision_loss, reason = "at most a week in milliseconds")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
