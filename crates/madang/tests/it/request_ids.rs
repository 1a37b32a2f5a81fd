//! Request ids and the log.

use crate::harness::{Setup, eventually, stores};
use crate::track_detail::LONG;
use std::collections::HashSet;

const ID: &str = "x-request-id";

#[test]
fn the_id_of_the_client_comes_back_in_the_header_and_the_problem() {
    let server = Setup::new().start();
    let answer = server.get_with("/v1/tracks/1", &[("X-Request-Id", "trace-7:a.b_c")]);
    assert_eq!(answer.header(ID), Some("trace-7:a.b_c"));
    assert_eq!(answer.problem(404)["instance"], "trace-7:a.b_c");
}

#[test]
fn an_id_is_made_when_there_is_none_or_it_is_hostile() {
    let server = Setup::new().start();
    let mut seen = HashSet::new();
    let long = "x".repeat(65);
    for given in [None, None, Some("a b"), Some("<script>"), Some("한글"), Some(long.as_str())] {
        let headers: Vec<(&str, &str)> = given.map(|id| ("X-Request-Id", id)).into_iter().collect();
        let answer = server.get_with("/v1/tracks/1", &headers);
        let id = answer.header(ID).expect("an id").to_owned();
        assert_eq!(answer.problem(404)["instance"], id.as_str());
        assert!(id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
        assert!(seen.insert(id), "the same id twice");
    }
}

#[test]
fn every_request_is_in_the_debug_log_by_its_id() {
    let server = Setup::new().set("log.level", "debug").start();
    server.get_with("/v1/tracks/42", &[("X-Request-Id", "find-me")]);
    let line = server.until_logged("find-me");
    for part in ["GET", "/v1/tracks/{id}", "404", "micros"] {
        assert!(line.contains(part), "{line:?} lacks {part:?}");
    }
}

#[test]
fn a_line_of_the_json_log_is_a_json_object() {
    let dir = stores::bundled();
    let setup = Setup::new().data(dir.path()).set("log.format", "json");
    let mut server = setup.set("log.level", "debug").start();
    server.get_with("/v1/tracks/999", &[("X-Request-Id", "json-1")]);
    server.connect().send("nonsense\r\n\r\n").rest();
    server.until_logged("json-1");
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let lines = eventually("the last line", || {
        let log = server.log();
        log.contains("\"stopped\"").then_some(log)
    });
    let mut found = false;
    for line in lines.lines() {
        let entry: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        for field in ["timestamp", "level", "message"] {
            assert!(entry[field].is_string(), "no {field} in {line}");
        }
        if entry["request_id"] == "json-1" {
            found = true;
            assert_eq!(entry["status"], 404);
            assert_eq!(entry["level"], "DEBUG");
        }
    }
    assert!(found);
}

#[test]
fn requests_are_not_logged_unless_asked() {
    let server = Setup::new().start();
    for _ in 0..3 {
        server.get_with("/v1/tracks/42", &[("X-Request-Id", "hidden")]);
    }
    server.connect().send("nonsense\r\n\r\n").rest();
    server.is_well();
    assert_eq!(server.log().lines().count(), 1, "only that it serves: {}", server.log());
}

#[test]
fn a_client_that_leaves_is_counted_and_logged_for_debugging_only() {
    const LEFT: &str = "madang_http_server_client_disconnects_total";
    let dir = stores::bundled();
    for (level, logged) in [("debug", true), ("info", false)] {
        let server = Setup::new().data(dir.path()).set("log.level", level).start();
        for _ in 0..3 {
            let mut leaver = server.connect();
            // Its body never comes, so that it is sure to leave before the answer.
            leaver.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n");
            server.until_metric("madang_http_server_requests_in_flight", &[], 1.0);
            drop(leaver);
            eventually("it is gone", || {
                (server.metric("madang_http_server_requests_in_flight", &[]) == 0.0).then_some(())
            });
        }
        assert_eq!(server.metric(LEFT, &[]), 3.0);
        let is_logged = || server.log().contains("left before its answer");
        if logged {
            // Lines reach this process a moment after what they tell of.
            eventually("the debugging line", || is_logged().then_some(()));
        }
        server.is_well();
        let log = server.log();
        assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
        assert_eq!(is_logged(), logged, "{log}");
    }
}

#[test]
fn a_client_that_leaves_during_work_is_no_error() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("cache.mode", "off").start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    for _ in 0..20 {
        server.connect().send(crate::harness::client::head("GET", &path, &[]));
    }
    server.is_well();
    assert_eq!(server.get(&path).status, 200);
    let log = server.log();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
