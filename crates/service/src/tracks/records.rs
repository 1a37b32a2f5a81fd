//! Runs on a track, and the ranking: one personal best for each runner.
//!
//! Every run is kept. Which of a runner's is ranked is decided in the transaction that stores a run,
//! by one conditional statement on a row whose key is the track and the runner: two phones that send
//! at the same moment cannot both become a best, and the slower one cannot replace the faster.

pub(super) mod create;
pub(super) mod list;
mod store;

pub(super) use store::OF_TRACK;
pub use store::RecordStore;

use super::TrackId;
use crate::accounts::UserId;
use crate::idempotency::Replayable;
use madang_cache::Stamp;
use serde::{Deserialize, Serialize};

/// A run to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// On which track.
    pub track: TrackId,
    /// By whom.
    pub user: UserId,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// When it began, in milliseconds since 1970 UTC.
    pub ran_at_ms: i64,
    /// When it was sent in, likewise.
    pub created_at_ms: i64,
}

/// What became of a [`NewRun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRun {
    /// Its id.
    pub id: i64,
    /// Whether it is now the runner's best on this track.
    pub personal_best: bool,
    /// When it began, in milliseconds since 1970 UTC: what was sent, or what was taken for it.
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
    /// Id of the run.
    pub id: i64,
    /// The runner.
    pub user: UserId,
    /// The runner's name.
    pub nickname: String,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// When it began, in milliseconds since 1970 UTC.
    pub ran_at_ms: i64,
    /// Place: 1 + how many runners were faster.
    pub rank: u64,
}

/// Where a ranking goes on: after this time and this runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfterTime {
    /// Time of the last runner, in milliseconds.
    pub duration_ms: i64,
    /// Who that was.
    pub user: UserId,
}

/// What a track's ranking depends on, besides the track itself.
pub(super) fn ranking_of(track: TrackId) -> Stamp {
    Stamp::from_args(format_args!("track-ranking:{track}"))
}

/// Milliseconds of a run in the unit of the API.
#[allow(clippy::cast_precision_loss, reason = "at most a week in milliseconds")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
