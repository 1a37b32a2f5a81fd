//! Real tracks with the tables that say what is in them, and small ones made to order.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A row of a table of tracks.
#[derive(Clone, Debug)]
pub struct Row {
    pub path: PathBuf,
    /// Lines with points: the table's count less the empty ones.
    pub segments: usize,
    pub points: u64,
    pub metres: f64,
    pub with_elevation: u64,
}

/// Folder of the bundled tracks.
pub fn bundled() -> PathBuf {
    workspace().join("data/tracks")
}

/// Path of one bundled track.
pub fn bundled_track(file: &str) -> PathBuf {
    bundled().join(file)
}

/// The bundled tracks with the table of their README.
pub fn bundled_rows() -> Vec<Row> {
    rows(&bundled().join("README.md"), &bundled())
}

/// The bundled files of markets.
pub fn bundled_markets() -> Vec<PathBuf> {
    let files = std::fs::read_dir(workspace().join("data/markets")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    files
}

/// The larger collection: `MADANG_TEST_DATA`, or a folder `shared/data` beside the workspace. It
/// holds tracks whose licence does not allow to bundle them.
pub fn collection_rows() -> Option<Vec<Row>> {
    let folder = collection()?;
    Some(rows(&folder.join("SOURCES.md"), &folder.join("tracks")))
}

/// The folder of the larger collection, if there is one.
pub fn collection() -> Option<PathBuf> {
    let folder = std::env::var_os("MADANG_TEST_DATA")
        .map_or_else(|| workspace().parent().unwrap().join("shared/data"), PathBuf::from);
    folder.join("SOURCES.md").is_file().then_some(folder)
}

/// Reports that a test does without the larger collection, and what it did instead.
pub fn no_collection(instead: &str) {
    let is_named = std::env::var_os("MADANG_TEST_DATA").is_some();
    madang_testing::skip!(is_named, "no larger collection (MADANG_TEST_DATA): {instead}");
}

/// Every track at hand; says so when that is only the bundled ones.
pub fn all_rows() -> Vec<Row> {
    collection_rows().unwrap_or_else(|| {
        no_collection("the bundled tracks alone were imported");
        bundled_rows()
    })
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Parses `| file | format | lines (empty) | points | km | elevation on | …`.
fn rows(table: &Path, tracks: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(table).unwrap();
    let rows: Vec<Row> = text.lines().filter_map(|line| row(line, tracks)).collect();
    assert!(rows.len() >= 14, "only {} rows in {}", rows.len(), table.display());
    rows
}

fn row(line: &str, tracks: &Path) -> Option<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [file, _, lines, points, kilometres, with_elevation, ..] = cells.as_slice() else {
        return None;
    };
    if !file.ends_with(".gpx") && !file.ends_with(".geojson") {
        return None;
    }
    let (lines, empty) = match lines.split_once(" (") {
        Some((lines, empty)) => (lines, empty.trim_end_matches(')').parse().unwrap()),
        None => (*lines, 0),
    };
    Some(Row {
        path: tracks.join(file),
        segments: lines.parse::<usize>().unwrap() - empty,
        points: points.parse().unwrap(),
        metres: kilometres.parse::<f64>().unwrap() * 1000.0,
        with_elevation: with_elevation.parse().unwrap(),
    })
}

/// A GPX file with one track of this name through these points.
pub fn gpx(name: &str, points: &[(f64, f64)]) -> String {
    let mut text = format!("<gpx version=\"1.1\"><trk><name>{name}</name><trkseg>");
    for (lat, lon) in points {
        let _ = write!(text, "<trkpt lat=\"{lat}\" lon=\"{lon}\"/>");
    }
    text + "</trkseg></trk></gpx>"
}

/// A GPX file of a short track that differs from that of any other number and is as long as it.
pub fn small_gpx(number: u32) -> String {
    let lon = 126.0 + f64::from(number) * 1e-3;
    gpx(&format!("track {number}"), &[(37.0, lon), (37.01, lon)])
}

/// Writes that many small tracks and gives their files.
pub fn small_files(dir: &Path, count: u32) -> Vec<PathBuf> {
    (0..count)
        .map(|number| {
            let path = dir.join(format!("small-{number:05}.gpx"));
            std::fs::write(&path, small_gpx(number)).unwrap();
            path
        })
        .collect()
}

/// Great-circle distance in metres on the mean sphere (haversine), written here a second time so
/// that the program is not judged by its own formula.
pub fn haversine(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (lat_a, lat_b) = (a.0.to_radians(), b.0.to_radians());
    let half_lat = ((lat_b - lat_a) / 2.0).sin();
    let half_lon = ((b.1 - a.1).to_radians() / 2.0).sin();
    let h = half_lat * half_lat + lat_a.cos() * lat_b.cos() * half_lon * half_lon;
    2.0 * 6_371_008.8 * h.sqrt().min(1.0).asin()
}
