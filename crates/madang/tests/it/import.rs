//! `madang import tracks`: what goes in comes out.

use crate::harness::data::{self, Row};
use crate::harness::{Madang, Server, Setup, database, eventually, stores};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;

#[test]
fn every_real_track_is_served_as_its_table_says() {
    let rows = data::all_rows();
    let dir = tempfile::tempdir().unwrap();
    let output = Madang::import(dir.path(), rows.iter().map(|row| &row.path)).succeeds();
    let wanted = format!("imported {}, already there 0, refused 0\n", rows.len());
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), (wanted.as_str(), ""));
    let server = Setup::new().data(dir.path()).start();
    let tracks = server.tracks();
    assert_eq!(tracks.len(), rows.len());
    for row in &rows {
        check(&server, &tracks, row);
    }
}

fn check(server: &Server, tracks: &[Value], row: &Row) {
    let file = row.path.display();
    // The table rounds to the metre, the service may be off by one.
    let is_long = |track: &Value| {
        track["lengthMetres"].as_f64().is_some_and(|metres| (metres - row.metres).abs() <= 1.5)
    };
    let found: Vec<&Value> =
        tracks.iter().filter(|t| t["pointsTotal"] == row.points && is_long(t)).collect();
    assert_eq!(found.len(), 1, "{file} is not in the list as it should be");
    let track = server.get(&format!("/v1/tracks/{}?detail=full", found[0]["id"])).json();
    assert_eq!(track["pointsTotal"], row.points, "{file}");
    assert_eq!(track["pointsReturned"], row.points, "{file}");
    assert!(is_long(&track), "{file}: {}", track["lengthMetres"]);
    let segments = track["segments"].as_array().unwrap();
    assert_eq!(segments.len(), row.segments, "{file}");
    let points = || segments.iter().flat_map(|segment| segment.as_array().unwrap());
    assert_eq!(points().count() as u64, row.points, "{file}");
    let with_elevation = points().filter(|point| point.as_array().unwrap().len() == 3).count();
    assert_eq!(with_elevation as u64, row.with_elevation, "{file}");
}

#[test]
fn importing_twice_stores_once_and_says_so() {
    let dir = stores::bundled();
    let rows = data::bundled_rows();
    let output = Madang::import(dir.path(), rows.iter().map(|row| &row.path)).succeeds();
    assert_eq!(output.stdout, format!("imported 0, already there {}, refused 0\n", rows.len()));
    assert_eq!(database::number(dir.path(), "select count(*) from tracks"), Some(14));
}

#[test]
fn the_same_file_twice_in_one_call_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = data::bundled_track("us_ecology_trail_route_only.gpx");
    let output = Madang::import(dir.path(), [&file, &file]).succeeds();
    assert_eq!(output.stdout, "imported 1, already there 1, refused 0\n");
}

#[test]
fn the_rating_given_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = data::bundled_track("us_ecology_trail_route_only.gpx");
    let args = ["--rate".as_ref(), "4.5".as_ref(), file.as_os_str()];
    Madang::import(dir.path(), args).succeeds();
    let server = Setup::new().data(dir.path()).start();
    let listed = &server.tracks()[0];
    assert_eq!(listed["rate"], 4.5);
    assert_eq!(server.get(&format!("/v1/tracks/{}", listed["id"])).json()["rate"], 4.5);
}

#[test]
fn importing_again_with_another_rating_changes_it_and_nothing_else() {
    let files = tempfile::tempdir().unwrap();
    let file = data::small_files(files.path(), 1).remove(0);
    let dir = tempfile::tempdir().unwrap();
    for (rating, outcome) in
        [(Some("2"), "imported 1"), (Some("4.5"), "already there 1"), (None, "already there 1")]
    {
        let rate =
            rating.into_iter().flat_map(|stars| ["--rate".as_ref(), std::ffi::OsStr::new(stars)]);
        let output = Madang::import(dir.path(), rate.chain([file.as_os_str()])).succeeds();
        assert!(output.stdout.contains(outcome), "{}", output.stdout);
    }
    let server = Setup::new().data(dir.path()).start();
    let tracks = server.tracks();
    assert_eq!(tracks.len(), 1);
    assert_eq!(tracks[0]["rate"], 4.5, "and an import without a rating leaves it alone");
}

