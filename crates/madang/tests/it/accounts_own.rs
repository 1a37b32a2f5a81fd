//! What people see of their own: their sessions, and everything that they made.

use crate::accounts::{is_refused, log_out, me, start};
use crate::harness::{Answer, PASSWORD, Person, Server, Setup, database, eventually};
use crate::{articles, likes, posts, schedules, track_uploads};
use rustix::process::Signal;
use serde_json::{Value, json};

const SESSIONS: &str = "/v1/users/me/sessions";

/// Somebody who logs in with a client that calls itself so.
fn log_in_on(server: &Server, nickname: &str, device: &str) -> Person {
    let body = json!({"nickname": nickname, "password": PASSWORD}).to_string();
    let headers = [("Content-Type", "application/json"), ("User-Agent", device)];
    let answer = server.connect().send_body("POST", "/v1/auth/user/login", &headers, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let token = answer.json()["token"].as_str().unwrap().to_owned();
    Person { nickname: nickname.to_owned(), token }
}

fn get(server: &Server, by: &Person, path: &str) -> Answer {
    let answer = server.get_with(path, &[("Authorization", &by.bearer())]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn sessions(server: &Server, by: &Person) -> Vec<Value> {
    let answer = get(server, by, SESSIONS);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()["items"].as_array().unwrap().clone()
}

fn devices(server: &Server, by: &Person) -> Vec<String> {
    let text = |one: &Value| one["device"].as_str().unwrap().to_owned();
    let mut devices: Vec<_> = sessions(server, by).iter().map(text).collect();
    devices.sort();
    devices
}

/// The address of the session of this device.
fn session(server: &Server, by: &Person, device: &str) -> String {
    let found = sessions(server, by).into_iter().find(|one| one["device"] == device).unwrap();
    format!("{SESSIONS}/{}", found["id"].as_str().unwrap())
}

#[test]
fn sessions_are_listed_and_each_can_be_ended() {
    let dir = tempfile::tempdir().unwrap();
    let patient = || Setup::new().cheap_hash().data(dir.path()).set("accounts.hash_wait", "9s");
    let mut server = patient().start();
    let (first, juno) = (server.somebody("mina"), server.somebody("juno"));
    let phone = log_in_on(&server, "mina", "Phone/1");
    let tablet = log_in_on(&server, "mina", &format!("Tablet/1 {}", "x".repeat(300)));
    let long = devices(&server, &phone).pop().unwrap();
    assert_eq!(long.chars().count(), 200);
    assert_eq!(devices(&server, &phone), ["", "Phone/1", &long]);
    let current: Vec<_> =
        sessions(&server, &phone).into_iter().filter(|one| one["current"] == true).collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0]["device"], "Phone/1");

    let its = session(&server, &phone, &long);
    server.delete(&its, Some(&juno)).problem(404);
    server.delete(&its, None).problem(401);
    server.delete(&format!("{SESSIONS}/nobody"), Some(&phone)).problem(404);
    assert_eq!(me(&server, &tablet.token).status, 200);
    assert_eq!(server.delete(&its, Some(&phone)).status, 204);
    is_refused(&me(&server, &tablet.token));
    server.delete(&its, Some(&phone)).problem(404);
    // Durable before it was answered.
    server.signal(Signal::KILL);
    server.wait();
    let server = patient().start();
    is_refused(&me(&server, &tablet.token));
    assert_eq!(devices(&server, &phone), ["", "Phone/1"]);

    assert_eq!(log_out(&server, &first).status, 204);
    assert_eq!(devices(&server, &phone), ["Phone/1"]);
    assert_eq!(devices(&server, &juno), [""], "nobody else's has ended");
    let change = json!({"password": PASSWORD, "newPassword": "battery staple 2"});
    let changed = server.post("/v1/auth/user/password", Some(&phone), &change);
    assert_eq!(changed.status, 200, "{}", changed.text());
    let token = changed.json()["token"].as_str().unwrap().to_owned();
    let left = sessions(&server, &Person { nickname: "mina".to_owned(), token });
    assert_eq!(left.len(), 1, "a new password ends all others: {left:?}");
    assert_eq!(left[0]["current"], true);
}

#[test]
fn of_many_sessions_the_newest_are_listed_and_expired_ones_go() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let first = server.somebody("mina");
    let mut last = None;
    for _ in 0..55 {
        last = Some(server.log_in("mina"));
    }
    let listed = sessions(&server, last.as_ref().unwrap());
    assert_eq!(listed.len(), 50);
    assert!(listed.iter().any(|one| one["current"] == true), "the newest is among them");
    assert_eq!(me(&server, &first.token).status, 200, "the others are valid all the same");
    server.stop();
    database::execute(dir.path(), "UPDATE sessions SET expires_at = 1");
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    assert_eq!(sessions(&server, &first), [] as [Value; 0]);
    server.log_in("mina");
    assert_eq!(database::number(dir.path(), "SELECT count(*) FROM sessions"), Some(1));
}

