//! Schedules and their places over HTTP: what is promised to whom.

use crate::harness::client::head;
use crate::harness::{Answer, Connection, Person, Server, Setup, database, eventually};
use serde_json::{Value, json};
use std::collections::HashSet;

pub fn start() -> Server {
    Setup::new().cheap_hash().start()
}

/// A schedule of one hour, `hour` hours into 2027 in Korea.
pub fn plan(title: &str, hour: u32) -> Value {
    let (day, hour) = (1 + hour / 23, hour % 23);
    let at = |hour| format!("2027-01-{day:02}T{hour:02}:30:00+09:00");
    json!({"title": title, "locationId": 1, "startAt": at(hour), "endAt": at(hour + 1)})
}

/// Makes a schedule and gives its id.
pub fn made(server: &Server, by: &Person, body: &Value) -> i64 {
    let answer = server.post("/v1/schedules", Some(by), body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_i64().unwrap()
}

pub fn get(server: &Server, by: &Person, path: &str) -> Answer {
    server.get_with(path, &[("Authorization", &by.bearer())])
}

/// All of somebody's schedules, page by page.
pub fn all(server: &Server, by: &Person, limit: usize) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(server, by, &format!("/v1/schedules?limit={limit}{cursor}")).json();
        items.extend_from_slice(page["items"].as_array().unwrap());
        assert!(items.len() <= 10_000, "the pages do not end");
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[test]
fn a_schedule_is_found_where_the_answer_says_in_utc() {
    let server = start();
    let mina = server.somebody("mina");
    let body = json!({
        "title": "한강 달리기", "locationId": 2, "note": "unknown fields are ignored",
        "startAt": "2027-03-01T06:30:00+09:00", "endAt": "2027-03-01t07:00:00.25+09:00",
    });
    let created = server.post("/v1/schedules", Some(&mina), &body);
    assert_eq!(created.status, 201, "{}", created.text());
    let id = &created.json()["id"];
    assert_eq!(created.json(), json!({"id": id, "scheduleId": id}));
    let place = created.header("location").unwrap();
    assert_eq!(place, format!("/v1/schedules/{id}"));

    let answer = get(&server, &mina, place);
    let found = answer.json();
    assert_eq!(found["title"], "한강 달리기");
    assert_eq!(found["locationId"], 2);
    assert_eq!(found["startAt"], "2027-02-28T21:30:00.000Z");
    assert_eq!(found["endAt"], "2027-02-28T22:00:00.250Z");
    assert!(found["createdAt"].as_str().unwrap().ends_with('Z'));
    let caching = answer.header("cache-control").unwrap();
    assert!(caching.contains("private"), "nobody else may be given it: {caching}");
    assert_eq!(get(&server, &mina, "/v1/schedules").json()["items"], json!([found]));
}

#[test]
fn nothing_is_told_or_done_without_a_token() {
    let server = start();
    let id = made(&server, &server.somebody("mina"), &plan("mine", 0));
    let one = format!("/v1/schedules/{id}");
    for answer in [
        server.post("/v1/schedules", None, &plan("x", 1)),
        server.get("/v1/schedules"),
        server.get(&one),
        server.delete(&one, None),
    ] {
        answer.problem(401);
        assert!(answer.header("www-authenticate").is_some_and(|v| v.starts_with("Bearer")));
    }
}

#[test]
fn somebody_elses_schedule_is_neither_shown_nor_deleted() {
    let server = start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let one = format!("/v1/schedules/{}", made(&server, &mina, &plan("mine", 0)));
    let missing = "/v1/schedules/999999";
    let said = |answer: Answer| {
        let mut problem = answer.problem(404);
        problem["instance"].take();
        problem
    };
    let foreign = said(get(&server, &juno, &one));
    assert_eq!(foreign, said(get(&server, &juno, missing)), "not told from a missing one");
    assert_eq!(foreign, said(server.delete(&one, Some(&juno))));
    assert_eq!(foreign, said(server.delete(missing, Some(&juno))));
    assert_eq!(all(&server, &juno, 20), [] as [Value; 0]);
    assert_eq!(get(&server, &mina, &one).status, 200, "it is still there");
}

#[test]
fn a_deleted_schedule_is_gone_and_its_address_stays_dead() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &plan("mine", 0));
    let one = format!("/v1/schedules/{id}");
    let deleted = server.delete(&one, Some(&mina));
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    server.delete(&one, Some(&mina)).problem(404);
    get(&server, &mina, &one).problem(404);
    assert!(made(&server, &mina, &plan("another", 0)) > id);
    for none in ["0", "-1", "abc", "1.0", "9223372036854775808", "%00"] {
        get(&server, &mina, &format!("/v1/schedules/{none}")).problem(404);
        server.delete(&format!("/v1/schedules/{none}"), Some(&mina)).problem(404);
    }
}

