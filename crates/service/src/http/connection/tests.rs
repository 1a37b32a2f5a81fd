//! Deadlines, with the clock set by the tests.

use super::*;

const DEADLINES: Deadlines = Deadlines { head_ms: 100, write_ms: 200, idle_ms: 1000 };

fn at(clock: &CoarseClock, ms: u64) {
    clock.now_ms.store(ms, Relaxed);
}

fn opened() -> (Arc<CoarseClock>, ConnState) {
    let clock = Arc::new(CoarseClock::new(Instant::now()));
    at(&clock, 1);
    let state = ConnState::new(Arc::clone(&clock), [127, 0, 0, 1].into());
    (clock, state)
}

#[test]
fn each_wait_has_its_own_deadline() {
    let (clock, state) = opened();
    at(&clock, 101);
    assert_eq!(state.check(&DEADLINES), None);
    at(&clock, 102);
    assert_eq!(state.check(&DEADLINES), Some("slow_head"), "no first byte");
    state.has_read(b"GET");
    assert_eq!(state.check(&DEADLINES), Some("slow_head"), "the first byte gives no more time");
    state.has_read(b" / HTTP/1.1\r\n\r\n");
    state.request_begins();
    at(&clock, 9000);
    assert_eq!(state.check(&DEADLINES), None, "a request in work has its own deadline");
    state.request_ends();
    at(&clock, 10_000);
    assert_eq!(state.check(&DEADLINES), None);
    at(&clock, 10_001);
    assert_eq!(state.check(&DEADLINES), Some("idle"));
    state.has_read(b"GET");
    assert_eq!(state.check(&DEADLINES), None, "a head has begun");
    at(&clock, 10_102);
    assert_eq!(state.check(&DEADLINES), Some("slow_head"));
}

#[test]
fn half_a_head_that_came_with_a_request_has_the_deadline_of_a_head() {
    for body in [false, true] {
        let (clock, state) = opened();
        state.has_read(b"GET / HTTP/1.1\r\n\r\nGET");
        state.request_begins();
        if body {
            state.body_begins();
            state.body_ends(false);
            state.has_read(b"GET");
        }
        state.request_ends();
        at(&clock, 102);
        assert_eq!(state.check(&DEADLINES), Some("slow_head"), "{body}");
    }
}

#[test]
fn a_reader_must_keep_up_a_pace_over_all_pieces_and_answers() {
    let (clock, state) = opened();
    state.has_read(b"GET / HTTP/1.1\r\n\r\n");
    state.request_begins();
    state.request_ends();
    let write = &state.write;
    let take = |bytes| write.take(bytes, || clock.now());
    write.block(1);
    take(1000);
    at(&clock, 202);
    assert_eq!(state.check(&DEADLINES), Some("slow_reader"), "a trickle is no progress");
    take(128 * 1024);
    assert_eq!(state.check(&DEADLINES), None);
    at(&clock, 402);
    assert_eq!(state.check(&DEADLINES), None);
    // Small pieces, each taken whole and late.
    for piece in 1..=3 {
        take(10_000);
        state.all_is_written();
        at(&clock, 402 + piece * 100_000);
        assert_eq!(state.check(&DEADLINES), Some("idle"), "nothing waits to be written");
        state.request_begins();
        state.request_ends();
        write.block(clock.now());
        assert_eq!(state.check(&DEADLINES), None, "piece {piece}");
    }
    at(&clock, 300_403);
    assert_eq!(state.check(&DEADLINES), Some("slow_reader"), "1 ms more than allowed in all");
    take(128 * 1024);
    state.all_is_written();
    at(&clock, 301_402);
    assert_eq!(state.check(&DEADLINES), None);
    at(&clock, 301_404);
    assert_eq!(state.check(&DEADLINES), Some("idle"));
}

#[test]
fn a_connection_waits_for_its_client_except_while_the_server_works() {
    let (clock, state) = opened();
    assert_eq!(state.waits_since(), Some(1), "for a first head");
    at(&clock, 10);
    state.request_begins();
    assert_eq!(state.waits_since(), None);
    state.body_begins();
    assert_eq!(state.waits_since(), Some(10), "for a body");
    state.body_ends(false);
    assert_eq!(state.waits_since(), None);
    at(&clock, 20);
    state.request_ends();
    assert_eq!(state.waits_since(), Some(20), "for the next request");
    state.write.block(15);
    assert_eq!(state.waits_since(), Some(15), "for its reader");
    assert!(state.expire());
    assert_eq!(state.waits_since(), None, "it is closing");
}

#[test]
fn what_follows_an_unread_body_is_passed_over_for_a_second() {
    let (clock, state) = opened();
    state.request_begins();
    state.body_begins();
    assert!(!state.lingers());
    state.body_ends(true);
    assert!(state.lingers());
    at(&clock, 1002);
    assert!(state.lingers());
    assert_eq!(state.check(&DEADLINES), Some("unread_body"));
}
