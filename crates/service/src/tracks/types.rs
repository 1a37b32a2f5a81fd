//! What a track is to the rest of the program.

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

/// A name from a file or a query, by the rule of every title: one line of `NAME_CHARS` in normal form C,
/// without controls of direction and fillers.
pub fn track_name(text: &str) -> Option<String> {
    one_line(text.trim(), NAME_CHARS)
}

/// A track without its path: what a list shows.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackSummary {
    /// Identifier.
    pub id: TrackId,
    /// Name, 1 to 200 characters.
    pub name: String,
    /// Rating in stars, 0 to 5; 0 = not rated.
    pub rate: f64,
    /// Length of the full path in metres, whatever detail is asked for.
    pub length_metres: f64,
    /// Points of the full path.
    pub points_total: u64,
    /// First point, WGS 84 degrees.
    pub start: Point,
}

/// A track whose path is still in its stored form; decoding it is work for the compute pool.
#[derive(Clone, Debug)]
pub struct StoredTrack {
    /// All but the path.
    pub summary: TrackSummary,
    /// The path as `madang_path::compact` wrote it.
    pub path: Vec<u8>,
    /// What changes when the track does.
    pub state: TrackState,
}

/// What tells the states of a track apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrackState {
    /// Hash of its name and path.
    pub fingerprint: Vec<u8>,
    /// Rating in stars.
    pub rate: f64,
}

impl TrackState {
    /// What the tags of all its responses begin with.
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
    /// Who uploaded it; nobody owns a public trail.
    pub owner: Option<UserId>,
}

/// What became of a [`NewTrack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stored {
    /// It is new, under this id.
    Created(TrackId),
    /// The same name and path were there already, under this id.
    Exists(TrackId),
}

impl Replayable for Stored {
    fn is_made(&self) -> bool {
        matches!(self, Stored::Created(_))
    }
}

/// Where a listing goes on: after these metres, of length or distance, and this id.
pub(crate) type Position = (f64, TrackId);
