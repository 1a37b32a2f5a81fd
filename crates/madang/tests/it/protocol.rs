//! HTTP/1.1 as clients really speak it, and as attackers do.

use crate::harness::{Connection, Server, Setup, stores};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

fn statuses(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    text.match_indices("HTTP/1.").map(|(at, _)| text[at + 9..at + 12].to_owned()).collect()
}

/// Sends bytes, then everything the server says until it closes.
fn exchange(server: &Server, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut connection = server.connect();
    connection.try_send(bytes);
    connection.rest()
}

#[test]
fn twenty_pipelined_requests_are_answered_in_order() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let mut connection = server.connect();
    // Cold and cached, found and not found: each takes another time.
    let ids: Vec<i64> = (0..20).map(|n| if n % 2 == 0 { 1 + n % 14 } else { 100 + n }).collect();
    let all: String = ids
        .iter()
        .map(|id| format!("GET /v1/tracks/{id}?detail=low HTTP/1.1\r\nHost: test\r\n\r\n"))
        .collect();
    connection.send(all);
    for id in ids {
        let answer = connection.answer().unwrap();
        if id < 100 {
            assert_eq!(answer.json()["id"], id);
        } else {
            answer.problem(404);
        }
    }
}

#[test]
fn a_connection_serves_a_thousand_requests() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let mut connection = server.connect();
    let first = connection.get("/v1/tracks");
    for _ in 0..1000 {
        let answer = connection.get("/v1/tracks");
        assert_eq!((answer.status, &answer.body), (200, &first.body));
    }
    let accepted = server.metric("madang_http_server_connections_accepted_total", &[]);
    assert!((accepted - 1.0).abs() < f64::EPSILON, "{accepted}");
}

#[test]
fn what_follows_a_refused_request_takes_no_answer_with_it() {
    let server = Setup::new().start();
    // More than the client's kernel takes before it is read, so that the rest waits in the server's; and more than the
    // server reads before it comes to what it refuses.
    let large = "GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n".repeat(10);
    let rest = "GET /health/live HTTP/1.1\r\nHost: test\r\n\r\n".repeat(1000);
    let sent = [&large, "GET /<> HTTP/1.1\r\nHost: test\r\n\r\n", &rest].concat();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.api).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut answers = Vec::new();
        // Its end, not a reset.
        stream.read_to_end(&mut answers).unwrap();
        let statuses = statuses(&answers);
        assert_eq!((statuses.len(), statuses.last().unwrap().as_str()), (11, "400"));
    }
}

#[test]
fn a_connection_ends_after_a_body_that_was_left_unread() {
    let server = Setup::new().start();
    let long = format!("/v1/tracks?cursor={}", "0".repeat(9_000));
    let mut connection = server.connect();
    let answer = connection.request("GET", &long, &[]);
    answer.problem(414);
    assert_eq!(answer.header("connection"), None);
    // Its body does not come before it is answered.
    connection.send(format!("POST {long} HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n"));
    let answer = connection.answer().unwrap();
    answer.problem(414);
    assert_eq!(answer.header("connection"), Some("close"));
}

#[test]
fn a_connection_is_closed_when_the_client_asks() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    let answer = connection.request("GET", "/health/live", &[("Connection", "close")]);
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(connection.is_closed_by_the_server());
}

#[test]
fn an_old_client_is_answered_and_its_connection_closed() {
    let server = Setup::new().start();
    let said = exchange(&server, "GET /v1/tracks HTTP/1.0\r\n\r\n");
    assert!(said.starts_with(b"HTTP/1.0 200") || said.starts_with(b"HTTP/1.1 200"));
    let text = String::from_utf8(said).unwrap();
    assert!(!text.to_lowercase().contains("transfer-encoding"), "{text}");
    let mut kept = server.connect();
    for _ in 0..2 {
        kept.send("GET /health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(kept.answer().unwrap().status, 200);
    }
}

#[test]
fn a_whole_address_names_the_same_resource() {
    let server = Setup::new().start();
    let answer = server.get("http://example.org/v1/tracks?limit=1");
    assert_eq!(answer.status, 200);
    server.get("http://example.org/nowhere").problem(404);
}

#[test]
fn a_client_that_asks_before_sending_is_told_to_go_on() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    connection.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(connection.answer().unwrap().status, 100);
    assert_eq!(connection.send("{}").answer().unwrap().status, 200);
}

