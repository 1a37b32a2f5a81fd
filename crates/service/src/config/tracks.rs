//! `tracks.*`.

use super::keys::settings;
use super::value::{kind, named, word};
use serde::Deserialize;

settings! {
    /// `tracks.*`: detail, and what is cached.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TrackSettings {
        detail: Detail = "tracks.detail", "medium", word("full, high, medium or low"),
            "Detail of a track if the request names none (documented system: full)";
        simplify: Simplify = "tracks.simplify", "metres",
            kind("metres, or degrees:TOLERANCE", simplify),
            "Unit in which paths are simplified (documented system: degrees:0.0005)";
        cache_from_metres: f64 = "tracks.cache_from_metres", "0",
            kind("a length in metres", metres),
            "Minimum length of a cached track; 0 = all are cached (documented system: 10000)";
    }
}

/// Fixed levels of detail. There is no free tolerance: every value would be a cache key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// Every point.
    Full,
    /// Within 2 m.
    High,
    /// Within 10 m.
    Medium,
    /// Within 50 m.
    Low,
}

impl Detail {
    /// The level of this name, as in `?detail=`.
    pub fn parse(text: &str) -> Option<Detail> {
        named(text)
    }

    /// The name, as in `?detail=`.
    pub fn name(self) -> &'static str {
        match self {
            Detail::Full => "full",
            Detail::High => "high",
            Detail::Medium => "medium",
            Detail::Low => "low",
        }
    }

    /// Largest distance in metres of a left-out point from the line that is returned.
    pub fn tolerance_metres(self) -> f64 {
        match self {
            Detail::Full => 0.0,
            Detail::High => 2.0,
            Detail::Medium => 10.0,
            Detail::Low => 50.0,
        }
    }
}

/// How a path is simplified for a level below `full`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Simplify {
    /// In metres on the sphere, the level's own tolerance.
    Metres,
    /// As documented by the system this reproduces: one tolerance in degrees for every level below `full`.
    Degrees(f64),
}

fn simplify(value: &str) -> Option<Simplify> {
    if value == "metres" {
        return Some(Simplify::Metres);
    }
    let degrees = value.strip_prefix("degrees:")?.parse().ok()?;
    (degrees > 0.0 && degrees <= 1.0).then_some(Simplify::Degrees(degrees))
}

fn metres(value: &str) -> Option<f64> {
    value.parse().ok().filter(|metres: &f64| metres.is_finite() && *metres >= 0.0)
}