#[test]
fn pages_of_any_size_hold_ones_own_schedules_once_and_by_begin() {
    let server = Setup::new().cheap_hash().set("schedules.limit", "off").start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    // Several begin together, and none is made in the order of its begin.
    for n in 0..24 {
        made(&server, &mina, &plan(&format!("mine {n}"), (n * 7) % 12));
        made(&server, &juno, &plan("not mine", n));
    }
    let whole = all(&server, &mina, 100);
    assert_eq!(whole.len(), 24);
    let order: Vec<_> =
        whole.iter().map(|s| (s["startAt"].to_string(), s["id"].as_i64())).collect();
    assert!(order.is_sorted(), "{order:?}");
    let ids: HashSet<_> = order.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 24);
    for limit in [1, 5, 8, 23, 24] {
        assert_eq!(all(&server, &mina, limit), whole, "limit {limit}");
    }
}

#[test]
fn a_cursor_that_is_altered_or_of_another_listing_or_user_is_refused() {
    let server = start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    for hour in 0..3 {
        made(&server, &mina, &plan("a", hour));
        made(&server, &juno, &plan("b", hour));
    }
    let cursor = |answer: Answer| answer.json()["nextCursor"].as_str().unwrap().to_owned();
    let own = cursor(get(&server, &mina, "/v1/schedules?limit=1"));
    let others = cursor(get(&server, &juno, "/v1/schedules?limit=1"));
    let places = cursor(server.get("/v1/locations?limit=1"));
    let mut altered = own.clone().into_bytes();
    altered[20] = if altered[20] == b'0' { b'1' } else { b'0' };
    let altered = String::from_utf8(altered).unwrap();
    for wrong in [altered.as_str(), &others, &places, &own[1..], "", "%00", "x"] {
        let answer = get(&server, &mina, &format!("/v1/schedules?cursor={wrong}"));
        assert_eq!(answer.wrong_fields(), ["cursor"], "{wrong}");
    }
    assert_eq!(get(&server, &mina, &format!("/v1/schedules?cursor={own}")).status, 200);
    let both = get(&server, &mina, "/v1/schedules?limit=101&cursor=x");
    assert_eq!(both.wrong_fields(), ["limit", "cursor"]);
}

#[test]
fn a_create_that_is_sent_again_with_its_key_makes_one_schedule() {
    for check in ["counter", "count", "load-all", "insert-select", "row-lock"] {
        let server = Setup::new()
            .cheap_hash()
            .set("schedules.limit", "1")
            .set("schedules.limit_check", check)
            .start();
        let mina = server.somebody("mina");
        let bearer = mina.bearer();
        let send = |key: &str, body: &Value| {
            let headers = [
                ("Content-Type", "application/json"),
                ("Authorization", bearer.as_str()),
                ("Idempotency-Key", key),
            ];
            server.connect().send_body("POST", "/v1/schedules", &headers, body.to_string())
        };
        let first = send("k-1", &plan("once", 0));
        let again = send("k-1", &plan("once", 0));
        assert_eq!((first.status, again.status), (201, 201), "{check}: {}", again.text());
        assert_eq!(
            (first.json(), first.header("location")),
            (again.json(), again.header("location"))
        );
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(all(&server, &mina, 20).len(), 1, "{check}");
        send("k-1", &plan("another", 0)).problem(422);
        let full = send("k-2", &plan("another", 0)).problem(409);
        assert_eq!(full["type"], "urn:madang:problem:schedule-limit");
        // A refusal is not remembered.
        server.delete(first.header("location").unwrap(), Some(&mina));
        assert_eq!(send("k-2", &plan("another", 0)).status, 201, "{check}");
        server.until_metric("madang_schedules_created_total", &[], 2.0);
    }
}

#[test]
fn a_schedule_of_somebody_who_is_gone_is_refused_as_unauthorized() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    made(&server, &mina, &plan("mine", 0));
    database::execute(
        dir.path(),
        "PRAGMA foreign_keys = ON; INSERT INTO deleted_users SELECT id FROM users; DELETE FROM users",
    );
    server.post("/v1/schedules", Some(&mina), &plan("mine", 1)).problem(401);
    server.stop();
    let _server = Setup::new().cheap_hash().data(dir.path()).start();
    let left = "SELECT (SELECT count(*) FROM schedules) + (SELECT count(*) FROM schedule_counts)";
    eventually("nothing is left", || (database::number(dir.path(), left) == Some(0)).then_some(()));
}

