//! `GET /v1/tracks?near=`.

use crate::harness::data::{gpx, haversine};
use crate::harness::{Madang, Server, Setup, stores};
use crate::track_lists::{all_differ, all_pages};
use serde_json::Value;

fn distance(item: &Value) -> f64 {
    item["distanceMetres"].as_f64().unwrap()
}

/// Asserts that every distance is the true one and that none comes before a smaller one.
fn is_by_distance(items: &[Value], centre: (f64, f64)) {
    for item in items {
        let start = (item["start"][0].as_f64().unwrap(), item["start"][1].as_f64().unwrap());
        // Stated to the centimetre; near the other side of the world the formula itself loses more.
        let error = (distance(item) - haversine(centre, start)).abs();
        assert!(error <= 0.5, "{item} is off by {error}");
    }
    assert!(items.is_sorted_by(|a, b| distance(a) <= distance(b)));
}

fn store_of(starts: &[(f64, f64)]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<_> = starts
        .iter()
        .enumerate()
        .map(|(number, start)| {
            let path = dir.path().join(format!("{number}.gpx"));
            let end = (start.0 * 0.99, start.1);
            std::fs::write(&path, gpx(&format!("{number}"), &[*start, end])).unwrap();
            path
        })
        .collect();
    Madang::import(dir.path(), files).succeeds();
    let server = Setup::new().data(dir.path()).start();
    (dir, server)
}

#[test]
fn the_nearest_comes_first_with_its_true_distance() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    for centre in [(54.4, -3.2), (37.5, 127.0), (-90.0, 0.0), (0.0, 180.0), (0.0, -180.0)] {
        let query = format!("/v1/tracks?limit=100&near={},{}", centre.0, centre.1);
        let page = server.get(&query).json();
        let items = page["items"].as_array().unwrap();
        assert_eq!(items.len(), 14, "near does not hide what is far");
        is_by_distance(items, centre);
    }
}

#[test]
fn pages_of_nearness_hold_every_track_once_and_in_order() {
    let dir = stores::small();
    let server = Setup::new().data(dir.path()).start();
    let centre = (37.005, 126.1);
    let query = format!("&near={},{}", centre.0, centre.1);
    let whole = all_pages(&server, &query, 100);
    assert_eq!(whole.len(), stores::SMALL as usize);
    all_differ(&whole);
    is_by_distance(&whole, centre);
    for limit in [1, 10, 31] {
        assert_eq!(all_pages(&server, &query, limit), whole, "limit {limit}");
    }
}

#[test]
fn equally_near_tracks_are_all_listed() {
    let (_dir, server) = store_of(&[(10.0, 20.0); 7]);
    let items = all_pages(&server, "&near=10,20", 2);
    assert_eq!(items.len(), 7);
    all_differ(&items);
    assert!(items.iter().all(|item| distance(item) == 0.0));
}

#[test]
fn the_180th_meridian_and_the_poles_are_no_edge() {
    let starts = [(10.0, -179.999), (10.0, 179.5), (10.0, -170.0), (89.999, 90.0), (10.0, 0.0)];
    let (_dir, server) = store_of(&starts);
    let nearest = |near: &str| {
        let page = server.get(&format!("/v1/tracks?near={near}")).json();
        page["items"].as_array().unwrap().iter().map(|i| i["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(nearest("10,179.999")[..3], ["0", "1", "2"]);
    assert_eq!(nearest("10,-180")[..3], ["0", "1", "2"]);
    assert_eq!(nearest("89.999,-90")[0], "3", "over the pole it is 222 m");
}

#[test]
fn a_point_that_is_none_is_refused() {
    let server = Setup::new().start();
    for near in [
        "", "37", "37,", ",127", "37,127,5", "a,b", "nan,0", "0,inf", "90.01,0", "0,180.01",
        "1e999,0", "37;127", "%FF,%FE", "37,127%00",
    ] {
        let answer = server.get(&format!("/v1/tracks?near={near}"));
        assert_eq!(answer.wrong_fields(), ["near"], "near={near}");
    }
    assert_eq!(server.get("/v1/tracks?near=x&limit=0").wrong_fields(), ["limit", "near"]);
    assert_eq!(server.get("/v1/tracks?near=%2037,%20127").status, 200, "blanks are no mistake");
}

#[test]
fn nearness_and_another_order_exclude_each_other() {
    let server = Setup::new().start();
    assert_eq!(server.get("/v1/tracks?near=37,127&sort=length").wrong_fields(), ["sort"]);
}