#[test]
fn a_body_that_nobody_wants_is_read_and_does_no_harm() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    connection.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.send("5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n");
    assert_eq!(connection.answer().unwrap().status, 200);
    let mut connection = server.connect();
    connection.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(connection.answer().unwrap().status, 200);
    assert_eq!(connection.get("/health/live").status, 200, "the body was not taken for a request");
}

#[test]
fn a_request_of_two_lengths_is_refused_and_nothing_is_smuggled() {
    let server = Setup::new().start();
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n";
    for framing in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length : 5",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding : chunked",
        "X: 1\r\n Transfer-Encoding: chunked",
    ] {
        let request = format!("GET /v1/tracks HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n");
        let said = exchange(&server, format!("{request}0\r\n\r\n{smuggled}"));
        assert_eq!(statuses(&said), ["400"], "{framing:?}");
    }
    let said = exchange(&server, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(statuses(&said), ["400"], "chunks are unknown to HTTP/1.0");
    server.is_well();
    let seen = server.metric("madang_http_server_requests_total", &["route=\"unmatched\""]);
    assert!(seen.abs() < f64::EPSILON, "a smuggled request was answered");
}

#[test]
fn transfer_codings_other_than_chunked_are_answered_501() {
    let server = Setup::new().start();
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n";
    for coding in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: x, chunked\r\nContent-Length: 5",
    ] {
        let mut connection = server.connect();
        let head = format!("POST /v1/tracks HTTP/1.1\r\nHost: test\r\n{coding}\r\n\r\n");
        connection.try_send(format!("{head}0\r\n\r\n{smuggled}"));
        let answer = connection.answer().unwrap();
        assert_eq!(answer.problem(501)["type"], "urn:madang:problem:not-implemented", "{coding}");
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(connection.is_closed_by_the_server());
    }
    let mut connection = server.connect();
    let head = "GET /v1/tracks HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: , Chunked\r\n\r\n";
    assert_eq!(connection.send(format!("{head}0\r\n\r\n")).answer().unwrap().status, 200);
    server.is_well();
}

#[test]
fn a_request_names_exactly_one_host() {
    let server = Setup::new().start();
    for hosts in
        ["", "Host: a\r\nHost: b\r\n", "Host: a\r\nHost: a\r\n", "Host: a, b\r\n", "Host: a/b\r\n"]
    {
        for method in ["GET", "POST"] {
            let mut connection = server.connect();
            let length = if method == "POST" { "Content-Length: 2\r\n" } else { "" };
            connection.send(format!("{method} /health/live HTTP/1.1\r\n{hosts}{length}\r\n"));
            let answer = connection.answer().unwrap();
            answer.problem(400);
            assert_eq!(answer.header("connection"), Some("close"), "{hosts:?}");
            connection.finish_sending();
            assert!(connection.is_closed_by_the_server());
        }
    }
    let two = exchange(&server, "GET /health/live HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n");
    assert_eq!(statuses(&two), ["400"]);
    for hosts in ["Host:\r\n", "Host: [::1]:80\r\n"] {
        let mut connection = server.connect();
        connection.send(format!("GET /health/live HTTP/1.1\r\n{hosts}\r\n"));
        assert_eq!(connection.answer().unwrap().status, 200, "{hosts:?}");
    }
    server.is_well();
}

