//! Bounds on what a client may take: time, size, connections.

use crate::harness::{Connection, Server, Setup, eventually, stores};
use crate::track_detail::LONG;

const EXPIRED: &str = "madang_http_server_connections_expired_total";
const OPEN: &str = "madang_http_server_connections";

fn with(key: &str, value: &str) -> Server {
    Setup::new().set(key, value).start()
}

#[test]
fn a_head_that_does_not_come_is_not_waited_for() {
    let server = with("server.header_timeout", "300ms");
    let mut silent = server.connect();
    silent.send("GET /v1/tracks HTTP/1.1\r\nHost:");
    assert!(silent.is_closed_by_the_server());
    server.until_metric(EXPIRED, &["reason=\"slow_head\""], 1.0);
    server.is_well();
}

#[test]
fn a_head_that_trickles_in_is_not_waited_for() {
    let server = with("server.header_timeout", "300ms");
    let mut slow = server.connect();
    slow.send("GET /v1/tracks HTTP/1.1\r\nX: ");
    eventually("it is cut off", || (!slow.try_send("x")).then_some(()));
    server.until_metric(EXPIRED, &["reason=\"slow_head\""], 1.0);
}

#[test]
fn half_a_head_behind_a_request_is_not_waited_for_longer_than_an_idle_client() {
    let server = with("server.idle_timeout", "300ms");
    let mut slow = server.connect();
    slow.send("GET /health/live HTTP/1.1\r\nHost: test\r\n\r\nGET /health/live HT");
    assert_eq!(slow.answer().unwrap().status, 200);
    assert!(slow.is_closed_by_the_server());
    server.until_metric(EXPIRED, &[], 1.0);
}

#[test]
fn idle_clients_of_the_metrics_do_not_keep_others_out() {
    let server = with("server.header_timeout", "300ms");
    let mut silent: Vec<_> = (0..200).map(|_| Connection::open(server.metrics)).collect();
    silent[0].send("GET /metrics HT");
    // Answered as soon as the deadline has made room.
    assert_eq!(Connection::open(server.metrics).get("/metrics").status, 200);
    for connection in &mut silent {
        assert!(connection.is_closed_by_the_server());
    }
}

#[test]
fn an_idle_connection_is_closed() {
    let server = with("server.idle_timeout", "300ms");
    let mut used = server.connect();
    assert_eq!(used.get("/health/live").status, 200);
    let mut unused = server.connect();
    assert!(used.is_closed_by_the_server());
    assert!(unused.is_closed_by_the_server());
    server.until_metric(EXPIRED, &["reason=\"idle\""], 2.0);
    server.until_metric(OPEN, &[], 0.0);
}

#[test]
fn a_reader_that_takes_nothing_is_given_up() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("server.write_timeout", "400ms").start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    let mut greedy = server.connect();
    // Far more than the kernel buffers on both sides.
    for _ in 0..60 {
        greedy.send(crate::harness::client::head("GET", &path, &[]));
    }
    server.until_metric(EXPIRED, &["reason=\"slow_reader\""], 1.0);
    server.until_metric(OPEN, &[], 0.0);
    server.is_well();
}

#[test]
fn a_reader_with_breaks_gets_everything() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    let whole = server.get(&path).body;
    let mut late = server.connect();
    for _ in 0..40 {
        late.send(crate::harness::client::head("GET", &path, &[]));
    }
    // The server cannot finish before this reader begins; it waits and then goes on.
    server.until_metric("madang_http_server_requests_in_flight", &[], 0.0);
    for _ in 0..40 {
        assert_eq!(late.answer().unwrap().body, whole);
    }
}

#[test]
fn a_body_over_the_limit_is_refused() {
    let server = with("server.max_body", "1KiB");
    let mut announced = server.connect();
    announced.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 1025\r\n\r\n");
    let answer = announced.answer().unwrap();
    let problem = answer.problem(413);
    assert!(problem["detail"].as_str().unwrap().contains("1024"));
    assert_eq!(answer.header("connection"), Some("close"));
    let mut chunked = server.connect();
    let head = "GET /v1/tracks HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
    chunked.send(format!("{head}401\r\n{}\r\n", "x".repeat(1025)));
    chunked.answer().unwrap().problem(413);
    let mut exact = server.connect();
    exact.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 1024\r\n\r\n");
    assert_eq!(exact.send("x".repeat(1024)).answer().unwrap().status, 200);
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_sent() {
    let server = with("server.max_body", "1KiB");
    let mut polite = server.connect();
    let length = 1u64 << 40;
    polite.send(format!(
        "GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    ));
    polite.answer().unwrap().problem(413);
}

#[test]
fn a_body_that_does_not_come_is_answered_408() {
    let server = with("server.body_timeout", "300ms");
    let mut slow = server.connect();
    slow.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n12345");
    let answer = slow.answer().unwrap();
    answer.problem(408);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(slow.is_closed_by_the_server());
    server.is_well();
}

#[test]
fn work_that_takes_too_long_is_given_up_with_503() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("server.request_timeout", "1ms").start();
    // A millisecond is not enough to make and compress 24,758 points three times.
    let late = (1..=14)
        .map(|id| server.get(&format!("/v1/tracks/{id}?detail=full")))
        .find(|answer| answer.status == 503);
    late.expect("something took a millisecond").problem(503);
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn a_head_over_the_limit_is_refused() {
    let server = Setup::new().start();
    let mut large = server.connect();
    large.try_send(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(70 << 10)));
    assert_eq!(large.answer().unwrap().status, 431);
    let mut many = server.connect();
    many.try_send(format!("GET / HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(101)));
    assert_eq!(many.answer().unwrap().status, 431);
    let mut enough = server.connect();
    enough.send(format!("GET /health/live HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(99)));
    assert_eq!(enough.answer().unwrap().status, 200);
    server.is_well();
}

#[test]
fn a_path_over_the_limit_is_refused() {
    let server = Setup::new().start();
    server.get(&format!("/v1/tracks?cursor={}", "0".repeat(9_000))).problem(414);
    server.get(&format!("/{}", "x".repeat(60_000))).problem(414);
    assert_eq!(server.get(&format!("/v1/tracks?x={}", "0".repeat(8_000))).status, 200);
    server.is_well();
}

#[test]
fn one_connection_too_many_is_answered_503_and_closed() {
    let server = with("server.max_connections", "3");
    let mut open: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for connection in &mut open {
        assert_eq!(connection.get("/health/live").status, 200);
    }
    // With and without a request: the answer must arrive either way.
    for request in ["", "GET /health/live HTTP/1.1\r\nHost: test\r\n\r\n"] {
        let mut refused = server.connect();
        refused.try_send(request);
        let answer = refused.answer().expect("a reason, not a reset");
        answer.problem(503);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(refused.is_closed_by_the_server());
    }
    assert!(server.metric("madang_http_server_connections_refused_total", &[]) >= 2.0);
    for connection in &mut open {
        assert_eq!(connection.get("/health/live").status, 200, "those inside notice nothing");
    }
    open.pop();
    eventually("a place is free", || (server.get("/health/live").status == 200).then_some(()));
}
