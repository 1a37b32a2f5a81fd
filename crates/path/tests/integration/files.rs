//! Test tracks: those bundled, and a larger collection if there is one.

use std::path::{Path, PathBuf};

/// A row of a table of tracks.
pub struct Row {
    pub file: String,
    /// Lines with points, as the table counts them less the empty ones.
    pub lines: usize,
    pub points: usize,
    pub kilometres: f64,
    pub with_elevation: usize,
    pub bytes: Vec<u8>,
}

pub fn bundled() -> PathBuf {
    workspace().join("data/tracks")
}

pub fn bundled_track(file: &str) -> Vec<u8> {
    std::fs::read(bundled().join(file)).unwrap()
}

/// The bundled tracks with the table of their README.
pub fn bundled_rows() -> Vec<Row> {
    rows(&bundled().join("README.md"), &bundled())
}

/// The larger collection: `MADANG_TEST_DATA`, or a folder `shared/data` beside the workspace. Its
/// tracks may not be bundled because of their licences.
pub fn collection_rows() -> Option<Vec<Row>> {
    let directory = std::env::var_os("MADANG_TEST_DATA")
        .map_or_else(|| workspace().parent().unwrap().join("shared/data"), PathBuf::from);
    let table = directory.join("SOURCES.md");
    table.exists().then(|| rows(&table, &directory.join("tracks")))
}

/// Every track at hand, each once.
pub fn all_rows() -> Vec<Row> {
    collection_rows().unwrap_or_else(bundled_rows)
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Parses `| file | format | lines (empty) | points | km | elevation on | …` of a Markdown table.
fn rows(table: &Path, tracks: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(table).unwrap();
    text.lines().filter_map(|line| row(line, tracks)).collect()
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
        file: (*file).to_owned(),
        lines: lines.parse::<usize>().unwrap() - empty,
        points: points.parse().unwrap(),
        kilometres: kilometres.parse().unwrap(),
        with_elevation: with_elevation.parse().unwrap(),
        bytes: std::fs::read(tracks.join(file)).unwrap(),
    })
}