#[test]
fn after_chunks_beside_a_length_the_connection_is_closed() {
    // RFC 9112, section 6.1: process it by the chunks, or refuse it, but close in any case.
    let server = Setup::new().start();
    let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
    for framing in [format!("{length}{chunked}"), format!("{chunked}{length}")] {
        let head = format!("GET /v1/tracks HTTP/1.1\r\nHost: test\r\n{framing}\r\n");
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n";
        let said = exchange(&server, format!("{head}0\r\n\r\n{smuggled}"));
        assert_eq!(statuses(&said).len(), 1, "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn broken_chunks_are_refused() {
    let server = Setup::new().start();
    let head = "GET /v1/tracks HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in ["xyz\r\n", "FFFFFFFFFFFFFFFFF\r\n", "5\r\nhelloX\r\n", "-1\r\n", "5 5\r\n"] {
        let said = exchange(&server, format!("{head}{chunks}0\r\n\r\n"));
        assert_eq!(statuses(&said), ["400"], "{chunks:?}");
    }
    server.is_well();
}

#[test]
fn bytes_that_no_path_may_hold_are_refused() {
    let server = Setup::new().start();
    for path in [&b"/v1/tracks\0"[..], b"/v1/\x01", b"/v1 /x", b"v1/tracks"] {
        let mut request = b"GET ".to_vec();
        request.extend_from_slice(path);
        request.extend_from_slice(b" HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(statuses(&exchange(&server, request)), ["400"], "{path:?}");
    }
    server.is_well();
}

#[test]
fn escapes_in_the_path_name_nothing_else() {
    let server = Setup::new().start();
    for path in [
        "/v1/tracks/%00",
        "/v1%2Ftracks",
        "/v1/tracks/../tracks",
        "/v1/%2e%2e/v1/tracks",
        "/docs/../openapi.json",
        "/docs/..%2f..%2fetc%2fpasswd",
        "/docs/%2e%2e/%2e%2e/etc/passwd",
        "/v1/tracks/%",
        "/v1/tracks/%zz",
        "/%F0%9F%8F%83",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        answer.problem(404);
    }
    server.is_well();
}

#[test]
fn any_bytes_in_the_query_are_read_as_text() {
    let server = Setup::new().start();
    for query in ["%F0%9F%8F%83", "🏃", "%FF%FE", "%", "%zz", "a=%00", "&&&===", "한글=마당"]
    {
        assert_eq!(server.get(&format!("/v1/tracks?{query}")).status, 200, "{query}");
        assert_eq!(server.get(&format!("/v1/tracks?limit={query}")).status, 422, "{query}");
    }
    let mut raw = server.connect();
    raw.send(b"GET /v1/tracks?limit=\xff\xfe HTTP/1.1\r\nHost: test\r\n\r\n");
    let status = raw.answer().unwrap().status;
    assert!(matches!(status, 400 | 422), "{status}");
    server.is_well();
}

#[test]
fn the_metrics_listener_speaks_http_as_well() {
    let server = Setup::new().start();
    let mut connection = Connection::open(server.metrics);
    for _ in 0..3 {
        assert_eq!(connection.get("/metrics").status, 200);
    }
    assert_eq!(connection.request("POST", "/metrics", &[]).status, 405);
}

#[test]
fn no_answer_is_to_be_taken_for_anything_but_what_it_says_it_is() {
    let server = Setup::new().start();
    let long = format!("/{}", "x".repeat(9000));
    for (method, path, status) in [
        ("GET", "/v1/tracks", 200),
        ("HEAD", "/v1/tracks", 200),
        ("GET", "/v1/tracks/7", 404),
        ("GET", "/nothing", 404),
        ("GET", "/openapi.json", 200),
        ("GET", "/docs/", 200),
        ("GET", "/", 200),
        ("GET", "/home/figures", 200),
        ("GET", "/health/live", 200),
        ("DELETE", "/v1/tracks", 405),
        ("DELETE", "/v1/tracks/7", 401),
        ("GET", long.as_str(), 414),
    ] {
        let answer = server.connect().request(method, path, &[]);
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{method} {path}");
    }
}
