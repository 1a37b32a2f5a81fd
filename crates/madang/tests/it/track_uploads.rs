//! Users' own tracks: uploaded, listed, deleted by their owner alone.

use crate::harness::client::Answer;
use crate::harness::{Person, Server, Setup, database};
use serde_json::{Value, json};

fn start() -> Server {
    Setup::new().cheap_hash().start()
}

fn river() -> Value {
    json!({"name": "한강 야간 코스", "rate": 4.5, "segments": [[[37.5, 127, 12.5], [37.51, 127.01], [37.52, 127]]]})
}

fn upload(server: &Server, by: &Person, kind: &str, path: &str, body: impl AsRef<[u8]>) -> Answer {
    let bearer = by.bearer();
    let headers = [("Content-Type", kind), ("Authorization", bearer.as_str())];
    server.connect().send_body("POST", path, &headers, body)
}

/// A track of so many points as a body of some 16 bytes for each.
pub fn line(points: u32) -> Value {
    let point = |n: u32| json!([f64::from(n % 1000) / 1e3, f64::from(n / 1000)]);
    json!({"name": format!("{points} points"), "segments": [(0..points).map(point).collect::<Vec<_>>()]})
}

const GPX: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="test" xmlns="http://www.topografix.com/GPX/1/1"><trk><name>둘레길</name><trkseg>
<trkpt lat="37.5" lon="127.0"/><trkpt lat="37.6" lon="127.1"/></trkseg></trk></gpx>"#;

#[test]
fn a_track_in_json_is_stored_and_found_where_the_answer_says() {
    let server = start();
    let runner = server.somebody("runner");
    // Both lists are in the cache before the write, and "no such track" under the id to come.
    assert!(server.tracks().is_empty());
    assert_eq!(server.get("/v1/tracks/1").status, 404);

    let created = server.post("/v1/tracks", Some(&runner), &river());
    assert_eq!(created.status, 201, "{}", created.text());
    let body = created.json();
    assert_eq!(created.header("location"), Some(format!("/v1/tracks/{}", body["id"]).as_str()));
    assert_eq!((&body["name"], &body["pointsTotal"]), (&json!("한강 야간 코스"), &json!(3)));

    let found = server.get(&format!("{}?detail=full", created.header("location").unwrap())).json();
    assert_eq!(found["segments"], river()["segments"]);
    assert_eq!(found["rate"], 4.5);
    assert_eq!(found["lengthMetres"], body["lengthMetres"]);
    assert_eq!(server.tracks().len(), 1);
    let near = server.get("/v1/tracks?near=37.5,127.0").json();
    assert_eq!(near["items"][0]["id"], body["id"]);
}

#[test]
fn gpx_and_geojson_files_are_stored_under_their_own_name_or_a_given_one() {
    let server = start();
    let runner = server.somebody("runner");
    let gpx = upload(&server, &runner, "application/gpx+xml", "/v1/tracks", GPX);
    assert_eq!((gpx.status, &gpx.json()["name"]), (201, &json!("둘레길")));
    let named = upload(&server, &runner, "application/gpx+xml", "/v1/tracks?name=Ring", GPX);
    assert_eq!((named.status, &named.json()["name"]), (201, &json!("Ring")));

    let line = r#"{"type":"LineString","coordinates":[[127.0,37.5],[127.1,37.6]]}"#;
    let unnamed = upload(&server, &runner, "application/geo+json", "/v1/tracks", line);
    assert_eq!(unnamed.wrong_fields(), ["name"]);
    let named = upload(&server, &runner, "application/geo+json", "/v1/tracks?name=Line", line);
    assert_eq!(named.status, 201);
    assert_eq!(server.tracks().len(), 3);
}

#[test]
fn the_same_track_is_stored_once() {
    let server = start();
    let (first, second) = (server.somebody("first"), server.somebody("second"));
    assert_eq!(server.post("/v1/tracks", Some(&first), &river()).status, 201);
    for by in [&first, &second] {
        let again = server.post("/v1/tracks", Some(by), &river()).problem(409);
        assert_eq!(again["type"], "urn:madang:problem:track-exists");
    }
    assert_eq!(server.tracks().len(), 1);
}

