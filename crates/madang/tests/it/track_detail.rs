//! `GET /v1/tracks/{id}`: levels of detail, and ids that are none.

use crate::harness::{Server, Setup, stores};
use serde_json::Value;

/// Points of the long bundled track, Nagasaki to Tokyo.
pub const LONG: u64 = 24_758;

/// The levels below `full`, with what they promise in metres.
const LEVELS: [(&str, f64); 3] = [("high", 2.0), ("medium", 10.0), ("low", 50.0)];

fn serve() -> (tempfile::TempDir, Server) {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    (dir, server)
}

fn returned(track: &Value) -> u64 {
    track["pointsReturned"].as_u64().unwrap()
}

#[test]
fn a_lower_detail_has_fewer_points_and_the_same_length() {
    let (_dir, server) = serve();
    for track in server.tracks() {
        let at = |detail: &str| {
            server.get(&format!("/v1/tracks/{}?detail={detail}", track["id"])).json()
        };
        let full = at("full");
        assert_eq!(full["toleranceMetres"], 0.0);
        let mut last = returned(&full);
        assert_eq!(last, full["pointsTotal"].as_u64().unwrap());
        for (level, tolerance) in LEVELS {
            let body = at(level);
            assert_eq!(body["detail"], level);
            assert_eq!(body["toleranceMetres"], tolerance);
            for field in ["id", "name", "rate", "lengthMetres", "pointsTotal"] {
                assert_eq!(body[field], full[field], "{field} at {level}");
                assert_eq!(body[field], track[field], "{field} in the list");
            }
            let count: usize = body["segments"]
                .as_array()
                .unwrap()
                .iter()
                .map(|s| s.as_array().unwrap().len())
                .sum();
            assert_eq!(count as u64, returned(&body));
            assert!(returned(&body) <= last, "{level} of {}", track["name"]);
            last = returned(&body);
        }
    }
}

#[test]
fn the_long_track_shrinks_at_every_level() {
    let (_dir, server) = serve();
    let id = server.track_of(LONG);
    let mut counts = vec![LONG];
    for (level, _) in LEVELS {
        counts.push(returned(&server.get(&format!("/v1/tracks/{id}?detail={level}")).json()));
    }
    assert!(counts.is_sorted_by(|a, b| a > b), "{counts:?}");
}

#[test]
fn a_simplified_line_keeps_its_segments_and_their_ends() {
    let (_dir, server) = serve();
    let id = server.track_of(1243);
    let full = server.get(&format!("/v1/tracks/{id}?detail=full")).json();
    let low = server.get(&format!("/v1/tracks/{id}?detail=low")).json();
    let segments = |track: &Value| track["segments"].as_array().unwrap().clone();
    assert_eq!(segments(&low).len(), 14);
    for (a, b) in segments(&full).iter().zip(segments(&low)) {
        let (a, b) = (a.as_array().unwrap(), b.as_array().unwrap());
        assert_eq!((a.first(), a.last()), (b.first(), b.last()));
    }
}

#[test]
fn the_setting_names_the_detail_of_a_request_that_names_none() {
    let dir = stores::bundled();
    for level in ["full", "high", "medium", "low"] {
        let server = Setup::new().data(dir.path()).set("tracks.detail", level).start();
        let id = server.track_of(184);
        assert_eq!(server.get(&format!("/v1/tracks/{id}")).json()["detail"], level);
        assert_eq!(server.get(&format!("/v1/tracks/{id}?detail=high")).json()["detail"], "high");
    }
}

#[test]
fn degrees_as_documented_give_one_tolerance_at_every_level() {
    let dir = stores::bundled();
    let setting = ("tracks.simplify", "degrees:0.0005");
    let server = Setup::new().data(dir.path()).set(setting.0, setting.1).start();
    let id = server.track_of(LONG);
    let at = |detail: &str| server.get(&format!("/v1/tracks/{id}?detail={detail}")).json();
    assert_eq!(returned(&at("full")), LONG);
    let high = at("high");
    assert!(returned(&high) < LONG / 2);
    // 0.0005 degrees of latitude.
    assert_eq!(high["toleranceMetres"], 55.6);
    for level in ["medium", "low"] {
        assert_eq!(at(level)["segments"], high["segments"]);
    }
}

#[test]
fn wrong_parameters_are_all_named_at_once() {
    let (_dir, server) = serve();
    let id = server.track_of(184);
    let answer = server.get(&format!("/v1/tracks/{id}?detail=huge&encoding=base64"));
    assert_eq!(answer.wrong_fields(), ["detail", "encoding"]);
    for detail in ["", "FULL", "10", "full%20"] {
        let answer = server.get(&format!("/v1/tracks/{id}?detail={detail}"));
        assert_eq!(answer.wrong_fields(), ["detail"], "detail={detail}");
    }
    let answer = server.get("/v1/tracks/999999?detail=huge");
    assert_eq!(answer.status, 422, "what is wrong with the request comes first");
}

#[test]
fn an_id_that_is_not_there_is_not_found() {
    let (_dir, server) = serve();
    let ids = [
        "0", "-1", "15", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
        "99999999999999999999999999", "abc", "1.5", "1e3", "%00", "1%00", "%ff", "1%2F2", "..%2F1",
        "한글",
    ];
    for id in ids {
        let problem = server.get(&format!("/v1/tracks/{id}")).problem(404);
        assert_eq!(problem["type"], "urn:madang:problem:not-found", "{id}");
    }
    server.is_well();
}

#[test]
fn an_unknown_path_and_an_unknown_method_are_told_apart() {
    let (_dir, server) = serve();
    for path in ["/v1/track", "/v1/tracks/1/", "/v1/tracks/1/2", "/v1", "//v1/tracks"] {
        server.get(path).problem(404);
    }
    for method in ["POST", "PUT", "PATCH", "BREW"] {
        let answer = server.connect().request(method, "/v1/tracks/1", &[]);
        answer.problem(405);
        let mut allowed: Vec<_> = answer.header("allow").unwrap_or_default().split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed, ["DELETE", "GET", "HEAD"], "{method}");
    }
}
