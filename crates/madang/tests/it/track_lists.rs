//! `GET /v1/tracks` by length.

use crate::harness::{Server, Setup, stores};
use serde_json::Value;
use std::collections::HashSet;

/// All items of a listing, page by page.
pub fn all_pages(server: &Server, query: &str, limit: usize) -> Vec<Value> {
    let mut connection = server.connect();
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = connection.get(&format!("/v1/tracks?limit={limit}{query}{cursor}")).json();
        let found = page["items"].as_array().unwrap();
        items.extend_from_slice(found);
        assert!(items.len() <= 10_000, "the pages do not end");
        match page["nextCursor"].as_str() {
            Some(next) => {
                assert_eq!(found.len(), limit, "a page with a next one is full");
                cursor = format!("&cursor={next}");
            }
            None => return items,
        }
    }
}

/// Asserts that no id comes twice.
pub fn all_differ(items: &[Value]) {
    let ids: HashSet<i64> = items.iter().map(|item| item["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), items.len());
}

#[test]
fn the_longest_track_comes_first() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let lengths: Vec<f64> =
        server.tracks().iter().map(|t| t["lengthMetres"].as_f64().unwrap()).collect();
    assert_eq!(lengths.len(), 14);
    assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    assert!((lengths[0] - 49_577_056.0).abs() < 1.5, "round the world is the longest");
    assert_eq!(server.get("/v1/tracks?sort=length&limit=100").json()["items"], {
        Value::Array(server.tracks())
    });
}

#[test]
fn pages_of_any_size_hold_every_track_once_and_in_order() {
    let dir = stores::small();
    let server = Setup::new().data(dir.path()).start();
    // All are equally long, so that only the id tells them apart.
    let whole = all_pages(&server, "", 100);
    assert_eq!(whole.len(), stores::SMALL as usize);
    all_differ(&whole);
    for limit in [1, 7, 23, 46, 99] {
        assert_eq!(all_pages(&server, "", limit), whole, "limit {limit}");
    }
}

#[test]
fn a_page_holds_twenty_unless_told() {
    let dir = stores::small();
    let server = Setup::new().data(dir.path()).start();
    let page = server.get("/v1/tracks").json();
    assert_eq!(page["items"].as_array().unwrap().len(), 20);
    assert!(page["nextCursor"].is_string());
}

#[test]
fn an_empty_store_is_an_empty_list() {
    let server = Setup::new().start();
    let page = server.get("/v1/tracks").json();
    assert_eq!(page, serde_json::json!({"items": [], "nextCursor": null}));
    assert_eq!(server.get("/v1/tracks?near=37,127").json(), page);
}

#[test]
fn wrong_parameters_are_refused_by_name() {
    let server = Setup::new().start();
    for limit in ["0", "101", "abc", "-1", "1.5", "", "99999999999999999999999"] {
        let answer = server.get(&format!("/v1/tracks?limit={limit}"));
        assert_eq!(answer.wrong_fields(), ["limit"], "limit={limit}");
    }
    for sort in ["name", "-length", ""] {
        let answer = server.get(&format!("/v1/tracks?sort={sort}"));
        assert_eq!(answer.wrong_fields(), ["sort"], "sort={sort}");
    }
    let answer = server.get("/v1/tracks?limit=0&sort=name&cursor=x");
    assert_eq!(answer.wrong_fields(), ["limit", "sort", "cursor"], "all at once");
}

#[test]
fn a_cursor_that_is_altered_or_of_another_listing_is_refused() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let cursor = |query: &str| {
        let page = server.get(&format!("/v1/tracks?limit=2{query}")).json();
        page["nextCursor"].as_str().unwrap().to_owned()
    };
    let by_length = cursor("");
    let near = cursor("&near=37,127");
    let mut altered = by_length.clone().into_bytes();
    altered[7] = if altered[7] == b'0' { b'1' } else { b'0' };
    let altered = String::from_utf8(altered).unwrap();
    for (query, cursor) in [
        ("", altered.as_str()),
        ("", near.as_str()),
        ("&near=37,127", by_length.as_str()),
        ("&near=37,127.1", near.as_str()),
        ("", &by_length[1..]),
        ("", ""),
        ("", "%00"),
        ("", "한글"),
    ] {
        let answer = server.get(&format!("/v1/tracks?limit=2{query}&cursor={cursor}"));
        assert_eq!(answer.wrong_fields(), ["cursor"], "{query} {cursor}");
    }
    assert_eq!(server.get(&format!("/v1/tracks?limit=2&cursor={by_length}")).status, 200);
}
