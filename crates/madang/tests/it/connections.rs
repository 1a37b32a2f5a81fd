//! Bounds on what a client may take: time, size, connections.

use crate::harness::{Connection, Server, Setup, command, eventually, stores};
use crate::track_detail::LONG;

const EXPIRED: &str = "madang_http_server_connections_expired_total";
const OPEN: &str = "madang_http_server_connections";

fn with(key: &str, value: &str) -> Server {
    Setup::new().set(key, value).start()
}

#[test]
fn a_head_that_does_not_come_is_not_waited_for() {
    let server = with("server.header_timeout", "1s");
    let mut silent = server.connect();
    silent.send("GET /v1/tracks HTTP/1.1\r\nHost:");
    assert!(silent.is_closed_by_the_server());
    server.until_metric(EXPIRED, &["reason=\"slow_head\""], 1.0);
    server.is_well();
}

#[test]
fn a_head_that_trickles_in_is_not_waited_for() {
    let server = with("server.header_timeout", "1s");
    let mut slow = server.connect();
    slow.send("GET /v1/tracks HTTP/1.1\r\nX: ");
    eventually("it is cut off", || (!slow.try_send("x")).then_some(()));
    server.until_metric(EXPIRED, &["reason=\"slow_head\""], 1.0);
}

#[test]
fn a_connection_without_a_first_byte_is_not_waited_for() {
    let server = with("server.header_timeout", "1s");
    let mut silent = server.connect();
    assert!(silent.is_closed_by_the_server());
    server.until_metric(EXPIRED, &["reason=\"slow_head\""], 1.0);
}

#[test]
fn half_a_head_behind_a_request_is_not_waited_for() {
    let server = with("server.header_timeout", "1s");
    let mut slow = server.connect();
    slow.send("GET /health/live HTTP/1.1\r\nHost: test\r\n\r\nGET /health/live HT");
    assert_eq!(slow.answer().unwrap().status, 200);
    assert!(slow.is_closed_by_the_server());
    server.until_metric(EXPIRED, &["reason=\"slow_head\""], 1.0);
}

#[test]
fn idle_clients_of_the_metrics_do_not_keep_others_out() {
    let server = with("server.header_timeout", "1s");
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
    assert!(used.is_closed_by_the_server());
    server.until_metric(EXPIRED, &["reason=\"idle\""], 1.0);
    server.until_metric(OPEN, &[], 0.0);
}

#[test]
fn a_reader_that_takes_nothing_is_given_up() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("server.write_timeout", "400ms").start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    let mut greedy = server.connect();
    // Far more than the kernel buffers on both sides.
    greedy.send(crate::harness::client::head("GET", &path, &[]).repeat(60));
    server.until_metric(EXPIRED, &["reason=\"slow_reader\""], 1.0);
    server.until_metric(OPEN, &[], 0.0);
    server.is_well();
}

#[test]
fn a_reader_that_takes_little_at_a_time_is_given_up() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("server.write_timeout", "1s").start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    let mut slow = server.connect();
    slow.send(crate::harness::client::head("GET", &path, &[]).repeat(100));
    // Far less than 128 KiB a second.
    eventually("it is given up", || {
        slow.takes(64);
        (server.metric(EXPIRED, &["reason=\"slow_reader\""]) > 0.0).then_some(())
    });
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
    let labels = ["route=\"/v1/tracks/{id}\"", "status=\"503\""];
    assert!(server.metric("madang_http_server_requests_total", &labels) >= 1.0, "by its route");
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn a_head_over_the_limit_is_refused() {
    let server = Setup::new().start();
    let mut large = server.connect();
    large.try_send(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(17 << 10)));
    assert_eq!(large.answer().unwrap().status, 431);
    let mut many = server.connect();
    many.try_send(format!("GET / HTTP/1.1\r\nHost: test\r\n{}\r\n", "X: 1\r\n".repeat(100)));
    assert_eq!(many.answer().unwrap().status, 431);
    let mut enough = server.connect();
    let lines = "X: 1\r\n".repeat(98) + "X: " + &"x".repeat(15 << 10) + "\r\n";
    enough.send(format!("GET /health/live HTTP/1.1\r\nHost: test\r\n{lines}\r\n"));
    assert_eq!(enough.answer().unwrap().status, 200);
    server.is_well();
}

#[test]
fn a_path_over_the_limit_is_refused() {
    let server = Setup::new().start();
    server.get(&format!("/v1/tracks?cursor={}", "0".repeat(9_000))).problem(414);
    server.get(&format!("/{}", "x".repeat(14_000))).problem(414);
    assert_eq!(server.get(&format!("/v1/tracks?x={}", "0".repeat(8_000))).status, 200);
    server.is_well();
}

