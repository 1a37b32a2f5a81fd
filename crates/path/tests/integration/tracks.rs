//! Real tracks read as their tables say.

use madang_path::{Format, Limits, Path, compact, geojson, gpx, read, simplify, write};

use crate::files::{Row, all_rows, bundled, bundled_rows, bundled_track, collection_rows};

fn agrees_with_its_row(row: &Row) {
    let document =
        read(&row.bytes, &Limits::default()).unwrap_or_else(|e| panic!("{}: {e}", row.file));
    let path = &document.path;
    let format = if row.file.ends_with(".gpx") { Format::Gpx } else { Format::GeoJson };
    assert_eq!(document.format, format, "{}", row.file);
    assert_eq!(path.segments().len(), row.lines, "lines of {}", row.file);
    assert_eq!(path.points(), row.points, "points of {}", row.file);
    // The table is rounded to a metre.
    let off = path.length_metres() - row.kilometres * 1000.0;
    assert!(off.abs() <= 0.501, "{} is {off} m off", row.file);
    let with_elevation = path.segments().iter().flatten().filter(|p| p.ele.is_some()).count();
    assert_eq!(with_elevation, row.with_elevation, "elevations of {}", row.file);
}

#[test]
fn every_bundled_track_reads_as_its_table_says() {
    let rows = bundled_rows();
    let tracks = std::fs::read_dir(bundled()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().is_some_and(|name| !name.ends_with(".md"))
    });
    assert_eq!(rows.len(), tracks.count(), "a bundled track is missing from the table");
    rows.iter().for_each(agrees_with_its_row);
}

#[test]
fn every_track_of_the_larger_collection_reads_as_its_table_says() {
    match collection_rows() {
        Some(rows) => {
            assert!(rows.len() >= bundled_rows().len());
            rows.iter().for_each(agrees_with_its_row);
        }
        None => madang_testing::skip!(
            std::env::var_os("MADANG_TEST_DATA").is_some(),
            "no collection of tracks that cannot be bundled (MADANG_TEST_DATA names its folder)"
        ),
    }
}

#[test]
fn names_are_those_the_files_give_themselves() {
    let name = |file: &str| read(&bundled_track(file), &Limits::default()).unwrap().name;
    let antimeridian = name("synthetic_antimeridian.gpx");
    assert_eq!(antimeridian.as_deref(), Some("Синтетический маршрут через 180°"));
    // In the metadata and in CDATA; that of the track is empty.
    assert_eq!(name("jp_nagasaki_tokyo.gpx").as_deref(), Some("Map"));
    let tag = name("de_garmisch_hike_2seg.gpx");
    assert_eq!(tag.as_deref(), Some("2019-05-01 06:31:11 Tag"));
    let globe = name("world_vendee_globe_antimeridian.geojson");
    assert_eq!(globe.as_deref(), Some("trajectoire_20250308"));
}

#[test]
fn every_track_survives_storage_and_both_formats() {
    for row in all_rows() {
        let path = read(&row.bytes, &Limits::default()).unwrap().path;

        let stored = compact::encode(&path);
        let back = compact::decode(&stored).unwrap();
        assert_close(&path, &back, &row.file);
        assert_eq!(compact::encode(&back), stored, "{} changes when stored again", row.file);

        let mut file = Vec::new();
        gpx::write(Some("a name"), &path, &mut file);
        let document = gpx::read(&file, &Limits::default()).unwrap();
        assert_eq!(document.name.as_deref(), Some("a name"));
        assert_close(&path, &document.path, &row.file);

        let mut file = Vec::new();
        geojson::write(&path, &serde_json::Map::new(), &mut file);
        let document = geojson::read(&file, &Limits::default()).unwrap();
        // A segment of one point is written as two.
        if path.segments().iter().all(|segment| segment.len() > 1) {
            assert_close(&path, &document.path, &row.file);
        }
    }
}

/// Equal except for the rounding to 7 decimals and to centimetres.
fn assert_close(path: &Path, back: &Path, file: &str) {
    assert_eq!(back.segments().len(), path.segments().len(), "{file}");
    assert_eq!(back.points(), path.points(), "{file}");
    for (was, is) in path.segments().iter().flatten().zip(back.segments().iter().flatten()) {
        assert!((was.lat - is.lat).abs() <= 0.500_001e-7, "{file}: {was:?} {is:?}");
        assert!((was.lon - is.lon).abs() <= 0.500_001e-7, "{file}: {was:?} {is:?}");
        assert_eq!(was.ele.is_some(), is.ele.is_some(), "{file}");
        if let (Some(was), Some(is)) = (was.ele, is.ele) {
            assert!((was - is).abs() <= 0.005_001, "{file}: {was} {is}");
        }
    }
    let (was, is) = (path.length_metres(), back.length_metres());
    assert!((was - is).abs() <= was * 5e-6 + 1e-6, "{file}: {was} m became {is} m");
}

#[test]
fn the_json_of_every_track_is_the_json_of_a_general_writer() {
    for row in all_rows() {
        let path = read(&row.bytes, &Limits::default()).unwrap().path;
        let mut json = Vec::new();
        write::points_json(&path, &mut json);
        let lines: Vec<Vec<Vec<f64>>> = serde_json::from_slice(&json).unwrap();
        assert_eq!(lines.len(), row.lines, "{}", row.file);
        for (segment, line) in path.segments().iter().zip(&lines) {
            assert_eq!(segment.len(), line.len(), "{}", row.file);
            for (point, numbers) in segment.iter().zip(line) {
                let round = |value: f64, unit: f64| (value * unit).round() / unit;
                let mut expected = vec![round(point.lat, 1e7), round(point.lon, 1e7)];
                expected.extend(point.ele.map(|ele| round(ele, 1e2)));
                assert_eq!(expected.len(), numbers.len(), "{}", row.file);
                for (expected, number) in expected.iter().zip(numbers) {
                    assert!((expected - number).abs() < 1e-12 * expected.abs().max(1.0));
                }
            }
        }
    }
}

#[test]
fn real_tracks_get_shorter_and_keep_their_ends() {
    for row in all_rows() {
        let path = read(&row.bytes, &Limits::default()).unwrap().path;
        let mut points = path.points();
        for tolerance in [0.0, 2.0, 10.0, 50.0] {
            let short = simplify::metres(&path, tolerance).unwrap();
            assert!(short.points() <= points, "{}: more points at {tolerance} m", row.file);
            points = short.points();
            assert!(short.length_metres() <= path.length_metres() * (1.0 + 1e-9), "{}", row.file);
            assert_eq!((short.start(), short.end()), (path.start(), path.end()), "{}", row.file);
            assert_eq!(short.segments().len(), path.segments().len(), "{}", row.file);
            assert_eq!(simplify::metres(&short, tolerance).unwrap(), short, "{}", row.file);
        }
    }
}
