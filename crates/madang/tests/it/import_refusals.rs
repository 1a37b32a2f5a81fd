//! Files that are no tracks, and stores that are not free.

use crate::harness::{Madang, Output, Setup, data, database, stores};
use std::path::{Path, PathBuf};

/// Imports these beside one good file, which must survive them.
fn import_beside_a_good_one(bad: &[PathBuf]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let good = data::bundled_track("us_ecology_trail_route_only.gpx");
    let files = bad.iter().chain([&good]);
    let output = Madang::import(dir.path(), files).fails_with(1);
    output.is_calm();
    assert_eq!(output.stdout, format!("imported 1, already there 0, refused {}\n", bad.len()));
    assert_eq!(output.stderr.lines().count(), bad.len(), "{}", output.stderr);
    assert_eq!(database::number(dir.path(), "select count(*) from tracks"), Some(1));
    output
}

/// Asserts that the file is refused with a line that names it and says why.
fn is_refused(path: &Path, why: &str) {
    let output = import_beside_a_good_one(&[path.to_owned()]);
    let line = output.stderr.trim_end();
    assert!(line.starts_with(&format!("refused {}: ", path.display())), "{line}");
    assert!(line.contains(why), "{line:?} does not say {why:?}");
}

fn file(dir: &tempfile::TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn every_broken_file_is_named_with_its_reason_and_the_good_one_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let half = data::small_gpx(1);
    is_refused(&file(&dir, "empty.gpx", ""), "empty");
    is_refused(&file(&dir, "binary.gpx", [0u8, 159, 146, 150, 255]), "neither GPX nor GeoJSON");
    is_refused(&file(&dir, "half.gpx", &half[..half.len() / 2]), "not XML");
    is_refused(&file(&dir, "page.gpx", "<html></html>"), "not GPX");
    is_refused(&file(&dir, "none.geojson", r#"{"type":"FeatureCollection","features":[]}"#), "");
    is_refused(&file(&dir, "one.gpx", data::gpx("one", &[(1.0, 2.0)])), "at least 2");
    is_refused(&file(&dir, "far.gpx", data::gpx("far", &[(1.0, 2.0), (91.0, 2.0)])), "91");
    is_refused(&file(&dir, "nan.gpx", data::gpx("nan", &[(1.0, 2.0), (f64::NAN, 2.0)])), "NaN");
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let dir = tempfile::tempdir().unwrap();
    is_refused(dir.path(), "not a file");
    is_refused(&dir.path().join("missing.gpx"), "No such file");
    is_refused(Path::new("/dev/null"), "not a file");
    let pipe = dir.path().join("pipe.gpx");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    is_refused(&pipe, "not a file");
}

#[test]
fn a_file_over_the_limit_is_refused_by_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "huge.gpx", "<gpx>");
    // Sparse: 33 MiB of zeros that take no room.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(33 << 20).unwrap();
    is_refused(&path, "at most 33554432");
}

#[test]
fn several_refusals_are_all_named() {
    let dir = tempfile::tempdir().unwrap();
    let bad = [file(&dir, "a.gpx", "a"), file(&dir, "b.gpx", "<b/>"), dir.path().join("c.gpx")];
    let output = import_beside_a_good_one(&bad);
    for path in &bad {
        assert!(output.stderr.contains(&path.display().to_string()), "{}", output.stderr);
    }
}

#[test]
fn an_import_into_a_served_directory_is_refused_with_the_servers_pid() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let file = data::bundled_track("us_ecology_trail_route_only.gpx");
    let output = Madang::import(dir.path(), [file]).fails_with(5);
    output.complains(&[&format!("process {}", server.child.id()), "in use"]);
    server.is_well();
}

#[test]
fn an_import_whose_reader_has_gone_still_imports() {
    let dir = tempfile::tempdir().unwrap();
    let file = data::bundled_track("us_ecology_trail_route_only.gpx");
    // The reader of the pipe ends before the import has anything to say.
    let script = "{ \"$0\" import tracks --data \"$1\" \"$2\"; echo code $? >&2; } | true";
    let mut shell = crate::harness::command::clean("sh");
    shell.args(["-c", script, crate::harness::command::program()]).arg(dir.path()).arg(file);
    let output = Madang::from_command(shell).run();
    output.is_calm();
    assert_eq!(output.stderr.trim(), "code 0");
    assert_eq!(database::number(dir.path(), "select count(*) from tracks"), Some(1));
}
