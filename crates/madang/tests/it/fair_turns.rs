//! One address fills a gate and its queue; another one is served all the same.

use crate::harness::client::head;
use crate::harness::{Answer, Connection, Person, Server, Setup, eventually, stores};
use crate::schedules::plan;
use crate::track_detail::LONG;
use crate::track_uploads::line;

const IN_FLIGHT: &str = "madang_work_in_flight";
const WAITING: &str = "madang_work_waiting";
const TURNS: &str = "madang_work_queue_time_seconds_count";

/// Turns of others between a look at them, a request and another look: of more than 100 that wait.
const FEW: u64 = 50;

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

/// Fills a gate again and again until another address was served in its turn five times, which it has to be in most
/// rounds: before nearly all that waited when it came. While a machine stands still for a moment more of those are
/// served, or the address is refused. In one queue for all it would come after them, or after they were refused.
fn served_in_turn(
    server: &Server,
    gate: &str,
    greedy: &mut [Connection],
    mut request: impl FnMut() -> Vec<u8>,
    mut ask: impl FnMut(u32) -> Answer,
) {
    let turns = || server.metric(TURNS, &[gate]) as u64;
    let (mut in_turn, mut rounds) = (0, Vec::new());
    while in_turn < 5 {
        fill(server, gate, greedy, &mut request);
        let before = turns();
        let answer = ask(u32::try_from(rounds.len()).unwrap());
        let others = turns() - before;
        if !matches!(answer.status, 200 | 201) {
            answer.problem(503);
        } else if others <= FEW {
            in_turn += 1;
        }
        rounds.push((answer.status, others));
        assert!(rounds.len() - in_turn <= 5, "answers, and turns until then: {rounds:?}");
    }
}

/// One place, so that everybody has to queue.
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
    let request = || request.clone();
    served_in_turn(&server, "gate=\"reads\"", &mut greedy, request, |_| modest.get(&path));
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
    served_in_turn(&server, "gate=\"reads\"", &mut greedy, uncached, |round| {
        let path = format!("/v1/tracks/{}?detail=full", round + 1);
        let mut leader = server.connect_from(2);
        leader.send(head("GET", &path, &[]));
        modest.get(&path)
    });
}

#[test]
fn writes_of_one_address_do_not_keep_another_from_its_turn() {
    let server = setup().start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let request = create(&mina, 1);
    let mut greedy = flood(&server, || request.clone());
    served_in_turn(
        &server,
        "gate=\"writes\"",
        &mut greedy,
        || request.clone(),
        |hour| {
            // The one of a body that is refused unread is closed.
            let mut modest = server.connect_from(3);
            modest.send(create(&juno, hour)).answer().expect("an answer")
        },
    );
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
    served_in_turn(
        &server,
        "gate=\"uploads\"",
        &mut greedy,
        || request.clone(),
        |round| {
            let mut modest = server.connect_from(3);
            let upload = juno.posting("/v1/tracks", &line(round + 2));
            modest.send(upload).answer().expect("an answer")
        },
    );
}

/// A schedule of somebody, as bytes.
fn create(by: &Person, hour: u32) -> Vec<u8> {
    by.posting("/v1/schedules", &plan("walk", hour))
}