#[test]
fn a_rating_that_is_none_is_refused_before_anything_is_stored() {
    let file = data::bundled_track("us_ecology_trail_route_only.gpx");
    for rate in ["5.1", "nan", "many", ""] {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--rate".as_ref(), rate.as_ref(), file.as_os_str()];
        let output = Madang::import(dir.path(), args).fails_with(2);
        assert!(output.stderr.contains("a rating from 0 to 5"), "{}", output.stderr);
        assert!(!database::file(dir.path()).exists());
    }
}

#[test]
fn names_of_any_letters_come_back_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let name = r#"제주 "올레" <1> & 'ß' 🏃 ]]>"#;
    let document = serde_json::json!({
        "type": "Feature", "properties": {"name": format!("{name}\u{1}")},
        "geometry": {"type": "LineString", "coordinates": [[126.5, 33.5], [126.6, 33.6]]},
    });
    let file = dir.path().join("name.geojson");
    std::fs::write(&file, document.to_string()).unwrap();
    Madang::import(dir.path(), [&file]).succeeds();
    let server = Setup::new().data(dir.path()).start();
    let id = server.tracks()[0]["id"].as_i64().unwrap();
    let served = server.get(&format!("/v1/tracks/{id}")).json()["name"].clone();
    assert!(served.as_str().unwrap().starts_with(name), "{served}");
    let gpx = server.get_with(&format!("/v1/tracks/{id}"), &[("Accept", "application/gpx+xml")]);
    let (again, out) = (tempfile::tempdir().unwrap(), dir.path().join("again.gpx"));
    std::fs::write(&out, &gpx.body).unwrap();
    Madang::import(again.path(), [&out]).succeeds();
    let second = Setup::new().data(again.path()).start();
    assert_eq!(second.tracks()[0]["name"], name, "without the letter that XML cannot hold");
}

#[test]
fn a_file_without_a_name_inside_is_named_after_itself() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("riverside walk.gpx");
    let text = data::gpx("x", &[(37.0, 127.0), (37.1, 127.0)]).replace("<name>x</name>", "");
    std::fs::write(&file, text).unwrap();
    Madang::import(dir.path(), [&file]).succeeds();
    let server = Setup::new().data(dir.path()).start();
    assert_eq!(server.tracks()[0]["name"], "riverside walk");
}

#[test]
fn names_of_imported_tracks_pass_the_rule_of_titles() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, name: &str| {
        let file = dir.path().join(file);
        std::fs::write(&file, data::gpx(name, &[(37.0, 127.0), (37.1, 127.0)])).unwrap();
        file
    };
    let files = [
        write("one.gpx", "\u{1112}\u{1161}\u{11ab}강"),
        write("river\u{202e}side.gpx", "a\u{3164}b"),
        write("park.gpx", "\u{3164}"),
    ];
    Madang::import(dir.path(), &files).succeeds();
    let server = Setup::new().data(dir.path()).start();
    let mut names: Vec<_> =
        server.tracks().iter().map(|track| track["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    // Composed; and the file's name for a name that cannot be shown, unless that cannot be, either.
    assert_eq!(names, ["park", "unnamed", "한강"]);
}

#[test]
fn an_import_that_is_killed_leaves_a_sound_store_with_all_that_was_committed() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = data::small_files(files.path(), 3_000);
    let (mut import, _home) = Madang::import(dir.path(), files).spawn();
    let count = "select count(*) from tracks";
    let seen = eventually("a hundred tracks", || {
        database::number(dir.path(), count).filter(|tracks| *tracks >= 100)
    });
    import.kill().unwrap();
    assert_eq!(madang_testing::ended(&mut import).signal(), Some(9), "it was not killed half-way");
    let server = Setup::new().data(dir.path()).start();
    let kept = database::number(dir.path(), count).unwrap();
    assert!(kept >= seen && kept < 3_000, "{kept} of at least {seen}");
    let paths = "select count(*) from tracks t join track_paths p on p.track_id = t.id";
    assert_eq!(database::number(dir.path(), paths), Some(kept), "a track without its path");
    let last = format!("select id from tracks order by id limit 1 offset {}", seen - 1);
    let last = database::number(dir.path(), &last).unwrap();
    assert_eq!(server.get(&format!("/v1/tracks/{last}?detail=full")).status, 200);
    server.stop();
    assert_eq!(database::integrity(dir.path()), "ok");
}
