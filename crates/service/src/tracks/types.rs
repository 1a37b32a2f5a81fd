//! Types of tracks.

use crate::accounts::UserId;
use crate::http::body::version;
use crate::http::json::one_line;
use crate::idempotency::Replayable;
use madang_path::{Path, Point};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Identifier of a track, never reused.
pub type TrackId = i64;

/// Characters of a name.
pub const NAME_CHARS: RangeInclusive<usize> = 1..=200;

/// A name from a file or a query, by the rules of every title: one line of 1 to 200 characters in normal form C,
/// without direction controls and fillers; `None` if it breaks them.
pub fn track_name(text: &str) -> Option<String> {
    one_line(text.trim(), NAME_CHARS)
}

/// A track without its path.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackSummary {
    pub id: TrackId,
    pub name: String,
    /// Rating in stars, 0 to 5; 0 = not rated.
    pub rate: f64,
    /// Length of the full path.
    pub length_metres: f64,
    /// Points of the full path.
    pub points_total: u64,
    pub start: Point,
}

/// A track with its path in the stored form; decoding it is work for the compute pool.
#[derive(Clone, Debug)]
pub struct StoredTrack {
    pub summary: TrackSummary,
    /// In the form of `madang_path::compact`.
    pub path: Vec<u8>,
    pub state: TrackState,
}

/// The mutable state of a track, from which its version is computed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrackState {
    /// Hash of its name and path.
    pub fingerprint: Vec<u8>,
    /// Rating in stars.
    pub rate: f64,
}

impl TrackState {
    /// Prefix of the entity tags of all its responses.
    pub fn version(&self) -> Box<str> {
        version(self)
    }
}

/// A track to be stored.
#[derive(Clone, Debug)]
pub struct NewTrack {
    /// Name, cut to 200 characters.
    pub name: String,
    /// Rating in stars, 0 to 5; 0 = not rated.
    pub rate: f64,
    /// The full path.
    pub path: Path,
    /// The user who uploaded it; `None` for a public trail.
    pub owner: Option<UserId>,
}

/// Result of storing a [`NewTrack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stored {
    /// It was created with this id.
    Created(TrackId),
    /// A track of this id already has the same name and path.
    Exists(TrackId),
}

impl Replayable for Stored {
    fn is_made(&self) -> bool {
        matches!(self, Stored::Created(_))
    }
}

/// Position in a listing: metres of length or distance, and id.
pub(crate) type Position = (f64, TrackId);
