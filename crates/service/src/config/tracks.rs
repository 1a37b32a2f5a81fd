//! `tracks.*`: detail and caching.

use super::keys::settings;
use super::value::{kind, named, word};
use serde::Deserialize;

settings! {
    /// `tracks.*`: detail and caching.
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

/// Levels of detail. There is no free tolerance: each value would be a cache key of its own.
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
    pub(crate) fn parse(text: &str) -> Option<Detail> {
        named(text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Detail::Full => "full",
            Detail::High => "high",
            Detail::Medium => "medium",
            Detail::Low => "low",
        }
    }

    /// Maximum distance in metres of an omitted point from the returned line.
    pub(crate) fn tolerance_metres(self) -> f64 {
        match self {
            Detail::Full => 0.0,
            Detail::High => 2.0,
            Detail::Medium => 10.0,
            Detail::Low => 50.0,
        }
    }
}

/// Simplification of a path for a level below `full`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Simplify {
    /// In metres on the sphere, with the level's own tolerance.
    Metres,
    /// One tolerance in degrees for every level below `full`, as in the documented system.
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
