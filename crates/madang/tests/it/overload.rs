//! More work than can be done: what is cached is answered at once, the rest is refused quickly, and
//! everything recovers.
#![allow(clippy::disallowed_types, reason = "a test holds the write lock of the program's file")]

use crate::harness::client::head;
use crate::harness::{Answer, Connection, Person, Server, Setup, database, eventually, stores};
use crate::schedules::plan;
use crate::track_detail::LONG;
use rusqlite::Connection as Database;

const IN_FLIGHT: &str = "madang_work_in_flight";
const SHED: &str = "madang_work_shed_total";
const WRITES: &str = "gate=\"writes\"";
const READS: &str = "gate=\"reads\"";

/// Sends a request on a connection of its own and leaves its answer for later.
fn begin(server: &Server, request: &[u8]) -> Connection {
    let mut connection = server.connect();
    connection.send(request);
    connection
}

/// A request that creates a schedule.
fn create(by: &Person) -> Vec<u8> {
    by.posting("/v1/schedules", &plan("walk", 1))
}

fn answers(begun: Vec<Connection>) -> Vec<Answer> {
    begun.into_iter().map(|mut connection| connection.answer().unwrap()).collect()
}

/// How many have this status; the others are refusals that say when to come back.
fn count(answers: &[Answer], status: u16) -> usize {
    let (fine, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|a| a.status == status);
    for answer in refused {
        answer.problem(503);
    }
    fine.len()
}

#[test]
fn when_the_disk_is_stuck_writes_are_refused_and_reads_go_on() {
    let dir = stores::bundled();
    let server = Setup::new()
        .cheap_hash()
        .data(dir.path())
        .set("server.max_writes_in_flight", "2")
        .set("server.queue_time", "5ms")
        .start();
    let mina = server.somebody("mina");
    let create = create(&mina);
    let cached = format!("/v1/tracks/{}", server.track_of(LONG));
    assert_eq!(server.get(&cached).status, 200);

    let lock = Database::open(database::file(dir.path())).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let stuck = vec![begin(&server, &create), begin(&server, &create)];
    server.until_metric(IN_FLIGHT, &[WRITES], 2.0);
    let refused = answers((0..20).map(|_| begin(&server, &create)).collect());
    assert_eq!(count(&refused, 201), 0);
    assert_eq!(server.metric(SHED, &[WRITES]), 20.0);
    // Cached or not, whoever only reads notices nothing.
    assert_eq!(server.get(&cached).status, 200);
    assert_eq!(server.get("/v1/tracks?near=54.4,-3.2").status, 200);
    assert_eq!(server.get("/health/live").status, 200);
    lock.execute_batch("ROLLBACK").unwrap();

    // On a slow machine the store may have given up on them meanwhile; then they made nothing.
    let made = count(&answers(stuck), 201);
    server.until_metric(IN_FLIGHT, &[WRITES], 0.0);
    assert_eq!(answers(vec![begin(&server, &create)])[0].status, 201);
    let rows = database::number(dir.path(), "SELECT count(*) FROM schedules");
    assert_eq!(rows, Some(i64::try_from(made).unwrap() + 1), "a refused create made nothing");
    assert_eq!(server.metric("madang_work_waiting", &[]), 0.0);
    server.is_well();
}

