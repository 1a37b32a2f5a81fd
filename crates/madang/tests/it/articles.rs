//! Articles and comments, written, read, changed and deleted.

use crate::harness::{Answer, Person, Server, Setup, database, eventually};
use serde_json::{Value, json};

/// A server with hashes as cheap as there are.
pub fn server() -> Server {
    Setup::new().cheap_hash().start()
}

/// Writes an article and gives its id.
pub fn write(server: &Server, by: &Person, title: &str) -> i64 {
    let body = json!({"title": title, "content": "같이 걸어요\n둘째 줄"});
    let made = server.post("/v1/articles", Some(by), &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_i64().unwrap();
    assert_eq!(made.header("location"), Some(format!("/v1/articles/{id}").as_str()));
    id
}

pub fn patch(server: &Server, id: i64, by: Option<&Person>, body: &Value) -> Answer {
    server.connect().json("PATCH", &format!("/v1/articles/{id}"), by, body)
}

/// An article as somebody sees it, or as nobody in particular does.
pub fn read(server: &Server, id: i64, by: Option<&Person>) -> Answer {
    let bearer = by.map(Person::bearer);
    let headers: Vec<_> = bearer.iter().map(|b| ("Authorization", b.as_str())).collect();
    server.get_with(&format!("/v1/articles/{id}"), &headers)
}

fn say(server: &Server, id: i64, by: &Person, content: &str) -> i64 {
    let path = format!("/v1/articles/{id}/comments");
    let made = server.post(&path, Some(by), &json!({"content": content}));
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.header("location"), Some(path.as_str()));
    made.json()["id"].as_i64().unwrap()
}

fn items(page: &Value) -> &Vec<Value> {
    page["items"].as_array().unwrap()
}

#[test]
fn an_article_is_written_read_changed_and_deleted_by_its_author() {
    let server = server();
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "동네 산책");
    let article = read(&server, id, None).json();
    assert_eq!(article["title"], "동네 산책");
    assert_eq!(article["content"], "같이 걸어요\n둘째 줄");
    assert_eq!(article["author"]["nickname"], "mina");
    assert_eq!((&article["likeCount"], &article["commentCount"]), (&json!(0), &json!(0)));
    assert_eq!(
        (&article["liked"], article["createdAt"] == article["updatedAt"]),
        (&Value::Null, true)
    );
    let changed = patch(&server, id, Some(&mina), &json!({"title": "저녁 산책"}));
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.header("cache-control"), Some("private, no-cache"));
    let mut wanted = changed.json();
    assert_eq!((&wanted["title"], &wanted["content"]), (&json!("저녁 산책"), &article["content"]));
    wanted["liked"] = Value::Null;
    assert_eq!(read(&server, id, None).json(), wanted, "seen at once");
    // What changes nothing changes no time either.
    let same = patch(&server, id, Some(&mina), &json!({"title": "저녁 산책", "content": null}));
    assert_eq!(same.json()["updatedAt"], wanted["updatedAt"]);
    assert_eq!(server.delete(&format!("/v1/articles/{id}"), Some(&mina)).status, 204);
    for gone in ["", "/comments"] {
        server.get(&format!("/v1/articles/{id}{gone}")).problem(404);
    }
    assert!(items(&server.get("/v1/articles").json()).is_empty());
    server.delete(&format!("/v1/articles/{id}"), Some(&mina)).problem(404);
    server.is_well();
}

#[test]
fn others_may_read_comment_and_like_but_not_change() {
    let server = server();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let id = write(&server, &mina, "산책");
    patch(&server, id, Some(&juno), &json!({"title": "x"})).problem(403);
    patch(&server, id, None, &json!({"title": "x"})).problem(401);
    server.delete(&format!("/v1/articles/{id}"), Some(&juno)).problem(403);
    server.delete(&format!("/v1/articles/{id}"), None).problem(401);
    server.post("/v1/articles", None, &json!({"title": "x", "content": "x"})).problem(401);
    let comment = say(&server, id, &juno, "좋네요");
    let path = format!("/v1/articles/{id}/comments/{comment}");
    server.delete(&path, Some(&mina)).problem(403);
    server.delete(&path, None).problem(401);
    server.delete(&format!("/v1/articles/{}/comments/{comment}", id + 1), Some(&juno)).problem(404);
    assert_eq!(server.delete(&path, Some(&juno)).status, 204);
    server.delete(&path, Some(&juno)).problem(404);
    assert_eq!(read(&server, id, None).json()["commentCount"], 0);
}