#[test]
fn beyond_its_share_an_address_loses_its_own_idle_connection_and_others_none() {
    let setup = Setup::new().set("server.max_connections_per_address", "3");
    let server = setup.set("guard.exempt", "127.0.0.9").start();
    let mut other = server.connect_from(2);
    assert_eq!(other.get("/health/live").status, 200);
    let mut open = Vec::new();
    for _ in 0..20 {
        // All connections are looked through for each, which is not done at any rate.
        open.push(eventually("a newcomer is served", || {
            let mut newcomer = server.connect();
            (newcomer.get("/health/live").status == 200).then_some(newcomer)
        }));
    }
    assert!(server.metric(EXPIRED, &["reason=\"displaced\""]) >= 16.0);
    let mut exempt: Vec<_> = (0..10).map(|_| server.connect_from(9)).collect();
    for connection in &mut exempt {
        assert_eq!(connection.get("/health/live").status, 200, "no limit");
    }
    assert_eq!(other.get("/health/live").status, 200, "another address has its own");
    assert_eq!(open.last_mut().unwrap().get("/health/live").status, 200, "nor the last one");
}

#[test]
fn silent_connections_of_four_addresses_keep_nobody_out() {
    let setup = Setup::new().cheap_hash().set("server.max_connections", "200");
    let server = setup.set("server.header_timeout", "10min").start();
    let mina = server.somebody("mina");
    // A connection of hers that is still about to close would take a silent one's place.
    server.until_metric(OPEN, &[], 0.0);
    let silent: Vec<_> = (2..6)
        .flat_map(|host| (0..50).map(move |_| host))
        .map(|h| server.connect_from(h))
        .collect();
    server.until_metric(OPEN, &[], 200.0);
    for _ in 0..20 {
        assert_eq!(server.connect_from(6).get("/v1/tracks").status, 200);
        assert_eq!(server.log_in("mina").nickname, mina.nickname);
    }
    assert!(server.metric(EXPIRED, &["reason=\"displaced\""]) > 0.0);
    assert!(server.metric(OPEN, &[]) <= 200.0);
    drop(silent);
    server.is_well();
}

#[test]
fn half_heads_and_half_bodies_of_four_addresses_keep_nobody_out() {
    let setup = Setup::new().set("server.max_connections", "40");
    let setup = setup.set("server.header_timeout", "10min").set("server.body_timeout", "10min");
    let server = setup.start();
    let half_body = "POST /v1/auth/user/login HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n{";
    let mut held = Vec::new();
    for host in 2..6 {
        for request in [half_body, "GET /v1/tracks HTTP/1.1\r\nHost:"].repeat(5) {
            let mut connection = server.connect_from(host);
            connection.send(request);
            held.push(connection);
        }
    }
    server.until_metric("madang_http_server_requests_in_flight", &[], 20.0);
    // Twice as often as there are connections: also those with half a body make room.
    for host in 6..86 {
        let mut newcomer = server.connect_from(host);
        assert_eq!(newcomer.get("/v1/tracks").status, 200);
        held.push(newcomer);
        held.drain(..held.len().saturating_sub(45));
    }
    server.is_well();
}

#[test]
fn the_connection_that_has_waited_longest_makes_room() {
    let setup = Setup::new().set("server.max_connections", "3");
    let server = setup.set("server.max_connections_per_address", "100").start();
    let mut first = server.connect();
    assert_eq!(first.get("/health/live").status, 200);
    let mut second = server.connect();
    assert_eq!(second.get("/health/live").status, 200);
    let mut third = server.connect();
    // Not the oldest connection but the one whose client has been silent for longest. The server's
    // clock is a coarse one: a silence must have begun a while after another to be the shorter one.
    let later = || std::thread::sleep(std::time::Duration::from_millis(1500));
    later();
    assert_eq!(third.get("/health/live").status, 200);
    later();
    assert_eq!(first.get("/health/live").status, 200);
    let mut fourth = server.connect();
    assert_eq!(fourth.get("/health/live").status, 200);
    assert!(second.is_closed_by_the_server());
    for connection in [&mut first, &mut third, &mut fourth] {
        assert_eq!(connection.get("/health/live").status, 200);
    }
    server.until_metric(EXPIRED, &["reason=\"displaced\""], 1.0);
}

#[test]
fn without_descriptors_the_log_stays_short_and_clients_come_in_again() {
    let mut command = command::clean("sh");
    command.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\"", command::program()]);
    let setup = Setup::new().set("server.header_timeout", "10min");
    let server = setup.set("guard.exempt", "127.0.0.1").start_through(command);
    let mut silent = Vec::new();
    let left_out = || -> usize {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("cannot accept connections"));
        let count = |line: &str| line.split("unsaid=").nth(1)?.split(' ').next()?.parse().ok();
        lines.map(|line| count(line).unwrap_or(0usize)).sum()
    };
    eventually("failures that were not logged", || {
        silent.extend((0..20).map(|_| server.connect()));
        silent.drain(..silent.len().saturating_sub(300));
        (left_out() >= 10).then_some(())
    });
    let lines = server.log().matches("cannot accept connections").count();
    assert!(lines <= left_out(), "{lines} lines");
    drop(silent);
    eventually("it serves", || (server.get("/health/live").status == 200).then_some(()));
    server.is_well();
}
