//! A track as bytes: JSON with points or polylines, GeoJSON, GPX.

use super::TrackId;
use super::types::{StoredTrack, TrackSummary};
use crate::config::{Detail, Simplify};
use crate::http::body::{Compress, finish_version};
use crate::response_cache::LoadError;
use madang_cache::Value;
use madang_path::{Path, Point, compact, geojson, gpx, polyline, simplify, write};
use serde_json::{Map, json};

/// Decimals of an encoded polyline: 5 is what maps expect, about 1 m.
const POLYLINE_PRECISION: u32 = 5;
/// One degree of latitude in metres on the mean sphere, for stating a tolerance in degrees.
const METRES_PER_DEGREE: f64 = madang_path::EARTH_RADIUS_METRES * std::f64::consts::PI / 180.0;

/// Form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// JSON, `segments` of `[lat, lon, ele?]`.
    Points,
    /// JSON, `polylines` in Google's encoding.
    Polyline,
    /// GeoJSON feature (RFC 7946).
    GeoJson,
    /// GPX 1.1.
    Gpx,
}

impl Form {
    /// Letter in cache keys.
    pub(super) fn letter(self) -> char {
        match self {
            Form::Points => 'p',
            Form::Polyline => 'l',
            Form::GeoJson => 'g',
            Form::Gpx => 'x',
        }
    }

    /// Maximum bytes of a point with an elevation.
    pub(super) fn point_bytes(self) -> usize {
        match self {
            Form::Points | Form::GeoJson => 40,
            Form::Polyline => 16,
            Form::Gpx => 76,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Form::Points | Form::Polyline => "application/json",
            Form::GeoJson => "application/geo+json",
            Form::Gpx => "application/gpx+xml",
        }
    }
}

/// Selects one of a track's many responses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recipe {
    pub detail: Detail,
    pub form: Form,
    pub simplify: Simplify,
}

impl Recipe {
    /// Maximum memory in bytes for making the body of a path: the path, its simplified copy, and the text.
    pub(super) fn most_bytes(self, points: u64) -> usize {
        let paths = if self.detail == Detail::Full { 1 } else { 2 };
        let each = paths * size_of::<Point>() + self.form.point_bytes();
        usize::try_from(points).unwrap_or(usize::MAX).saturating_mul(each).saturating_add(4096)
    }
}

/// Makes the finished body. CPU-heavy: belongs on the compute pool.
pub(super) fn render(
    track: &StoredTrack,
    recipe: Recipe,
    compress: Compress,
) -> Result<Value, LoadError> {
    let damaged = |why: String| {
        LoadError::Damaged(format!("track {}: the stored path is damaged: {why}", track.summary.id))
    };
    let full = compact::decode(&track.path).map_err(|e| damaged(e.to_string()))?;
    let (path, tolerance) = match (recipe.detail, recipe.simplify) {
        (Detail::Full, _) => (full, 0.0),
        (detail, Simplify::Metres) => {
            let tolerance = detail.tolerance_metres();
            (simplify::metres(&full, tolerance).map_err(|e| damaged(e.to_string()))?, tolerance)
        }
        (_, Simplify::Degrees(degrees)) => {
            let path = simplify::degrees(&full, degrees).map_err(|e| damaged(e.to_string()))?;
            (path, round(degrees * METRES_PER_DEGREE, 1))
        }
    };
    let body = match recipe.form {
        Form::Points | Form::Polyline => json_body(&track.summary, &path, recipe, tolerance),
        Form::GeoJson => {
            let mut out = Vec::with_capacity(path.points() * 24 + 512);
            geojson::write(
                &path,
                &properties(&track.summary, &path, recipe.detail, tolerance),
                &mut out,
            );
            out
        }
        Form::Gpx => {
            let mut out = Vec::with_capacity(path.points() * 64 + 512);
            gpx::write(Some(&track.summary.name), &path, &mut out);
            out
        }
    };
    Ok(finish_version(&track.state.version(), body, recipe.form.content_type(), compress))
}

fn properties(
    track: &TrackSummary,
    path: &Path,
    detail: Detail,
    tolerance: f64,
) -> Map<String, serde_json::Value> {
    let fields = json!({
        "id": track.id,
        "name": track.name,
        "rate": track.rate,
        "lengthMetres": length(track.length_metres),
        "pointsTotal": track.points_total,
        "pointsReturned": path.points(),
        "detail": detail.name(),
        "toleranceMetres": tolerance,
    });
    match fields {
        serde_json::Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn json_body(track: &TrackSummary, path: &Path, recipe: Recipe, tolerance: f64) -> Vec<u8> {
    let head = properties(track, path, recipe.detail, tolerance);
    let mut out = Vec::with_capacity(path.points() * 24 + 512);
    // Serialising a map of plain values into memory cannot fail.
    let _ = serde_json::to_writer(&mut out, &head);
    out.pop();
    if recipe.form == Form::Polyline {
        let lines: Vec<String> =
            path.segments().iter().map(|s| polyline::encode(s, POLYLINE_PRECISION)).collect();
        out.extend_from_slice(b",\"polylines\":");
        let _ = serde_json::to_writer(&mut out, &lines);
    } else {
        out.extend_from_slice(b",\"segments\":");
        write::points_json(path, &mut out);
    }
    out.push(b'}');
    out
}

/// Rounds a length to centimetres: finer digits are noise.
pub(super) fn length(metres: f64) -> f64 {
    round(metres, 2)
}

fn round(value: f64, decimals: i32) -> f64 {
    let factor = 10f64.powi(decimals);
    (value * factor).round() / factor
}

/// The cache key of a body; short, because it is built for every request.
pub(super) fn key(id: TrackId, detail: Detail, form: Form) -> String {
    use std::fmt::Write as _;
    let mut key = String::with_capacity(24);
    let _ = write!(key, "{id}.{}", detail.name().as_bytes()[0] as char);
    key.push(form.letter());
    key
}

#[cfg(test)]
mod tests {
    use super::super::types::TrackState;
    use super::*;

    #[test]
    fn no_body_is_larger_than_what_is_reckoned_for_its_points() {
        let points = 2000;
        // The maximum of digits, with signs.
        let widest = |n: u32| {
            let shift = f64::from(n % 7) * 1e-7;
            Point { lat: -89.123_456_1 - shift, lon: -179.123_456_1 - shift, ele: Some(-99_999.99) }
        };
        let path = Path::new(vec![(0..points).map(widest).collect()]).unwrap();
        let summary = TrackSummary {
            id: i64::MAX,
            name: "&".repeat(200),
            length_metres: 1e9,
            rate: 0.5,
            start: path.start(),
            points_total: points.into(),
        };
        let state = TrackState { fingerprint: vec![0; 32], rate: 0.5 };
        let track = StoredTrack { summary, path: compact::encode(&path), state };
        for form in [Form::Points, Form::Polyline, Form::GeoJson, Form::Gpx] {
            let recipe = Recipe { detail: Detail::Full, form, simplify: Simplify::Metres };
            let body = render(&track, recipe, Compress::NO).unwrap();
            let most = form.point_bytes() * points as usize + 4096;
            assert!(body.identity().len() <= most, "{form:?}: {}", body.identity().len());
            assert!(recipe.most_bytes(points.into()) >= most);
        }
    }
}
