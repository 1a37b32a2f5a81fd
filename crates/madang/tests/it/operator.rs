//! What an operator may do to the database by SQL: delete users, on a stopped and on a running server.

use crate::harness::{Person, Server, Setup, database, eventually};
use serde_json::{Value, json};
use std::path::Path;

fn start(dir: &Path) -> Server {
    Setup::new().cheap_hash().data(dir).start()
}

fn made(server: &Server, by: &Person, path: &str, body: &Value) -> String {
    let answer = server.post(path, Some(by), body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.header("location").unwrap().to_owned()
}

fn track(name: &str) -> Value {
    json!({"name": name, "segments": [[[37.5, 127], [37.501, 127]]]})
}

/// Rank and nickname of everybody on track 1.
fn ranking(server: &Server) -> Vec<(u64, String)> {
    let page = server.get("/v1/tracks/1/records").json();
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| (item["rank"].as_u64().unwrap(), item["nickname"].as_str().unwrap().to_owned()))
        .collect()
}

/// Rows that still belong to a user, and notes that some may.
fn left(dir: &Path, user: i64) -> Option<i64> {
    let of = [
        ("tracks", "owner_id"),
        ("track_records", "user_id"),
        ("track_bests", "user_id"),
        ("posts", "author_id"),
        ("articles", "author_id"),
        ("article_comments", "author_id"),
        ("article_likes", "user_id"),
        ("schedules", "user_id"),
        ("schedule_counts", "user_id"),
        ("deleted_users", "id"),
    ];
    let counts = of
        .map(|(table, user_id)| format!("(SELECT count(*) FROM {table} WHERE {user_id} = {user})"));
    database::number(dir, &format!("SELECT {}", counts.join(" + ")))
}

/// Everybody does a little of everything: 1 is the fastest on track 1, then 2, then 3.
fn busy(server: &Server, people: &[Person]) {
    made(server, &people[0], "/v1/tracks", &track("river"));
    for (n, person) in people.iter().enumerate() {
        made(server, person, "/v1/tracks", &track(&person.nickname));
        let run = json!({"durationSeconds": 100 + n});
        made(server, person, "/v1/tracks/1/records", &run);
        let article = made(server, person, "/v1/articles", &json!({"title": "t", "content": "c"}));
        made(server, person, "/v1/articles/1/comments", &json!({"content": "c"}));
        for path in ["/v1/articles/1", &article] {
            let like = format!("{path}/like");
            assert_eq!(server.connect().json("PUT", &like, Some(person), &json!({})).status, 200);
        }
        let plan = json!({"title": "run", "locationId": 1, "startAt": "2030-01-01T09:00:00+09:00",
                          "endAt": "2030-01-01T10:00:00+09:00"});
        made(server, person, "/v1/schedules", &plan);
    }
}

/// What is right once the fastest is gone, and somebody else after that.
fn is_right(server: &Server, dir: &Path, gone: &[i64], ranked: &[(u64, &str)]) {
    let ranked: Vec<_> = ranked.iter().map(|(rank, name)| (*rank, (*name).to_owned())).collect();
    eventually("the rows of the user are gone", || {
        gone.iter().all(|user| left(dir, *user) == Some(0)).then_some(())
    });
    assert_eq!(ranking(server), ranked);
    // Counts that are shown follow the rows.
    let article = eventually("the likes of the user are gone", || {
        let article = server.get("/v1/articles/1").json();
        (article["likeCount"] == ranked.len()).then_some(article)
    });
    assert_eq!(article["author"], Value::Null);
    assert_eq!(article["commentCount"], 3);
    let likes = "SELECT count(*) FROM articles a
                 WHERE like_count <> (SELECT count(*) FROM article_likes WHERE article_id = a.id)";
    assert_eq!(database::number(dir, likes), Some(0));
    assert_eq!(server.tracks().len(), 4, "tracks stay, without an owner");
    server.is_well();
}

#[test]
fn a_user_whom_an_operator_deletes_leaves_right_rankings_counts_and_listings() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let people = ["mina", "juno", "hana"].map(|name| server.somebody(name));
    busy(&server, &people);
    assert_eq!(ranking(&server)[0], (1, "mina".to_owned()));

    // While it runs. The housekeeper looks every minute, and whenever something is deleted through the API.
    database::execute(dir.path(), "DELETE FROM users WHERE nickname = 'mina'");
    server.post("/v1/tracks", Some(&people[0]), &track("more")).problem(401);
    server.delete("/v1/tracks/1", Some(&people[0])).problem(403);
    server.delete("/v1/articles/1", Some(&people[0])).problem(403);
    let more = made(&server, &people[2], "/v1/tracks", &track("for a moment"));
    assert_eq!(server.delete(&more, Some(&people[2])).status, 204);
    is_right(&server, dir.path(), &[1], &[(1, "juno"), (2, "hana")]);

    // While it is stopped, on a connection that looks at foreign keys, and on one that does not.
    server.stop();
    database::execute(
        dir.path(),
        "PRAGMA foreign_keys = ON; DELETE FROM users WHERE nickname = 'juno'",
    );
    let server = start(dir.path());
    is_right(&server, dir.path(), &[1, 2], &[(1, "hana")]);
    server.stop();
    database::execute(
        dir.path(),
        "PRAGMA foreign_keys = OFF; DELETE FROM users WHERE nickname = 'hana'",
    );
    let server = start(dir.path());
    is_right(&server, dir.path(), &[1, 2, 3], &[]);
}

#[test]
fn a_town_that_nobody_offers_anything_in_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mina = server.somebody("mina");
    let post = json!({"title": "bicycle", "content": "red", "itemName": "bicycle", "price": 1, "stock": 1,
                      "category": "sports", "state": "서울특별시", "city": "종로구", "town": "혜화동"});
    let path = made(&server, &mina, "/v1/posts", &post);
    for n in 0..20 {
        let town = json!({"town": format!("{n}동")});
        assert_eq!(server.connect().json("PATCH", &path, Some(&mina), &town).status, 200);
    }
    server.stop();
    let server = start(dir.path());
    eventually("one town is left", || {
        (database::number(dir.path(), "SELECT count(*) FROM towns") == Some(1)).then_some(())
    });
    assert_eq!(server.get(&path).json()["town"], "19동");
}
