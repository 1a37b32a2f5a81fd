//! Stopping: what was begun is finished, what comes later is refused, nothing is left behind.

use crate::harness::{Connection, Server, Setup, eventually, stores};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

const IN_FLIGHT: &str = "madang_http_server_requests_in_flight";

/// A request whose body is not all there yet, so that it is in flight for as long as a test likes.
fn request_in_flight(server: &Server) -> Connection {
    let mut connection = server.connect();
    connection.send("GET /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n12345");
    server.until_metric(IN_FLIGHT, &[], 1.0);
    connection
}

fn until_refused(server: &Server) {
    eventually("new connections are refused", || match std::net::TcpStream::connect(server.api) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Some(()),
        _ => None,
    });
}

/// Asserts that the log of the database was taken back into the file.
fn is_tidy(dir: &Path) {
    let left: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with("-wal") || name.ends_with("-shm"))
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn a_request_in_flight_is_answered_and_new_ones_are_refused() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/health/live").status, 200);
    let mut waiting = request_in_flight(&server);
    server.signal(Signal::TERM);
    until_refused(&server);
    assert!(idle.is_closed_by_the_server(), "an idle connection does not hold up the end");
    let answer = waiting.send("67890").answer().expect("an answer");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(answer.json()["items"].as_array().unwrap().len(), 14);
    assert!(waiting.is_closed_by_the_server());
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    is_tidy(dir.path());
}

#[test]
fn connections_that_were_opened_before_the_end_get_their_answer() {
    let dir = stores::bundled();
    // Each has a second for its first request. Where this thread was held up for longer, nothing is shown.
    let (mut server, waiting, mut opened) = eventually("all is sent in time", || {
        let server = Setup::new().data(dir.path()).start();
        let waiting = request_in_flight(&server);
        // Stopped, it accepts none before it can read the signal, too.
        server.signal(Signal::STOP);
        let mut opened: Vec<_> = (0..200).map(|_| server.connect()).collect();
        server.signal(Signal::TERM);
        let began = Instant::now();
        server.signal(Signal::CONT);
        for connection in &mut opened {
            connection.try_send("GET /health/live HTTP/1.1\r\nHost: test\r\n\r\n");
        }
        (began.elapsed() < Duration::from_secs(1)).then_some((server, waiting, opened))
    });
    for connection in &mut opened {
        let answer = connection.answer().expect("an answer, not a reset");
        assert_eq!(answer.status, 200);
    }
    drop(waiting);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_request_that_lies_unread_when_the_end_begins_gets_its_answer() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).start();
    let mut connections: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for connection in &mut connections {
        assert_eq!(connection.get("/health/live").status, 200);
    }
    // Stopped, it can read neither the requests nor the signal: it will find both at once.
    server.signal(Signal::STOP);
    for connection in &mut connections {
        connection.send("GET /health/live HTTP/1.1\r\nHost: test\r\n\r\n");
    }
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    for connection in &mut connections {
        let answer = connection.answer().expect("an answer, not a closed connection");
        assert_eq!(answer.status, 200);
    }
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn an_interrupt_stops_it_as_well() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).start();
    server.get("/v1/tracks");
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    is_tidy(dir.path());
}

#[test]
fn a_hangup_drains_as_well() {
    let dir = stores::bundled();
    // Whoever started the tests may ignore it.
    let mut command = crate::harness::command::clean("env");
    command.args(["--default-signal=HUP", crate::harness::command::program()]);
    let mut server = Setup::new().data(dir.path()).start_through(command);
    let mut waiting = request_in_flight(&server);
    server.signal(Signal::HUP);
    until_refused(&server);
    assert_eq!(waiting.send("67890").answer().expect("an answer").status, 200);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    is_tidy(dir.path());
}

#[test]
fn a_hangup_that_its_starter_ignores_does_not_stop_it() {
    let mut shell = crate::harness::command::clean("sh");
    let program = crate::harness::command::program();
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", program]);
    let mut server = Setup::new().start_through(shell);
    server.signal(Signal::HUP);
    server.is_well();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn a_second_signal_ends_the_wait() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).set("server.drain_timeout", "1h").start();
    let mut waiting = request_in_flight(&server);
    server.signal(Signal::TERM);
    until_refused(&server);
    assert_eq!(server.signalled_until_it_ends(Signal::TERM).code(), Some(0));
    assert!(waiting.is_closed_by_the_server());
    is_tidy(dir.path());
}

/// `timeout` signals a command and then its process group.
#[test]
fn signals_at_the_same_moment_are_one_wish() {
    let mut server = Setup::new().set("server.drain_timeout", "1h").start();
    let mut waiting = request_in_flight(&server);
    for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
        server.signal(signal);
    }
    until_refused(&server);
    assert_eq!(waiting.send("67890").answer().expect("an answer").status, 200);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_delay_too() {
    let mut server = Setup::new().set("server.drain_delay", "1h").start();
    server.signal(Signal::TERM);
    server.until_logged("draining");
    assert_eq!(server.signalled_until_it_ends(Signal::TERM).code(), Some(0));
}

#[test]
fn the_drain_ends_when_its_time_is_over() {
    let mut server = Setup::new().set("server.drain_timeout", "100ms").start();
    let mut waiting = request_in_flight(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    server.until_logged("drain timeout");
    assert!(waiting.is_closed_by_the_server());
}

#[test]
fn while_it_waits_for_balancers_it_answers_and_says_it_is_not_ready() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).set("server.drain_delay", "1h").start();
    let mut open = server.connect();
    assert_eq!(open.get("/health/ready").status, 200);
    server.signal(Signal::TERM);
    eventually("not ready", || (server.get("/health/ready").status == 503).then_some(()));
    let ready = server.get("/health/ready");
    ready.problem(503);
    assert_eq!(ready.header("connection"), Some("close"));
    assert_eq!(server.get("/health/live").status, 200);
    assert_eq!(server.get("/v1/tracks").status, 200, "a balancer may still send requests");
    let last = open.get("/v1/tracks");
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    assert!(open.is_closed_by_the_server());
    assert_eq!(server.signalled_until_it_ends(Signal::TERM).code(), Some(0));
}

#[test]
fn a_killed_server_starts_again_with_everything() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).start();
    let before = server.get("/v1/tracks").body;
    server.child.kill().unwrap();
    server.wait();
    let server = Setup::new().data(dir.path()).start();
    assert_eq!(server.get("/v1/tracks").body, before);
    server.stop();
    is_tidy(dir.path());
}