#[test]
fn comments_come_in_pages_oldest_first_and_are_counted_at_once() {
    let server = server();
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "산책");
    // Cached before there is any comment.
    assert_eq!(read(&server, id, None).json()["commentCount"], 0);
    let said: Vec<_> = (0..7).map(|n| say(&server, id, &mina, &format!("comment {n}"))).collect();
    assert_eq!(read(&server, id, None).json()["commentCount"], 7);
    let mut seen = Vec::new();
    let mut path = format!("/v1/articles/{id}/comments?limit=3");
    loop {
        let page = server.get(&path).json();
        assert!(items(&page).len() <= 3);
        seen.extend(items(&page).iter().map(|item| item["id"].as_i64().unwrap()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/articles/{id}/comments?limit=3&cursor={cursor}");
    }
    assert_eq!(seen, said);
    let first = server.get(&format!("/v1/articles/{id}/comments")).json();
    assert_eq!(items(&first)[0]["content"], "comment 0");
    assert_eq!(items(&first)[0]["author"]["nickname"], "mina");
    say(&server, id, &mina, "one more");
    assert_eq!(items(&server.get(&format!("/v1/articles/{id}/comments")).json()).len(), 8);
    server.post("/v1/articles/99/comments", Some(&mina), &json!({"content": "x"})).problem(404);
}

#[test]
fn listings_have_two_orders_and_show_a_new_article_at_once() {
    let server = server();
    let people: Vec<_> = (0..3).map(|n| server.somebody(&format!("user-{n}"))).collect();
    let ids: Vec<_> = (0..5).map(|n| write(&server, &people[0], &format!("article {n}"))).collect();
    for (at, likes) in [(1, 3), (3, 1), (4, 1)] {
        for person in &people[..likes] {
            let path = format!("/v1/articles/{}/like", ids[at]);
            assert_eq!(server.connect().json("PUT", &path, Some(person), &json!({})).status, 200);
        }
    }
    // The counts that are shown are right at once, their order follows.
    server.until_metric("madang_likes_pending", &[], 0.0);
    let listed = |query: &str| -> Vec<i64> {
        let (mut seen, mut path) = (Vec::new(), format!("/v1/articles?limit=2{query}"));
        loop {
            let page = server.get(&path).json();
            seen.extend(items(&page).iter().map(|item| item["id"].as_i64().unwrap()));
            let Some(cursor) = page["nextCursor"].as_str() else { return seen };
            path = format!("/v1/articles?limit=2{query}&cursor={cursor}");
        }
    };
    let newest: Vec<_> = ids.iter().rev().copied().collect();
    assert_eq!(listed(""), newest);
    assert_eq!(listed("&sort=newest"), newest);
    assert_eq!(listed("&sort=likes"), [ids[1], ids[4], ids[3], ids[2], ids[0]]);
    let first = &server.get("/v1/articles?sort=likes").json()["items"][0];
    assert_eq!((&first["likeCount"], &first["content"]), (&json!(3), &Value::Null));
    let new = write(&server, &people[1], "new");
    assert_eq!(listed("")[0], new);
    patch(&server, new, Some(&people[1]), &json!({"title": "newer"}));
    assert_eq!(server.get("/v1/articles?limit=1").json()["items"][0]["title"], "newer");
}

#[test]
fn a_create_that_is_sent_again_makes_nothing_new() {
    let server = server();
    let mina = server.somebody("mina");
    let send = |path: &str, body: &Value| {
        let bearer = mina.bearer();
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", bearer.as_str()),
            ("Idempotency-Key", "k1"),
        ];
        server.connect().send_body("POST", path, &headers, body.to_string())
    };
    let article = json!({"title": "once", "content": "x"});
    let first = send("/v1/articles", &article);
    let again = send("/v1/articles", &article);
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(items(&server.get("/v1/articles").json()).len(), 1);
    send("/v1/articles", &json!({"title": "other", "content": "x"})).problem(422);
    let path = format!("/v1/articles/{}/comments", first.json()["id"]);
    assert_eq!(
        send(&path, &json!({"content": "x"})).json(),
        send(&path, &json!({"content": "x"})).json()
    );
    assert_eq!(read(&server, first.json()["id"].as_i64().unwrap(), None).json()["commentCount"], 1);
}

