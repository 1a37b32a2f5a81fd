//! One address fills a gate and its queue; another one is served all the same.

use crate::harness::client::head;
use crate::harness::{Connection, Person, Server, Setup, eventually, stores};
use crate::schedules::plan;
use crate::track_detail::LONG;
use crate::track_uploads::line;

const IN_FLIGHT: &str = "madang_work_in_flight";
const WAITING: &str = "madang_work_waiting";

/// As many requests as may wait, each on a connection of its own from 127.0.0.2.
fn flood(server: &Server, mut request: impl FnMut() -> Vec<u8>) -> Vec<Connection> {
    let begin = |_| {
        let mut connection = server.connect_from(2);
        connection.send(request());
        connection
    };
    (0..400).map(begin).collect()
}

/// Until many wait: has every connection answered, then sends on all of them at once. One by one, the first would have
/// waited too long and be refused before the last is sent. A connection that the server has closed, as when it refuses a
/// body unread, is made anew.
fn fill(
    server: &Server,
    gate: &str,
    flood: &mut [Connection],
    mut request: impl FnMut() -> Vec<u8>,
) {
    eventually("many requests of the greedy address wait", || {
        if server.metric(WAITING, &[gate]) >= 100.0 {
            return Some(());
        }
        for connection in &mut *flood {
            let answer = connection.answer();
            if answer.is_none_or(|answer| answer.header("connection") == Some("close")) {
                *connection = server.connect_from(2);
            }
        }
        for connection in &mut *flood {
            connection.try_send(request());
        }
        None
    });
}

/// One place, so that everybody has to queue. With one queue for all addresses, 400 requests would come
/// before each of the other address, which is longer than anybody may wait.
fn setup() -> Setup {
    Setup::new()
        .cheap_hash()
        .set("cache.mode", "off")
        .set("server.max_in_flight", "1")
        .set("server.max_writes_in_flight", "1")
        .set("server.queue_time", "400ms")
        .set("schedules.limit", "off")
}

#[test]
fn uncached_reads_of_one_address_do_not_keep_another_from_its_turn() {
    let dir = stores::bundled();
    let server = setup().data(dir.path()).start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    let request = head("GET", &path, &[]).into_bytes();
    let mut greedy = flood(&server, || request.clone());
    let mut modest = server.connect_from(3);
    for _ in 0..5 {
        fill(&server, "gate=\"reads\"", &mut greedy, || request.clone());
        assert_eq!(modest.get(&path).status, 200);
    }
}

/// A load of the cache waits for its turn under the address that began it, and others join it.
#[test]
fn a_cached_body_that_one_address_is_loading_does_not_keep_another_from_its_turn() {
    let dir = stores::bundled();
    let server = setup().data(dir.path()).set("cache.mode", "local").start();
    let mut places = 0..;
    let mut uncached = || {
        let place = places.next().unwrap_or(0);
        head("GET", &format!("/v1/tracks?near=54.{place:06},-3.2"), &[]).into_bytes()
    };
    let mut greedy = flood(&server, &mut uncached);
    let mut modest = server.connect_from(3);
    for id in 1..6 {
        fill(&server, "gate=\"reads\"", &mut greedy, &mut uncached);
        let path = format!("/v1/tracks/{id}?detail=full");
        let mut leader = server.connect_from(2);
        leader.send(head("GET", &path, &[]));
        assert_eq!(modest.get(&path).status, 200);
    }
}

#[test]
fn writes_of_one_address_do_not_keep_another_from_its_turn() {
    let server = setup().start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let request = create(&mina, 1);
    let mut greedy = flood(&server, || request.clone());
    let mut modest = server.connect_from(3);
    for hour in 0..5 {
        fill(&server, "gate=\"writes\"", &mut greedy, || request.clone());
        let answer = modest.send(create(&juno, hour)).answer().expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    drop(greedy);
    server.until_metric(IN_FLIGHT, &["gate=\"writes\""], 0.0);
    server.is_well();
}

#[test]
fn uploads_of_one_address_do_not_keep_another_from_its_turn() {
    let server = setup().start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    // As large as 400 of them fit into the room that one address has for bodies.
    let request = mina.posting("/v1/tracks", &line(300));
    let mut greedy = flood(&server, || request.clone());
    let mut modest = server.connect_from(3);
    for points in 2..7 {
        fill(&server, "gate=\"uploads\"", &mut greedy, || request.clone());
        let upload = juno.posting("/v1/tracks", &line(points));
        let answer = modest.send(upload).answer().expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}

/// A schedule of somebody, as bytes.
fn create(by: &Person, hour: u32) -> Vec<u8> {
    by.posting("/v1/schedules", &plan("walk", hour))
}
