//! What is recorded of requests: the access log, slow requests, traces and spans.

use crate::harness::people::PASSWORD;
use crate::harness::{Server, Setup, eventually, stores};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const DROPPED_LINES: &str = "madang_log_lines_dropped_total";

fn parent(flags: &str) -> String {
    format!("00-{ID}-00f067aa0ba902b7-{flags}")
}

/// The access log so far.
fn lines(server: &Server) -> Vec<Value> {
    let parse =
        |line: &String| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    server.said().iter().map(parse).collect()
}

/// The line of the request with this id, once it is there.
fn line_of(server: &Server, id: &str) -> Value {
    eventually(&format!("the line of {id}"), || {
        lines(server).into_iter().find(|line| line["request_id"] == id)
    })
}

#[test]
fn every_request_has_a_line_in_the_access_log() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("log.access", "stdout").start();
    let id = server.tracks()[0]["id"].as_i64().unwrap();
    let path = format!("/v1/tracks/{id}");
    for (request, cached) in [("first", false), ("second", true)] {
        let answer = server.get_with(&path, &[("X-Request-Id", request)]);
        let line = line_of(&server, request);
        assert_eq!(line["method"], "GET");
        assert_eq!(line["route"], "/v1/tracks/{id}");
        assert_eq!(line["path"], path.as_str());
        assert_eq!(line["status"], 200);
        assert_eq!(line["bytes"], answer.body.len());
        assert_eq!(line["cached"], cached);
        assert_eq!(line["client"], "127.0.0.1");
        assert!(line["duration_us"].as_u64().unwrap() > 0);
        assert_eq!(line.get("load_us").is_some(), !cached, "{line}");
    }
    server.get_with("/nothing/here", &[("X-Request-Id", "lost")]);
    let line = line_of(&server, "lost");
    assert_eq!((&line["route"], &line["status"]), (&"unmatched".into(), &404.into()));
    let mut leaver = server.connect();
    leaver.send(
        "GET /v1/tracks HTTP/1.1\r\nHost: t\r\nX-Request-Id: left\r\nContent-Length: 9\r\n\r\n",
    );
    server.until_metric("madang_http_server_requests_in_flight", &[], 1.0);
    drop(leaver);
    assert_eq!(line_of(&server, "left")["status"], 499);
    assert!(server.metric(DROPPED_LINES, &[]).abs() < f64::EPSILON);
}

