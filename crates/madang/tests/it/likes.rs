//! Likes: what each way of storing them answers and keeps.

use crate::articles::{read, write};
use crate::harness::{Answer, Connection, Person, Server, Setup, database, eventually};
use rustix::process::Signal;
use serde_json::json;
use std::path::Path;

const STORING: [&str; 3] = ["direct", "behind", "queue"];

/// A server that stores likes in this way.
pub fn server_with(way: &str, dir: &Path) -> Server {
    Setup::new().cheap_hash().data(dir).set("likes.write", way).start()
}

/// Asks for a like on this connection.
pub fn ask(connection: &mut Connection, method: &str, article: i64, by: &Person) -> Answer {
    let bearer = by.bearer();
    let path = format!("/v1/articles/{article}/like");
    connection.request(method, &path, &[("Authorization", &bearer)])
}

/// What it is answered.
fn liked(answer: &Answer) -> (bool, i64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    (body["liked"].as_bool().unwrap(), body["likeCount"].as_i64().unwrap())
}

/// Asserts that every count is the number of its rows.
pub fn counts_are_rows(dir: &Path) {
    let wrong = "SELECT count(*) FROM articles a WHERE like_count <>
                 (SELECT count(*) FROM article_likes WHERE article_id = a.id)";
    assert_eq!(database::number(dir, wrong), Some(0));
}

#[test]
fn a_toggle_inverts_and_what_is_sent_again_changes_nothing() {
    for way in STORING {
        let dir = tempfile::tempdir().unwrap();
        let server = server_with(way, dir.path());
        let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
        let id = write(&server, &mina, "liked");
        let mut connection = server.connect();
        let mut like = |method, by| liked(&ask(&mut connection, method, id, by));
        assert_eq!(like("PUT", &mina), (true, 1), "{way}");
        assert_eq!(like("PUT", &mina), (true, 1), "{way}");
        assert_eq!(like("POST", &juno), (true, 2), "{way}");
        assert_eq!(like("POST", &juno), (false, 1), "{way}");
        assert_eq!(like("DELETE", &juno), (false, 1), "{way}");
        assert_eq!(read(&server, id, Some(&mina)).json()["liked"], true, "{way}");
        assert_eq!(read(&server, id, Some(&juno)).json()["liked"], false, "{way}");
        assert_eq!(read(&server, id, None).json()["likeCount"], 1, "{way}");
        assert_eq!(like("DELETE", &mina), (false, 0), "{way}");
        assert_eq!(read(&server, id, None).json()["likeCount"], 0, "{way}");
        let mut nobody = server.connect();
        for method in ["POST", "PUT", "DELETE"] {
            nobody.request(method, &format!("/v1/articles/{id}/like"), &[]).problem(401);
        }
        server.is_well();
    }
}

