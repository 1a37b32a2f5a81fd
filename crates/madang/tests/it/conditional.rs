//! Encodings, tags and conditional requests.

use crate::harness::{Answer, Server, Setup, stores};
use crate::track_detail::LONG;
use std::collections::HashSet;

fn serve(settings: &[(&str, &str)]) -> (tempfile::TempDir, Server, String) {
    let dir = stores::bundled();
    let mut setup = Setup::new().data(dir.path());
    for (key, value) in settings {
        setup = setup.set(key, value);
    }
    let server = setup.start();
    let path = format!("/v1/tracks/{}", server.track_of(LONG));
    (dir, server, path)
}

fn with_encoding(server: &Server, path: &str, accept: &str) -> Answer {
    server.get_with(path, &[("Accept-Encoding", accept)])
}

#[test]
fn every_encoding_decodes_to_the_same_bytes_and_is_smaller() {
    let (_dir, server, path) = serve(&[]);
    for path in [path.as_str(), "/v1/tracks", "/v1/tracks?near=37,127"] {
        let plain = server.get(path);
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        for encoding in ["gzip", "br", "zstd"] {
            let answer = with_encoding(&server, path, encoding);
            assert_eq!(answer.header("content-encoding"), Some(encoding), "{path}");
            assert_eq!(answer.decoded(), plain.body, "{path} {encoding}");
            assert!(answer.body.len() < plain.body.len());
        }
    }
}

#[test]
fn the_encoding_follows_the_weights_of_the_client() {
    let (_dir, server, path) = serve(&[]);
    for (accept, wanted) in [
        ("gzip, deflate, br, zstd", Some("br")),
        ("gzip;q=1, br;q=0.5", Some("gzip")),
        ("br;q=0, *", Some("zstd")),
        ("identity", None),
        ("deflate", None),
        ("", None),
        ("gzip;q=0", None),
    ] {
        let answer = with_encoding(&server, &path, accept);
        assert_eq!(answer.header("content-encoding"), wanted, "{accept:?}");
    }
}

#[test]
fn each_encoding_has_a_tag_of_its_own_and_caches_are_told_what_matters() {
    let (_dir, server, path) = serve(&[]);
    let mut tags = HashSet::new();
    for accept in ["identity", "gzip", "br", "zstd"] {
        let answer = with_encoding(&server, &path, accept);
        let tag = answer.header("etag").expect("a tag").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{tag}");
        let vary = answer.header("vary").expect("what it varies by").to_ascii_lowercase();
        let names: HashSet<&str> = vary.split(',').map(str::trim).collect();
        assert_eq!(names, HashSet::from(["accept", "accept-encoding"]));
        assert!(tags.insert(tag));
    }
    let geojson = server.get_with(&path, &[("Accept", "application/geo+json")]);
    assert!(tags.insert(geojson.header("etag").unwrap().to_owned()), "another format");
    let full = server.get(&format!("{path}?detail=full"));
    assert!(tags.insert(full.header("etag").unwrap().to_owned()), "another detail");
}

#[test]
fn a_client_that_has_it_already_gets_no_body() {
    let (_dir, server, path) = serve(&[]);
    for path in [path.as_str(), "/v1/tracks", "/v1/tracks?near=37,127"] {
        let first = with_encoding(&server, path, "gzip");
        let tag = first.header("etag").unwrap();
        for given in [tag.to_owned(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            let mut connection = server.connect();
            let headers = [("Accept-Encoding", "gzip"), ("If-None-Match", given.as_str())];
            let second = connection.request("GET", path, &headers);
            assert_eq!(second.status, 304, "{path} {given}");
            assert_eq!(second.header("etag"), Some(tag));
            assert_eq!(second.header("vary"), first.header("vary"));
            assert_eq!(second.header("content-encoding"), None);
            // Stray bytes of a body would be taken for the next answer.
            assert_eq!(connection.get("/health/live").status, 200);
        }
        let other = [("Accept-Encoding", "br"), ("If-None-Match", tag)];
        assert_eq!(server.get_with(path, &other).status, 200, "another encoding is another body");
    }
}

#[test]
fn tags_are_the_same_after_a_restart() {
    let (dir, server, path) = serve(&[]);
    let before = with_encoding(&server, &path, "br");
    server.stop();
    let server = Setup::new().data(dir.path()).start();
    let after = with_encoding(&server, &path, "br");
    assert_eq!(before.header("etag"), after.header("etag"));
    assert_eq!(before.body, after.body);
}

#[test]
fn head_answers_what_get_would_without_the_body() {
    let (_dir, server, path) = serve(&[]);
    for path in [path.as_str(), "/v1/tracks", "/v1/tracks/999", "/nowhere", "/openapi.json"] {
        let get = server.get(path);
        let mut connection = server.connect();
        let head = connection.request("HEAD", path, &[]);
        assert_eq!(head.status, get.status, "{path}");
        for name in ["content-type", "content-length", "etag", "vary"] {
            assert_eq!(head.header(name), get.header(name), "{name} of {path}");
        }
        assert_eq!(connection.get("/health/live").status, 200, "no stray body after {path}");
    }
}

#[test]
fn compression_can_be_turned_off() {
    let (_dir, server, path) = serve(&[("http.compression", "off")]);
    for accept in ["gzip", "br", "zstd", "*"] {
        let answer = with_encoding(&server, &path, accept);
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(answer.body, server.get(&path).body);
    }
}

#[test]
fn what_is_not_cached_is_compressed_all_the_same() {
    let (_dir, server, path) = serve(&[("cache.mode", "off")]);
    let plain = server.get(&path);
    for encoding in ["gzip", "br", "zstd"] {
        let answer = with_encoding(&server, &path, encoding);
        assert_eq!(answer.header("content-encoding"), Some(encoding));
        assert_eq!(answer.decoded(), plain.body);
        let known =
            [("Accept-Encoding", encoding), ("If-None-Match", answer.header("etag").unwrap())];
        assert_eq!(server.get_with(&path, &known).status, 304);
    }
}