#[test]
fn no_secret_of_a_request_is_in_the_access_log() {
    let server =
        Setup::new().cheap_hash().set("log.access", "stdout").set("log.slow", "1ms").start();
    let somebody = server.somebody("hidden-name");
    let bearer = somebody.bearer();
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Cookie", "mark=c00kie"),
        ("X-Request-Id", "the-last"),
    ];
    server.get_with("/v1/users/me?token=qu3ry", &headers);
    line_of(&server, "the-last");
    let said = server.said().join("\n") + &server.log();
    for secret in [PASSWORD, &somebody.token, "c00kie", "qu3ry", "hidden-name"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

#[test]
fn what_waits_for_the_access_log_is_written_before_the_end() {
    let mut server = Setup::new().set("log.access", "stdout").start();
    let mut client = server.connect();
    for _ in 0..300 {
        assert_eq!(client.get("/health/live").status, 200);
    }
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    eventually("300 lines", || (lines(&server).len() == 300).then_some(()));
}

#[test]
fn an_output_that_nobody_reads_holds_up_neither_requests_nor_the_end() {
    // More than a pipe holds.
    let requests = 600;
    let (mut server, reader) = Setup::new().set("log.access", "stdout").start_unread();
    let mut client = server.connect();
    for _ in 0..requests {
        assert_eq!(client.get("/health/live").status, 200);
    }
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    server.until_logged("records of requests are lost");
    drop(reader);
    // And one whose reader has gone.
    let server = Setup::new().set("log.access", "stdout").start_unheard();
    assert_eq!(server.get("/health/live").status, 200);
    server.stop();
}

#[test]
fn a_slow_request_is_logged_with_where_its_time_went() {
    let server = Setup::new().set("log.slow", "5ms").start();
    server.somebody("slowpoke");
    let line = server.until_logged("slow request");
    assert!(line.contains("WARN") && line.contains("/v1/auth/user/register"), "{line}");
    let part = |name: &str| {
        let value = line.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{line}"));
        value.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert!(part("hash_us") > 1000 && part("hash_us") <= part("duration_us"), "{line}");
    assert!(part("store_us") > 0, "{line}");
    let fast = Setup::new().cheap_hash().set("log.slow", "1min").start();
    fast.somebody("quick");
    fast.is_well();
    assert!(!fast.log().contains("slow request"), "{}", fast.log());
}

#[test]
fn the_trace_of_the_caller_is_in_the_problem_and_the_log() {
    let server = Setup::new().set("log.access", "stdout").start();
    let ask = |parent: &str, id: &str| {
        let headers = [("traceparent", parent), ("X-Request-Id", id)];
        let problem = server.get_with("/v1/tracks/42", &headers).problem(404);
        (problem, line_of(&server, id))
    };
    for flags in ["00", "01"] {
        let (problem, line) = ask(&parent(flags), flags);
        assert_eq!((&problem["traceId"], &line["trace_id"]), (&ID.into(), &ID.into()));
    }
    for (wrong, id) in [(parent("0"), "short"), (parent("01").to_uppercase(), "upper")] {
        let (problem, line) = ask(&wrong, id);
        assert_eq!((problem.get("traceId"), line.get("trace_id")), (None, None), "{wrong}");
    }
    // What is off costs nothing, and the problem still names the trace.
    let server = Setup::new().start();
    let problem = server.get_with("/v1/tracks/42", &[("traceparent", &parent("01"))]).problem(404);
    assert_eq!(problem["traceId"], ID);
}

/// A collector that takes everything; its address and the spans that come.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (send, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let body = take(&stream.unwrap());
            let all = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned();
            for span in all.unwrap() {
                let _ = send.send(span);
            }
        }
    });
    (endpoint, spans)
}

/// One request, answered 200.
fn take(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "\r\n") {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        lines.push(line);
    }
    assert_eq!(lines[0], "POST /v1/traces HTTP/1.1\r\n");
    assert!(lines.iter().any(|line| line == "Content-Type: application/json\r\n"), "{lines:?}");
    let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.trim().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn spans_of_sampled_requests_reach_the_collector() {
    let (endpoint, spans) = collector();
    let dir = stores::bundled();
    let setup = Setup::new().data(dir.path()).set("trace.endpoint", &endpoint);
    let mut server = setup.set("log.access", "stdout").start();
    server.get_with("/v1/tracks?q=1", &[("traceparent", &parent("01"))]);
    let span = spans.recv().unwrap();
    assert_eq!((&span["traceId"], &span["name"]), (&ID.into(), &"GET /v1/tracks".into()));
    assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
    // Not this one, whose caller does not record it; and the next begins a trace.
    server.get_with("/v1/tracks", &[("traceparent", &parent("00"))]);
    server.get_with("/nothing", &[("X-Request-Id", "root")]);
    // What waits is sent before the end.
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let span = spans.recv().unwrap();
    assert_eq!((&span["name"], span.get("parentSpanId")), (&"GET".into(), None));
    assert_eq!(line_of(&server, "root")["trace_id"], span["traceId"]);
    assert!(spans.try_recv().is_err());
}

#[test]
fn a_collector_that_is_away_harms_nobody() {
    // Nobody listens there.
    let nobody = madang_stack::PortReservation::new().unwrap();
    let endpoint = format!("http://127.0.0.1:{}", nobody.port());
    let mut server = Setup::new().set("trace.endpoint", &endpoint).start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/health/live").status, 200);
    }
    drop(client);
    server.until_logged("cannot send spans");
    server.is_well();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(server.log().matches("cannot send spans").count(), 1, "{}", server.log());
}

#[test]
fn what_is_recorded_is_off_unless_asked() {
    let server = Setup::new().start();
    server.connect().json("POST", "/v1/auth/user/login", None, &json!({}));
    server.get("/v1/tracks");
    server.is_well();
    assert!(server.said().is_empty());
    assert_eq!(server.log().lines().count(), 1, "{}", server.log());
}
