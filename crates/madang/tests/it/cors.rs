//! Pages of other origins: which may use the API from a browser (`server.cors_origins`).

use crate::harness::{Answer, Server, Setup, stores};
use serde_json::json;

const APP: &str = "https://app.example.com";
const ALLOWED: &str = "access-control-allow-origin";

fn preflight(server: &Server, path: &str, origin: &str) -> Answer {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "PATCH"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
    ];
    server.connect().request("OPTIONS", path, &headers)
}

fn ask(server: &Server, path: &str, origin: &str) -> Answer {
    server.get_with(path, &[("Origin", origin)])
}

#[test]
fn off_as_by_default_no_answer_speaks_of_origins() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    for answer in [ask(&server, "/v1/tracks", APP), preflight(&server, "/v1/tracks", APP)] {
        let speaks = answer.headers.iter().any(|(name, value)| {
            name.starts_with("access-control") || name == "vary" && value.contains("origin")
        });
        assert!(!speaks, "{answer:?}");
    }
    preflight(&server, "/v1/tracks", APP).problem(405);
}

#[test]
fn a_page_of_an_allowed_origin_may_ask_and_read_whatever_the_answer() {
    let dir = stores::bundled();
    let allowed = format!("{APP}, http://localhost:5173");
    let server = Setup::new().data(dir.path()).set("server.cors_origins", &allowed).start();
    let list = ask(&server, "/v1/tracks", APP);
    let tag = list.header("etag").unwrap().to_owned();
    let known = [("Origin", APP), ("If-None-Match", tag.as_str())];
    let refused = [("Origin", APP), ("Content-Type", "application/json")];
    let answers = [
        list,
        server.get_with("/v1/tracks", &known),
        ask(&server, "/v1/tracks/777777", APP),
        ask(&server, "/nothing", APP),
        ask(&server, &format!("/{}", "x".repeat(9000)), APP),
        server.connect().send_body("POST", "/v1/schedules", &refused, json!({}).to_string()),
        server.connect().request("DELETE", "/v1/tracks", &[("Origin", APP)]),
    ];
    assert_eq!(answers.each_ref().map(|a| a.status), [200, 304, 404, 404, 414, 401, 405]);
    for answer in &answers {
        assert_eq!(answer.header(ALLOWED), Some(APP), "{answer:?}");
        let exposed = answer.header("access-control-expose-headers").unwrap();
        for name in ["etag", "location", "retry-after", "x-request-id"] {
            assert!(exposed.split(", ").any(|one| one == name), "{exposed}");
        }
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    assert_eq!(
        ask(&server, "/v1/tracks", "http://localhost:5173").header(ALLOWED).unwrap().len(),
        21
    );
}

#[test]
fn a_preflight_is_told_the_methods_of_its_path() {
    let allowed = Setup::new().set("server.cors_origins", APP);
    let server = allowed.start();
    for (path, methods) in [
        ("/v1/tracks", vec!["GET", "HEAD", "POST"]),
        ("/v1/posts/1", vec!["DELETE", "GET", "HEAD", "PATCH"]),
        ("/v1/articles/1/like", vec!["DELETE", "POST", "PUT"]),
    ] {
        let answer = preflight(&server, path, APP);
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{path}");
        assert_eq!(answer.header(ALLOWED), Some(APP));
        let mut told: Vec<_> = answer
            .header("access-control-allow-methods")
            .unwrap()
            .split(',')
            .map(str::trim)
            .collect();
        told.sort_unstable();
        assert_eq!(told, methods, "{path}");
        let headers = answer.header("access-control-allow-headers").unwrap();
        for name in [
            "authorization", "content-type", "idempotency-key", "if-match", "if-none-match",
            "x-request-id",
        ] {
            assert!(headers.split(", ").any(|one| one == name), "{headers}");
        }
        assert!(answer.header("access-control-max-age").is_some());
        assert!(answer.header("x-request-id").is_some());
    }
    preflight(&server, "/v1/nothing", APP).problem(404);
    // Without the header of a preflight it is any other request with a method that no route knows.
    server.connect().request("OPTIONS", "/v1/tracks", &[("Origin", APP)]).problem(405);
    let counted = server.metric(
        "madang_http_server_requests_total",
        &["method=\"OPTIONS\"", "route=\"/v1/tracks\"", "status=\"204\""],
    );
    assert_eq!(counted, 1.0);
}

#[test]
fn other_origins_are_told_nothing_and_caches_keep_answers_apart() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("server.cors_origins", APP).start();
    for origin in ["https://evil.example", "https://app.example.com.evil.example", "null", ""] {
        let answer = ask(&server, "/v1/tracks", origin);
        assert_eq!((answer.status, answer.header(ALLOWED)), (200, None), "{origin}");
        let preflight = preflight(&server, "/v1/tracks", origin);
        assert_eq!((preflight.status, preflight.header(ALLOWED)), (405, None), "{origin}");
    }
    for answer in [server.get("/v1/tracks"), ask(&server, "/v1/tracks", APP)] {
        let vary = answer.headers.iter().filter(|(name, _)| name == "vary");
        assert!(vary.clone().any(|(_, value)| value.contains("origin")), "{:?}", answer.headers);
        assert!(vary.clone().any(|(_, value)| value.contains("accept")), "{:?}", answer.headers);
    }
}

#[test]
fn all_origins_may_be_allowed() {
    let server = Setup::new().set("server.cors_origins", "*").start();
    let answer = ask(&server, "/v1/tracks", "https://anybody.example");
    assert_eq!(answer.header(ALLOWED), Some("*"));
    assert_eq!(preflight(&server, "/v1/tracks", "https://anybody.example").status, 204);
    assert_eq!(server.get("/v1/tracks").header(ALLOWED), None, "no page has asked");
}
