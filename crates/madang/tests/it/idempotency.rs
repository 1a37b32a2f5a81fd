//! Creates that are sent again: with a key they make one thing, whatever happens in between.

use crate::harness::{Answer, Person, Server, Setup, database, eventually};
use crate::schedules::plan;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Barrier;

fn send(server: &Server, by: &Person, path: &str, key: &str, body: &Value) -> Answer {
    let bearer = by.bearer();
    let headers = [
        ("Content-Type", "application/json"),
        ("Authorization", bearer.as_str()),
        ("Idempotency-Key", key),
    ];
    server.connect().send_body("POST", path, &headers, body.to_string())
}

/// Asserts that `again` is the answer `first` once more, and says so.
fn is_replay(first: &Answer, again: &Answer) {
    assert_eq!((first.status, again.status), (201, 201), "{} {}", first.text(), again.text());
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(first.json(), again.json());
    for name in ["location", "content-type"] {
        assert!(first.header(name).is_some());
        assert_eq!(first.header(name), again.header(name));
    }
}

fn track(name: &str) -> Value {
    json!({"name": name, "segments": [[[37.5, 127.0], [37.51, 127.01]]]})
}

fn rows(dir: &Path, table: &str) -> i64 {
    database::number(dir, &format!("SELECT count(*) FROM {table}")).unwrap()
}

#[test]
fn every_create_of_a_user_is_made_once_for_each_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    let run = json!({"durationSeconds": 1800});
    for (path, body, other, table) in [
        ("/v1/tracks", track("ring"), track("other ring"), "tracks"),
        // Without a beginning it is the server's clock that says when the run was.
        ("/v1/tracks/1/records", run, json!({"durationSeconds": 1801}), "track_records"),
        ("/v1/schedules", plan("walk", 1), plan("walk", 2), "schedules"),
    ] {
        let first = send(&server, &mina, path, "k", &body);
        is_replay(&first, &send(&server, &mina, path, "k", &body));
        is_replay(&first, &send(&server, &mina, path, "\"k\"", &body));
        let refused = send(&server, &mina, path, "k", &other).problem(422);
        assert_eq!(refused["type"], "urn:madang:problem:idempotency-key-reused");
        assert_eq!(rows(dir.path(), table), 1, "{path}");
        assert_eq!(send(&server, &mina, path, "l", &other).status, 201, "another key");
        assert_eq!(rows(dir.path(), table), 2, "{path}");
    }
}

#[test]
fn without_a_key_nothing_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    for _ in 0..2 {
        assert_eq!(server.post("/v1/schedules", Some(&mina), &plan("walk", 1)).status, 201);
    }
    assert_eq!((rows(dir.path(), "schedules"), rows(dir.path(), "idempotency_keys")), (2, 0));
}

#[test]
fn retries_at_once_make_one_row_and_all_have_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    const AT_ONCE: usize = 32;
    for round in 0..5 {
        let (key, together) = (format!("k-{round}"), Barrier::new(AT_ONCE));
        let answers: Vec<_> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..AT_ONCE)
                .map(|_| {
                    scope.spawn(|| {
                        together.wait();
                        send(&server, &mina, "/v1/schedules", &key, &plan("walk", round))
                    })
                })
                .collect();
            tries.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| answer.status == 201));
        assert!(answers.iter().all(|answer| answer.json() == answers[0].json()));
        let made = answers.iter().filter(|a| a.header("idempotent-replayed").is_none()).count();
        assert_eq!(made, 1);
        assert_eq!(rows(dir.path(), "schedules"), i64::from(round) + 1);
    }
}

#[test]
fn a_key_belongs_to_its_user() {
    let server = Setup::new().cheap_hash().start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let first = send(&server, &mina, "/v1/schedules", "k", &plan("walk", 1));
    let other = send(&server, &juno, "/v1/schedules", "k", &plan("run", 2));
    assert_eq!((first.status, other.status), (201, 201));
    assert_eq!(other.header("idempotent-replayed"), None);
}

#[test]
fn an_answered_create_is_known_after_the_server_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    let first = send(&server, &mina, "/v1/schedules", "k", &plan("walk", 1));
    server.signal(Signal::KILL);
    server.wait();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    is_replay(&first, &send(&server, &mina, "/v1/schedules", "k", &plan("walk", 1)));
    assert_eq!(rows(dir.path(), "schedules"), 1);
}

#[test]
fn a_key_is_free_again_after_its_time_and_its_row_goes() {
    let dir = tempfile::tempdir().unwrap();
    let setup =
        Setup::new().cheap_hash().set("schedules.limit", "off").set("idempotency.keep", "1ms");
    let server = setup.data(dir.path()).start();
    let mina = server.somebody("mina");
    let sent = || send(&server, &mina, "/v1/schedules", "k", &plan("walk", 1));
    let first = sent();
    assert_eq!(first.status, 201);
    eventually("the key has expired", || (sent().json() != first.json()).then_some(()));
    assert_eq!(rows(dir.path(), "idempotency_keys"), 1, "the expired row was replaced");
}

#[test]
fn a_malformed_key_is_400_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    let long = "x".repeat(256);
    for key in ["", "\"\"", "\"open", "two words", "\"a\";b", "키", &long] {
        send(&server, &mina, "/v1/schedules", key, &plan("walk", 1)).problem(400);
    }
    let bearer = mina.bearer();
    let headers = [
        ("Content-Type", "application/json"),
        ("Authorization", bearer.as_str()),
        ("Idempotency-Key", "a"),
        ("Idempotency-Key", "b"),
    ];
    let body = plan("walk", 1).to_string();
    server.connect().send_body("POST", "/v1/schedules", &headers, body).problem(400);
    assert_eq!(rows(dir.path(), "schedules"), 0);
}