#[test]
fn sixty_four_clients_toggling_one_pair_leave_its_parity() {
    for way in STORING {
        let dir = tempfile::tempdir().unwrap();
        let server = server_with(way, dir.path());
        let mina = server.somebody("mina");
        let id = write(&server, &mina, "toggled");
        const EACH: usize = 5;
        let on: usize = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..64)
                .map(|_| {
                    scope.spawn(|| {
                        let mut connection = server.connect();
                        let toggles = (0..EACH).map(|_| ask(&mut connection, "POST", id, &mina));
                        toggles.filter(|answer| liked(answer).0).count()
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        assert_eq!(on, 64 * EACH / 2, "{way}: each state is answered equally often");
        assert_eq!(read(&server, id, Some(&mina)).json()["liked"], false, "{way}");
        assert_eq!(read(&server, id, None).json()["likeCount"], 0, "{way}");
        server.stop();
        assert_eq!(database::number(dir.path(), "SELECT count(*) FROM article_likes"), Some(0));
        counts_are_rows(dir.path());
    }
}

#[test]
fn sixty_four_clients_on_many_pairs_end_as_a_model_of_them_does() {
    for way in STORING {
        let dir = tempfile::tempdir().unwrap();
        let server = server_with(way, dir.path());
        let people: Vec<_> = (0..8).map(|n| server.somebody(&format!("user-{n}"))).collect();
        let ids: Vec<_> = (0..8).map(|n| write(&server, &people[0], &format!("a {n}"))).collect();
        // One client for each pair, so what it was answered last is how it must end.
        let ends: Vec<bool> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..64)
                .map(|pair: usize| {
                    let (server, person, id) = (&server, &people[pair % 8], ids[pair / 8]);
                    scope.spawn(move || {
                        let (mut random, mut state) =
                            (fastrand::Rng::with_seed(pair as u64), false);
                        let mut connection = server.connect();
                        for _ in 0..12 {
                            let method = ["PUT", "DELETE", "POST"][random.usize(..3)];
                            state = match method {
                                "PUT" => true,
                                "DELETE" => false,
                                _ => !state,
                            };
                            assert_eq!(liked(&ask(&mut connection, method, id, person)).0, state);
                        }
                        state
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        for (at, id) in ids.iter().enumerate() {
            let likes = ends[8 * at..][..8].iter().filter(|end| **end).count();
            assert_eq!(read(&server, *id, None).json()["likeCount"], likes, "{way}");
        }
        server.stop();
        let rows = ends.iter().filter(|end| **end).count() as i64;
        assert_eq!(database::number(dir.path(), "SELECT count(*) FROM article_likes"), Some(rows));
        counts_are_rows(dir.path());
    }
}

#[test]
fn a_like_whose_client_has_left_stands_and_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with("behind", dir.path());
    let mina = server.somebody("mina");
    let ids: Vec<_> = (0..20).map(|n| write(&server, &mina, &format!("a {n}"))).collect();
    let in_flight = |likes| {
        server.until_metric("madang_work_in_flight", &[r#"gate="writes""#], likes);
    };
    let left = || server.metric("madang_http_server_client_disconnects_total", &[]);
    let rows = || database::number(dir.path(), "SELECT count(*) FROM article_likes");
    let refused = || server.metric("madang_store_write_failures_total", &[]);
    // Again where the machine was so slow that the store gave up on the lock, of some or of all.
    eventually("all are stored", || {
        let (lock, gone, before) = (database::lock(dir.path()), left() + 20.0, (rows(), refused()));
        let ask = |id: &i64| {
            let path = format!("/v1/articles/{id}/like");
            let bearer = mina.bearer();
            let head = crate::harness::client::head("PUT", &path, &[("Authorization", &bearer)]);
            let mut connection = server.connect();
            connection.send(head);
            connection
        };
        let clients: Vec<_> = ids.iter().map(ask).collect();
        let waiting = r#"gate="writes""#;
        let all = eventually("all wait, or were refused", || {
            let all = server.metric("madang_work_in_flight", &[waiting]) >= 20.0;
            (all || refused() > before.1).then_some(all)
        });
        assert_eq!(rows(), before.0);
        drop(clients);
        if !all {
            drop(lock);
            in_flight(0.0);
            return None;
        }
        eventually("all have left", || (left() >= gone).then_some(()));
        drop(lock);
        in_flight(0.0);
        server.until_metric("madang_likes_pending", &[], 0.0);
        (rows() == Some(20)).then_some(())
    });
    server.until_metric("madang_likes_changed_total", &[], 20.0);
    for id in &ids {
        assert_eq!(read(&server, *id, Some(&mina)).json()["liked"], true);
        assert_eq!(read(&server, *id, None).json()["likeCount"], 1);
    }
    counts_are_rows(dir.path());
    server.is_well();
}

#[test]
fn the_queue_is_written_when_it_is_due_and_when_the_server_stops() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with("queue", dir.path());
    let mina = server.somebody("mina");
    let ids: Vec<_> = (0..5).map(|n| write(&server, &mina, &format!("a {n}"))).collect();
    let mut connection = server.connect();
    for id in &ids {
        assert_eq!(liked(&ask(&mut connection, "PUT", *id, &mina)), (true, 1));
    }
    let rows = || database::number(dir.path(), "SELECT count(*) FROM article_likes");
    assert_eq!(rows(), Some(0), "acknowledged and nowhere but in memory");
    assert!((server.metric("madang_likes_pending", &[]) - 5.0).abs() < f64::EPSILON);
    assert!(server.metric("madang_likes_lag_seconds", &[]) > 0.0);
    server.stop();
    assert_eq!(rows(), Some(5));
    counts_are_rows(dir.path());
    let setup = Setup::new().cheap_hash().data(dir.path()).set("likes.write", "queue");
    let server = setup.set("likes.queue_flush", "20ms").start();
    assert_eq!(liked(&ask(&mut server.connect(), "DELETE", ids[0], &mina)), (false, 0));
    eventually("it is written", || (rows() == Some(4)).then_some(()));
    server.until_metric("madang_likes_pending", &[], 0.0);
}

#[test]
fn a_crash_loses_what_the_queue_had_acknowledged_and_only_that() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server_with("queue", dir.path());
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "lost");
    assert_eq!(liked(&ask(&mut server.connect(), "PUT", id, &mina)), (true, 1));
    server.signal(Signal::KILL);
    server.wait();
    let server = server_with("behind", dir.path());
    assert_eq!(read(&server, id, Some(&mina)).json()["liked"], false);
    assert_eq!(liked(&ask(&mut server.connect(), "PUT", id, &mina)), (true, 1));
}

#[test]
fn ways_that_lose_likes_must_be_asked_for_by_name() {
    for way in ["queue", "discard"] {
        let set = format!("likes.write={way}");
        let args = ["serve", "--listen", "127.0.0.1:0", "--set", &set];
        let output = crate::harness::Madang::new(args).fails_with(2);
        output.complains(&["likes.write", "unsafe_experiments"]);
    }
}

#[test]
fn discard_answers_like_the_others_and_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with("discard", dir.path());
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "not kept");
    assert_eq!(liked(&ask(&mut server.connect(), "PUT", id, &mina)), (true, 0));
    ask(&mut server.connect(), "PUT", id + 1, &mina).problem(404);
    assert_eq!(database::number(dir.path(), "SELECT count(*) FROM article_likes"), Some(0));
}

#[test]
fn a_full_disk_acknowledges_no_like_that_it_did_not_store() {
    let dir = tempfile::tempdir().unwrap();
    let command = crate::harness::namespace::on_small_disk(dir.path(), "3m", "true");
    let mut server = Setup::new().cheap_hash().data(dir.path()).start_through(command);
    let mina = server.somebody("mina");
    let mut acknowledged = Vec::new();
    // Articles take the room, likes come in between: until the disk is full.
    let mut connection = server.connect();
    let refused = eventually("the disk is full", || {
        let body = json!({"title": "room", "content": "가".repeat(10_000)});
        let made = connection.json("POST", "/v1/articles", Some(&mina), &body);
        if made.status != 201 {
            return Some(made);
        }
        let id = made.json()["id"].as_i64().unwrap();
        let like = ask(&mut connection, "PUT", id, &mina);
        if like.status == 200 {
            acknowledged.push(id);
        }
        (like.status != 200).then_some(like)
    });
    assert!(refused.status >= 500, "{}", refused.text());
    assert!(!acknowledged.is_empty());
    for id in &acknowledged {
        let article = read(&server, *id, Some(&mina)).json();
        assert_eq!((&article["liked"], &article["likeCount"]), (&json!(true), &json!(1)), "{id}");
    }
    // Who is refused again and again is told so each time, and nothing is counted.
    let likes = server.metric("madang_likes_acknowledged_total", &[]);
    assert!((likes - acknowledged.len() as f64).abs() < f64::EPSILON);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_log_that_cannot_be_read_stops_the_start_and_says_which_row() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with("behind", dir.path());
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "logged");
    server.stop();
    database::execute(dir.path(), "INSERT INTO like_log VALUES (3, x'09')");
    let data = dir.path().to_str().unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--data", data];
    let output = crate::harness::Madang::new(args).fails_with(6);
    output.complains(&["row 3 of the log of likes", "format"]);
    // One like of the first user, as it is written: applied before anything is served, whatever the way.
    let row = format!("UPDATE like_log SET likes = x'0101{:02x}01'", 2 * id);
    database::execute(dir.path(), &row);
    let server = server_with("direct", dir.path());
    assert_eq!(read(&server, id, Some(&mina)).json()["liked"], true);
    assert_eq!(read(&server, id, None).json()["likeCount"], 1);
    counts_are_rows(dir.path());
}