#[test]
fn a_cached_article_is_answered_without_sql_and_a_like_keeps_it_cached() {
    let server = server();
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "cached");
    read(&server, id, None);
    let reads = || server.reads();
    let (before, loads) = (reads(), r#"cache="articles""#);
    let loaded = server.metric("madang_cache_loads_total", &[loads]);
    for _ in 0..10 {
        assert_eq!(read(&server, id, None).status, 200);
    }
    assert!((reads() - before).abs() < f64::EPSILON, "no SQL");
    let old = read(&server, id, None);
    let path = format!("/v1/articles/{id}/like");
    assert_eq!(server.connect().json("PUT", &path, Some(&mina), &json!({})).status, 200);
    let new = read(&server, id, None);
    assert_eq!(
        (new.json()["likeCount"].as_i64(), old.json()["likeCount"].as_i64()),
        (Some(1), Some(0))
    );
    assert_ne!(new.header("etag"), old.header("etag"));
    assert!((server.metric("madang_cache_loads_total", &[loads]) - loaded).abs() < f64::EPSILON);
    // What is the caller's own is not for others to keep.
    let own = read(&server, id, Some(&mina));
    assert_eq!(own.json()["liked"], true);
    assert_eq!(own.header("cache-control"), Some("private, no-cache"));
    assert!(own.header("vary").is_some());
    let known = [("If-None-Match", new.header("etag").unwrap())];
    assert_eq!(server.get_with(&format!("/v1/articles/{id}"), &known).status, 304);
}

#[test]
fn what_a_vanished_account_wrote_stays_without_a_name_and_its_likes_go() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let id = write(&server, &mina, "left behind");
    say(&server, id, &mina, "mine too");
    for person in [&mina, &juno] {
        let path = format!("/v1/articles/{id}/like");
        assert_eq!(server.connect().json("PUT", &path, Some(person), &json!({})).status, 200);
    }
    server.stop();
    // As an operator's shell has it: foreign keys are not enforced there unless asked for.
    database::execute(
        dir.path(),
        "INSERT INTO deleted_users SELECT id FROM users WHERE nickname = 'mina';
         DELETE FROM users WHERE nickname = 'mina'",
    );
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let article = read(&server, id, None).json();
    assert_eq!((&article["author"], &article["commentCount"]), (&Value::Null, &json!(1)));
    eventually("the like of who is gone is taken back", || {
        (read(&server, id, None).json()["likeCount"] == 1).then_some(())
    });
    let comments = server.get(&format!("/v1/articles/{id}/comments")).json();
    assert_eq!(items(&comments)[0]["author"], Value::Null);
    assert_eq!(items(&server.get("/v1/articles?sort=likes").json())[0]["author"], Value::Null);
    // The token is still good; the account is not.
    server.post("/v1/articles", Some(&mina), &json!({"title": "x", "content": "x"})).problem(401);
    let comments = format!("/v1/articles/{id}/comments");
    server.post(&comments, Some(&mina), &json!({"content": "x"})).problem(401);
    patch(&server, id, Some(&mina), &json!({"title": "x"})).problem(401);
    server.delete(&format!("/v1/articles/{id}"), Some(&juno)).problem(403);
    server.is_well();
}

#[test]
fn counts_that_somebody_made_wrong_are_set_right_counted_and_logged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "wrong");
    server.stop();
    let wrong =
        format!("UPDATE articles SET like_count = 5; INSERT INTO article_likes VALUES ({id}, 1)");
    database::execute(dir.path(), &wrong);
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    server.until_metric("madang_article_counts_repaired_total", &[], 1.0);
    assert_eq!(read(&server, id, None).json()["likeCount"], 1);
    server.until_logged("wrong counts");
    assert_eq!(database::number(dir.path(), "SELECT like_count FROM articles"), Some(1));
}

#[test]
fn the_rows_of_a_deleted_article_go_behind_its_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "short");
    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)";
    database::execute(
        dir.path(),
        &format!("INSERT INTO article_likes {rows} SELECT {id}, i + 1000 FROM n"),
    );
    say(&server, id, &mina, "x");
    assert_eq!(server.delete(&format!("/v1/articles/{id}"), Some(&mina)).status, 204);
    let left = "SELECT (SELECT count(*) FROM article_likes) + (SELECT count(*) FROM article_comments)
                     + (SELECT count(*) FROM deleted_articles) + (SELECT count(*) FROM article_contents)";
    eventually("nothing is left", || (database::number(dir.path(), left) == Some(0)).then_some(()));
    server.is_well();
}