#[test]
fn places_are_listed_for_everybody_and_answered_from_the_cache() {
    let server = start();
    let page = server.get("/v1/locations").json();
    let first = &page["items"][0];
    assert_eq!((&first["id"], &first["name"]), (&json!(1), &json!("서울광장")));
    assert_eq!(first["nameEnglish"], "Seoul Plaza");
    assert_eq!(first["position"], json!([37.566, 126.978]));
    assert_eq!(page["items"].as_array().unwrap().len(), 20);

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/locations?limit=7{cursor}")).json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|p| p["id"].as_i64().unwrap()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, (1..=39).collect::<Vec<_>>());

    server.get("/v1/locations");
    let before = server.reads();
    let again = server.get("/v1/locations");
    let tag = again.header("etag").unwrap();
    assert_eq!(server.get_with("/v1/locations", &[("If-None-Match", tag)]).status, 304);
    let after = server.reads();
    assert!((after - before).abs() < f64::EPSILON, "the store was asked again");
    for wrong in ["limit=0", "cursor=x"] {
        server.get(&format!("/v1/locations?{wrong}")).problem(422);
    }
}

#[test]
fn a_page_of_places_that_is_not_in_the_cache_passes_the_gate() {
    let server = start();
    let turns = || server.metric("madang_work_queue_time_seconds_count", &["gate=\"reads\""]);
    let before = turns();
    let first = server.get("/v1/locations?limit=7").json();
    assert_eq!(turns() - before, 1.0);
    let later = format!("/v1/locations?limit=7&cursor={}", first["nextCursor"].as_str().unwrap());
    for path in ["/v1/locations?limit=7", &later, &later, &later] {
        assert_eq!(server.get(path).status, 200);
    }
    assert_eq!(turns() - before, 4.0, "each twice, and then it is kept");
}

#[test]
fn retries_that_arrive_together_get_the_last_place_once_and_all_of_them() {
    // The first two look at the limit before they write, and the key may come between.
    for check in ["load-all", "count", "counter"] {
        let server = Setup::new()
            .cheap_hash()
            .set("schedules.limit", "1")
            .set("schedules.limit_check", check)
            .start();
        let mina = server.somebody("mina");
        let bearer = mina.bearer();
        for round in 0..20 {
            let key = format!("k-{round}");
            let headers = [
                ("Content-Type", "application/json"),
                ("Authorization", bearer.as_str()),
                ("Idempotency-Key", key.as_str()),
            ];
            let mut ready: Vec<_> = (0..16).map(|_| server.connect()).collect();
            let answers: Vec<_> = std::thread::scope(|scope| {
                let send = |connection: &mut Connection| {
                    let body = plan("once", 0).to_string();
                    connection.send_body("POST", "/v1/schedules", &headers, body)
                };
                let sent: Vec<_> = ready.iter_mut().map(|c| scope.spawn(move || send(c))).collect();
                sent.into_iter().map(|answer| answer.join().unwrap()).collect()
            });
            let place = answers[0].header("location");
            for answer in &answers {
                assert_eq!(answer.status, 201, "{check}: {}", answer.text());
                assert_eq!(answer.header("location"), place);
            }
            let new = answers.iter().filter(|a| a.header("idempotent-replayed").is_none());
            assert_eq!(new.count(), 1, "{check}");
            assert_eq!(server.delete(place.unwrap(), Some(&mina)).status, 204);
        }
    }
}

#[test]
fn other_methods_are_refused_and_told_and_head_is_get_without_a_body() {
    let server = start();
    let mina = server.somebody("mina");
    let one = format!("/v1/schedules/{}", made(&server, &mina, &plan("mine", 0)));
    for (path, methods) in [
        ("/v1/schedules", "GET,HEAD,POST"),
        (one.as_str(), "DELETE,GET,HEAD"),
        ("/v1/locations", "GET,HEAD"),
    ] {
        let refused = server.connect().json("PATCH", path, Some(&mina), &json!({}));
        refused.problem(405);
        let mut allowed: Vec<_> =
            refused.header("allow").unwrap().split(',').map(str::trim).collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), methods, "{path}");
        let bearer = mina.bearer();
        let headers = [("Authorization", bearer.as_str())];
        let get = server.get_with(path, &headers);
        let mut connection = server.connect();
        connection.send(head("HEAD", path, &headers));
        let answer = connection.answer_to("HEAD").unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}");
        assert_eq!(answer.header("content-length"), get.header("content-length"), "{path}");
    }
}
