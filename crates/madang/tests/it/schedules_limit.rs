//! The limit on schedules under everything at once: creates, deletions, a killed server.

use crate::harness::client::head;
use crate::harness::{Connection, Person, Server, Setup, database};
use crate::schedules::{all, made, plan, start};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

const AT_ONCE: u32 = 64;
const LIMIT: usize = 30;

/// Rounds of a race: few in a test, a hundred when it is soaked (`make soak`).
pub fn rounds() -> u32 {
    std::env::var("SOAK_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap())
}

/// [`AT_ONCE`] creates that begin together on a connection each; gives how many were made.
fn rush(server: &Server, by: &Person) -> usize {
    let (together, taken) = (Barrier::new(AT_ONCE as usize), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..AT_ONCE {
            let (together, taken) = (&together, &taken);
            scope.spawn(move || {
                let mut connection = server.connect();
                together.wait();
                let body = plan("race", number);
                let answer = connection.json("POST", "/v1/schedules", Some(by), &body);
                if answer.status == 201 {
                    taken.fetch_add(1, Ordering::Relaxed);
                } else {
                    let problem = answer.problem(409);
                    assert_eq!(problem["type"], "urn:madang:problem:schedule-limit");
                }
            });
        }
    });
    taken.into_inner()
}

/// Asserts that the count of every user is the number of their rows.
fn counts_are_right(dir: &Path) {
    let wrong = "SELECT count(*) FROM users u
         WHERE (SELECT count(*) FROM schedules WHERE user_id = u.id)
            != coalesce((SELECT n FROM schedule_counts WHERE user_id = u.id), 0)";
    assert_eq!(database::number(dir, wrong), Some(0));
}

#[test]
fn of_64_creates_at_once_exactly_as_many_succeed_as_there_are_places() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    for round in 0..rounds() {
        let runner = server.somebody(&format!("runner-{round}"));
        assert_eq!(rush(&server, &runner), LIMIT, "round {round}, from nothing");
        let schedules = all(&server, &runner, 100);
        assert_eq!(schedules.len(), LIMIT);
        server.delete(&format!("/v1/schedules/{}", schedules[7]["id"]), Some(&runner));
        assert_eq!(rush(&server, &runner), 1, "round {round}, one below the limit");
        assert_eq!(all(&server, &runner, 100).len(), LIMIT);
    }
    counts_are_right(dir.path());
    let refused = f64::from(rounds() * (2 * AT_ONCE - 31));
    server.until_metric("madang_schedules_refused_total", &[], refused);
    server.until_metric("madang_schedules_created_total", &[], f64::from(rounds() * 31));
    server.until_metric("madang_schedules_deleted_total", &[], f64::from(rounds()));
}

#[test]
fn one_users_limit_leaves_the_others_theirs() {
    let server = Setup::new().cheap_hash().set("schedules.limit", "2").start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    for hour in 0..2 {
        made(&server, &mina, &plan("mine", hour));
    }
    server.post("/v1/schedules", Some(&mina), &plan("too many", 2)).problem(409);
    made(&server, &juno, &plan("mine", 0));
}

#[test]
fn of_many_deletions_at_once_one_succeeds_and_frees_one_place() {
    let server = start();
    let runner = server.somebody("runner");
    rush(&server, &runner);
    let one = format!("/v1/schedules/{}", all(&server, &runner, 1)[0]["id"]);
    let (together, gone) = (Barrier::new(16), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                together.wait();
                match server.delete(&one, Some(&runner)).status {
                    204 => drop(gone.fetch_add(1, Ordering::Relaxed)),
                    status => assert_eq!(status, 404),
                }
            });
        }
    });
    assert_eq!(gone.into_inner(), 1);
    assert_eq!(rush(&server, &runner), 1, "one place was free");
}