#[test]
fn when_the_server_works_for_every_connection_one_more_is_answered_503() {
    for (key, other) in
        [("server.max_connections", 503), ("server.max_connections_per_address", 200)]
    {
        let dir = stores::bundled();
        let setup = Setup::new().cheap_hash().data(dir.path());
        let setup = setup.set("server.max_connections_per_address", "100").set(key, "3");
        let server = setup.start();
        let mina = server.somebody("mina");
        server.until_metric("madang_http_server_connections", &[], 0.0);
        let lock = Database::open(database::file(dir.path())).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let create = create(&mina);
        let working: Vec<_> = (0..3).map(|_| begin(&server, &create)).collect();
        server.until_metric(IN_FLIGHT, &[WRITES], 3.0);
        // With and without a request: the answer must arrive either way.
        for request in ["", "GET /health/live HTTP/1.1\r\nHost: test\r\n\r\n"] {
            let mut refused = server.connect();
            refused.try_send(request);
            let answer = refused.answer().expect("a reason, not a reset");
            answer.problem(503);
            assert_eq!(answer.header("connection"), Some("close"));
            assert!(refused.is_closed_by_the_server());
        }
        assert_eq!(server.connect_from(2).get("/health/live").status, other, "another address");
        assert!(server.metric("madang_http_server_connections_refused_total", &[]) >= 2.0);
        lock.execute_batch("ROLLBACK").unwrap();
        // On a slow machine the store may have given up on them meanwhile.
        answers(working).iter().filter(|answer| answer.status != 201).for_each(|late| {
            late.problem(503);
        });
        // A moment passes until it looks again for connections that have gone or wait, and tries to write again where
        // the last writes were given up.
        eventually("there is room again", || {
            (server.get("/health/ready").status == 200).then_some(())
        });
        // Room for that one need not be room for the next.
        server.until_metric("madang_http_server_connections", &[], 0.0);
        server.is_well();
    }
}

#[test]
fn a_write_keeps_its_place_when_its_client_leaves() {
    let dir = stores::bundled();
    let setup = Setup::new().cheap_hash().data(dir.path()).set("server.queue_time", "1ms");
    let server = setup.set("server.max_writes_in_flight", "1").start();
    let mina = server.somebody("mina");
    let lock = Database::open(database::file(dir.path())).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let create = create(&mina);
    let leaver = begin(&server, &create);
    server.until_metric(IN_FLIGHT, &[WRITES], 1.0);
    drop(leaver);
    server.until_metric("madang_http_server_client_disconnects_total", &[], 1.0);
    assert_eq!(server.metric(IN_FLIGHT, &[WRITES]), 1.0);
    answers(vec![begin(&server, &create)])[0].problem(503);
    lock.execute_batch("ROLLBACK").unwrap();
    server.until_metric(IN_FLIGHT, &[WRITES], 0.0);
    assert_eq!(answers(vec![begin(&server, &create)])[0].status, 201);
}

#[test]
fn when_uncached_reads_are_too_many_cached_ones_are_still_answered() {
    let dir = stores::small();
    let server = Setup::new()
        .data(dir.path())
        .set("server.max_in_flight", "1")
        .set("server.queue_time", "1ms")
        .start();
    let cached = "/v1/tracks";
    assert_eq!(server.get(cached).status, 200);
    let uncached = head("GET", "/v1/tracks?near=37.5,127.0&limit=100", &[]);
    assert_eq!(server.get(cached).status, 200, "a listing is kept when it is asked for again");
    // One round is enough unless the machine is idle and the clients are slow.
    let shed = eventually("one is refused", || {
        let begun: Vec<_> = (0..200).map(|_| begin(&server, uncached.as_bytes())).collect();
        for _ in 0..20 {
            assert_eq!(server.get(cached).status, 200);
            assert_eq!(server.get("/health/live").status, 200);
        }
        let answers = answers(begun);
        let served = count(&answers, 200);
        assert!(served > 0, "the work that fits is done");
        Some(answers.len() - served).filter(|shed| *shed > 0)
    });
    #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
    let shed = shed as f64;
    assert_eq!(server.metric(SHED, &[READS]), shed);
    assert_eq!(server.metric(IN_FLIGHT, &[READS]), 0.0);
    assert_eq!(server.get("/v1/tracks?near=37.5,127.0").status, 200);
    server.is_well();
}

#[test]
fn one_cold_track_that_many_ask_for_takes_one_place() {
    let dir = stores::bundled();
    let setup = Setup::new().data(dir.path()).set("server.max_in_flight", "1");
    let server = setup.set("server.queue_time", "1ms").start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    let request = head("GET", &path, &[]);
    let all = answers((0..100).map(|_| begin(&server, request.as_bytes())).collect());
    assert_eq!(count(&all, 200), 100);
    assert_eq!(server.metric(SHED, &[READS]), 0.0);
}
