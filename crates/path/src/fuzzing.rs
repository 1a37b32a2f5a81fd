//! Fuzz targets: each passes any bytes to a parser of this crate and panics if a property does not hold. Unit tests
//! replay the stored inputs; otherwise only `scripts/fuzz` uses them.

use crate::write::points_json;
use crate::{Document, Limits, Path, compact, geojson, gpx, polyline, read};

/// Name of a target and of its directory in `fuzz/seeds`, and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[FuzzTarget] =
    &[("paths", paths), ("compact_paths", compact_paths), ("polylines", polylines)];

const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_points: 1000, max_segments: 100 };

/// A GPX or GeoJSON file.
fn paths(data: &[u8]) {
    let Ok(document) = read(data, &LIMITS) else { return };
    let path = &document.path;
    assert!(path.points() <= LIMITS.max_points && path.segments().len() <= LIMITS.max_segments);
    let name = document.name.as_deref();
    assert!(name.is_none_or(|name| {
        !name.is_empty() && name.chars().count() <= 200 && !name.chars().any(char::is_control)
    }));
    stored(path);
    for write in [as_gpx, as_geojson] {
        // The first time it is rounded, and loses what the format cannot hold; from then on it does not change.
        let once =
            read(&write(&document), &Limits::default()).expect("what is written can be read");
        assert_eq!(once.path.segments().len(), path.segments().len());
        let again = read(&write(&once), &Limits::default()).expect("what is written can be read");
        assert_eq!(again, once);
    }
    let mut json = Vec::new();
    points_json(path, &mut json);
    assert!(serde_json::from_slice::<Vec<Vec<Vec<f64>>>>(&json).is_ok());
}

fn as_gpx(document: &Document) -> Vec<u8> {
    let mut text = Vec::new();
    gpx::write(document.name.as_deref(), &document.path, &mut text);
    text
}

fn as_geojson(document: &Document) -> Vec<u8> {
    let name = document.name.iter().map(|name| ("name".to_owned(), name.as_str().into()));
    let mut text = Vec::new();
    geojson::write(&document.path, &name.collect(), &mut text);
    text
}

/// A path that was rounded once does not change any more.
fn stored(path: &Path) {
    let once = compact::decode(&compact::encode(path)).expect("what is written can be read");
    assert_eq!(once.points(), path.points());
    assert_eq!(compact::decode(&compact::encode(&once)).as_ref(), Ok(&once));
}

/// The storage form of paths.
fn compact_paths(data: &[u8]) {
    let Ok(path) = compact::decode(data) else { return };
    assert!(path.points() <= data.len() / 2);
    stored(&path);
    assert!(path.length_metres().is_finite());
}

/// An encoded polyline of each precision.
fn polylines(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for precision in 0..=polyline::MAX_PRECISION {
        let Ok(points) = polyline::decode(text, precision) else { continue };
        assert!(points.iter().all(|point| point.check().is_ok()));
        let written = polyline::encode(&points, precision);
        assert_eq!(polyline::decode(&written, precision).as_ref(), Ok(&points));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