#[test]
fn nobody_uploads_or_deletes_without_a_token() {
    let server = start();
    let post = server.post("/v1/tracks", None, &river());
    post.problem(401);
    assert!(post.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
    server.delete("/v1/tracks/1", None).problem(401);
    assert!(server.tracks().is_empty());
}

#[test]
fn only_the_owner_deletes_a_track_and_nobody_a_public_trail() {
    let server = Setup::new().cheap_hash().demo().start();
    let (owner, other) = (server.somebody("owner"), server.somebody("other"));
    let created = server.post("/v1/tracks", Some(&owner), &river());
    let path = created.header("location").unwrap().to_owned();
    assert_eq!(server.get(&path).status, 200);

    server.delete(&path, Some(&other)).problem(403);
    server.delete("/v1/tracks/1", Some(&other)).problem(403);
    server.delete("/v1/tracks/999999", Some(&owner)).problem(404);
    server.delete("/v1/tracks/x", Some(&owner)).problem(404);
    assert_eq!(server.get(&path).status, 200, "still there");

    let deleted = server.delete(&path, Some(&owner));
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    assert_eq!(server.get(&path).status, 404, "the cached body is gone as well");
    server.delete(&path, Some(&owner)).problem(404);
    assert_eq!(server.get("/v1/tracks/1").status, 200);
}

#[test]
fn what_is_no_track_is_refused_by_field() {
    let server = start();
    let runner = server.somebody("runner");
    let post = |body: Value| server.post("/v1/tracks", Some(&runner), &body);
    assert_eq!(post(json!({})).wrong_fields(), ["name", "segments"]);
    let all = json!({"name": "x\u{0}", "rate": 5.1, "segments": [[[90.1, 0], [0, 0]]]});
    assert_eq!(post(all).wrong_fields(), ["name", "rate", "segments"]);
    for (segments, status) in [
        (json!([[[-90, -180], [90, 180]]]), 201),
        (json!([[[0, 0]], [[0, 1]]]), 201),
        (json!([[[0, 180.000001], [0, 0]]]), 422),
        (json!([[[0, 0]]]), 422),
        (json!([[["0", 0], [0, 0]]]), 422),
        (json!("line"), 422),
        (json!(null), 422),
    ] {
        let body = json!({"name": format!("track {segments}"), "segments": segments});
        let answer = post(body);
        assert_eq!(answer.status, status, "{segments}: {}", answer.text());
    }
    for name in ["가".repeat(200), "a".to_owned(), "🏃 밤 달리기".to_owned()] {
        let body = json!({"name": name, "segments": [[[0, 0], [0, 1]]]});
        assert_eq!(post(body).status, 201, "{name}");
    }
    for name in ["가".repeat(201), String::new(), "  ".to_owned(), "a\nb".to_owned()] {
        let body = json!({"name": name, "segments": [[[0, 0], [0, 1]]]});
        assert_eq!(post(body).wrong_fields(), ["name"], "{name:?}");
    }
}

#[test]
fn bodies_that_cannot_be_read_are_400_and_other_types_415() {
    let server = start();
    let runner = server.somebody("runner");
    let status = |kind: &str, body: &str| {
        let answer = upload(&server, &runner, kind, "/v1/tracks", body);
        answer.problem(answer.status);
        answer.status
    };
    for body in ["", "{", "{\"name\":1,\"name\":2}", "{} {}", "{\"name\":\"\\ud800\"}"] {
        assert_eq!(status("application/json", body), 400, "{body}");
    }
    assert_eq!(status("application/json", "[]"), 422);
    for body in ["", "hello", "<gpx", "<gpx></gp>"] {
        assert_eq!(status("application/gpx+xml", body), 400, "{body}");
    }
    for body in ["<kml/>", "<gpx/>", &GPX.replace("37.6", "97.6"), "{\"type\":\"Point\"}"] {
        assert_eq!(status("application/gpx+xml", body), 422, "{body}");
    }
    for kind in ["text/plain", "application/xml", "multipart/form-data"] {
        assert_eq!(status(kind, GPX), 415, "{kind}");
    }
    let nested =
        format!("{{\"name\":\"x\",\"segments\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(status("application/json", &nested), 400);
    server.is_well();
    assert!(server.tracks().is_empty());
}

#[test]
fn refused_writes_leave_the_cached_bodies_that_everybody_reads() {
    let server = Setup::new().cheap_hash().demo().start();
    let eve = server.somebody("eve");
    let owner = server.somebody("owner");
    assert_eq!(server.post("/v1/tracks", Some(&owner), &river()).status, 201);
    let run = json!({"durationSeconds": 60});
    assert_eq!(server.post("/v1/tracks/1/records", Some(&owner), &run).status, 201);
    let cached = ["/v1/tracks/1", "/v1/tracks", "/v1/tracks/1/records"];
    // Listings are kept when they are asked for the second time.
    [cached, cached]
        .as_flattened()
        .iter()
        .for_each(|path| assert_eq!(server.get(path).status, 200));

    let loads = server.metric("madang_cache_loads_total", &[]);
    server.delete("/v1/tracks/1", Some(&eve)).problem(403);
    server.delete("/v1/tracks/999999", Some(&eve)).problem(404);
    server.post("/v1/tracks", Some(&eve), &river()).problem(409);
    let slower = server.post("/v1/tracks/1/records", Some(&owner), &json!({"durationSeconds": 61}));
    assert_eq!(slower.json()["personalBest"], false);
    cached.iter().for_each(|path| assert_eq!(server.get(path).status, 200));
    assert_eq!(server.metric("madang_cache_loads_total", &[]), loads, "nothing was loaded again");

    assert_eq!(server.post("/v1/tracks/1/records", Some(&eve), &run).status, 201);
    assert_eq!(server.get(cached[2]).json()["items"].as_array().unwrap().len(), 2);
    assert!(server.metric("madang_cache_loads_total", &[]) > loads, "this one was");
}

#[test]
fn the_token_of_an_account_that_is_gone_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().demo().start();
    let ghost = server.somebody("ghost");
    database::execute(dir.path(), "DELETE FROM users");
    server.post("/v1/tracks", Some(&ghost), &river()).problem(401);
    server.post("/v1/tracks/1/records", Some(&ghost), &json!({"durationSeconds": 60})).problem(401);
}

#[test]
fn what_was_sent_is_not_repeated_in_an_error() {
    let server = start();
    let runner = server.somebody("runner");
    let body = json!({"name": "x", "segments": [[["long ".repeat(10_000)]]]});
    let answer = server.post("/v1/tracks", Some(&runner), &body);
    assert_eq!(answer.wrong_fields(), ["segments"]);
    assert!(answer.body.len() < 1000, "{} bytes", answer.body.len());
}

#[test]
fn a_path_of_more_points_than_its_largest_form_may_have_is_refused() {
    let server = start();
    let runner = server.somebody("runner");
    let refused = server.post("/v1/tracks", Some(&runner), &line(50_001));
    assert_eq!(refused.wrong_fields(), ["segments"]);
    let text = refused.text();
    assert!(text.contains("50000 points"), "{text}");
    let stored = server.post("/v1/tracks", Some(&runner), &line(50_000));
    assert_eq!(stored.status, 201, "{}", stored.text());
    let path = format!("{}?detail=full", stored.header("location").unwrap());
    for form in ["application/json", "application/geo+json", "application/gpx+xml"] {
        let body = server.get_with(&path, &[("Accept", form)]).body;
        assert!(body.len() < 4 << 20, "{form}: {}", body.len());
    }
}

#[test]
fn names_of_uploads_pass_the_rule_of_titles() {
    let server = start();
    let runner = server.somebody("runner");
    let line = r#"{"type":"LineString","coordinates":[[127.0,37.5],[127.1,37.6]]}"#;
    let encoded = |name: &str| name.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
    for bad in ["a\u{202e}b", "a\u{2028}b", "a\u{3164}b", "\u{200b}", "a\u{2066}b", "a\nb"] {
        let path = format!("/v1/tracks?name={}", encoded(bad));
        let given = upload(&server, &runner, "application/geo+json", &path, line);
        assert_eq!(given.wrong_fields(), ["name"], "{}", bad.escape_unicode());
        let json = json!({"name": bad, "segments": [[[37.5, 127], [37.6, 127]]]});
        let json = server.post("/v1/tracks", Some(&runner), &json);
        assert_eq!(json.wrong_fields(), ["name"], "{}", bad.escape_unicode());
    }
    // A file's own name, where what can be left out of it is left out.
    let gpx = |name: &str| {
        let body = GPX.replace("둘레길", name);
        upload(&server, &runner, "application/gpx+xml", "/v1/tracks", body)
    };
    assert_eq!(gpx("a\u{3164}b").wrong_fields(), ["name"]);
    let decomposed = "\u{1112}\u{1161}\u{11ab}강";
    assert_eq!(gpx(decomposed).json()["name"], "한강");
    assert_eq!(gpx("한강").status, 409, "the same name");
    assert_eq!(gpx("a\u{202e}b").json()["name"], "ab");
    let named = format!("/v1/tracks?name={}", encoded(decomposed));
    let named = upload(&server, &runner, "application/geo+json", &named, line);
    assert_eq!(named.status, 409, "the same name and path in another format");
}