/// All pages of an export, each of so many items at most.
fn export(server: &Server, by: &Person, limit: usize) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(server, by, &format!("/v1/users/me/export?limit={limit}{cursor}")).json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        all.extend(items.iter().cloned());
        let Some(next) = page["nextCursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn an_export_has_everything_that_somebody_made_and_nothing_of_others() {
    let server = start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    assert_eq!(export(&server, &mina, 20), [] as [Value; 0]);
    for (by, points) in [(&juno, 9), (&mina, 10)] {
        let post = posts::made(&server, by, &posts::bicycle());
        posts::made(&server, by, &posts::bicycle());
        assert_eq!(server.delete(&format!("/v1/posts/{post}"), Some(by)).status, 204);
        let article = articles::write(&server, by, "나의 글");
        for text in ["one", "two"] {
            let comments = format!("/v1/articles/{article}/comments");
            let answer = server.post(&comments, Some(by), &json!({"content": text}));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        schedules::made(&server, by, &schedules::plan("running", 7));
        let track = server.post("/v1/tracks", Some(by), &track_uploads::line(points));
        assert_eq!(track.status, 201, "{}", track.text());
        let records = format!("{}/records", track.header("location").unwrap());
        let run = server.post(&records, Some(by), &json!({"durationSeconds": 61.5}));
        assert_eq!(run.status, 201, "{}", run.text());
    }
    let mut connection = server.connect();
    assert_eq!(likes::ask(&mut connection, "PUT", 1, &mina).status, 200);
    assert_eq!(likes::ask(&mut connection, "PUT", 2, &juno).status, 200);
    let kinds = |items: &[Value]| {
        items.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = eventually("the like is in the table", || {
        let all = export(&server, &mina, 100);
        kinds(&all).contains(&"like".to_owned()).then_some(all)
    });
    let expected = ["post", "article", "comment", "comment", "like", "schedule", "track", "run"];
    assert_eq!(kinds(&all), expected);
    for limit in [1, 2, 3] {
        assert_eq!(export(&server, &mina, limit), all, "in pages of {limit}");
    }
    let post = &all[0];
    assert_eq!(post["title"], posts::bicycle()["title"]);
    assert_eq!(post["content"], posts::bicycle()["content"]);
    assert_eq!(post["status"], "selling");
    let read = server.get(&format!("/v1/posts/{}", post["id"])).json();
    for field in ["category", "city", "town", "price", "createdAt"] {
        assert_eq!(post[field], read[field], "{field}");
    }
    assert_eq!(all[1]["title"], "나의 글");
    assert_eq!(all[2]["content"], "one");
    assert_eq!(all[4]["articleId"], 1);
    assert_eq!(all[5]["title"], "running");
    assert_eq!(all[7]["durationSeconds"], 61.5);
    assert_eq!(all[7]["trackId"], all[6]["id"]);

    let theirs = get(&server, &juno, "/v1/users/me/export?limit=1").json()["nextCursor"].clone();
    let path = format!("/v1/users/me/export?cursor={}", theirs.as_str().unwrap());
    let answer = server.get_with(&path, &[("Authorization", &mina.bearer())]);
    assert_eq!(answer.wrong_fields(), ["cursor"], "a cursor is good for its user alone");
    server.get("/v1/users/me/export").problem(401);
}