#[test]
fn every_way_counts_so_that_it_can_be_changed_on_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let serve = |check: &str| {
        Setup::new().cheap_hash().data(dir.path()).set("schedules.limit_check", check).start()
    };
    let server = serve("load-all");
    let runner = server.somebody("runner");
    server.stop();
    let mut hour = 0;
    for check in ["load-all", "count", "insert-select", "row-lock", "counter"] {
        let server = serve(check);
        for _ in 0..6 {
            made(&server, &runner, &plan(check, hour));
            hour += 1;
        }
        server.stop();
        counts_are_right(dir.path());
    }
    for check in ["counter", "row-lock", "insert-select", "count", "load-all"] {
        let server = serve(check);
        server.post("/v1/schedules", Some(&runner), &plan("too many", hour)).problem(409);
        server.stop();
    }
}

#[test]
fn a_server_killed_in_mid_load_has_lost_nothing_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let unlimited = || Setup::new().cheap_hash().data(dir.path()).set("schedules.limit", "1000000");
    let mut server = unlimited().start();
    let people: Vec<_> = (0..8).map(|n| server.somebody(&format!("runner-{n}"))).collect();
    let (made, deleted) = (Mutex::new(HashSet::new()), Mutex::new(HashSet::new()));
    let address = server.api;
    std::thread::scope(|scope| {
        let (made, deleted) = (&made, &deleted);
        for (number, person) in (0u32..).zip(people.iter().cycle().take(16)) {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for hour in 0.. {
                    let Some(id) = create(&mut connection, person, hour % 600) else { return };
                    made.lock().unwrap().insert((id, deletes(number)));
                    if deletes(number) {
                        if !delete(&mut connection, person, id) {
                            return;
                        }
                        deleted.lock().unwrap().insert(id);
                    }
                }
            });
        }
        crate::harness::eventually("300 acknowledged creates", || {
            (made.lock().unwrap().len() >= 300).then_some(())
        });
        server.child.kill().unwrap();
    });
    server.wait();
    let stored: HashSet<i64> = {
        // Opening it takes the log back in, as any start after a crash does.
        let server = unlimited().start();
        let ids = people.iter().flat_map(|person| all(&server, person, 100));
        ids.map(|schedule| schedule["id"].as_i64().unwrap()).collect()
    };
    counts_are_right(dir.path());
    let (made, deleted) = (made.into_inner().unwrap(), deleted.into_inner().unwrap());
    assert!(!deleted.is_empty());
    let back: Vec<_> = deleted.intersection(&stored).collect();
    assert!(back.is_empty(), "deleted and there again: {back:?}");
    let gone = |of_deleter: bool| {
        let acknowledged =
            made.iter().filter(|(id, by)| *by == of_deleter && !deleted.contains(id));
        acknowledged.filter(|(id, _)| !stored.contains(id)).count()
    };
    assert_eq!(gone(false), 0, "of {} acknowledged schedules", made.len());
    // The last deletion of each of four clients may have been committed and not yet acknowledged.
    assert!(gone(true) <= 4, "{}", gone(true));
    assert_eq!(database::integrity(dir.path()), "ok");
}

/// Whether this client takes its schedules away again.
fn deletes(client: u32) -> bool {
    client % 4 == 3
}

/// The id of a new schedule; nothing when the server is gone.
fn create(connection: &mut Connection, by: &Person, hour: u32) -> Option<i64> {
    let body = plan("under fire", hour).to_string();
    let (bearer, length) = (by.bearer(), body.len().to_string());
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", length.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    let request = head("POST", "/v1/schedules", &headers) + &body;
    let answer = connection.try_send(request).then(|| connection.answer_to("POST")).flatten()?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_i64()
}

fn delete(connection: &mut Connection, by: &Person, id: i64) -> bool {
    let bearer = by.bearer();
    let request = head("DELETE", &format!("/v1/schedules/{id}"), &[("Authorization", &bearer)]);
    let answer = connection.try_send(request).then(|| connection.answer_to("DELETE")).flatten();
    answer.is_some_and(|answer| {
        assert_eq!(answer.status, 204, "{}", answer.text());
        true
    })
}
