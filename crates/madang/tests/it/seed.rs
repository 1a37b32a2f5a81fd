//! `madang seed`.

use crate::harness::{Madang, Output, Setup, database};
use serde_json::json;
use std::path::Path;

fn seed(dir: &Path, args: &[&str]) -> Output {
    let shared = ["seed", "--shared-hash", "--data", dir.to_str().unwrap()];
    Madang::new(shared.iter().chain(args)).run()
}

fn succeeds(dir: &Path, args: &[&str]) -> Output {
    let output = seed(dir, args);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output
}

fn number(dir: &Path, sql: &str) -> i64 {
    database::number(dir, sql).unwrap()
}

/// A number that changes when any row but a password's hash does.
fn contents(dir: &Path) -> Vec<String> {
    let rows = [
        "SELECT group_concat(id || nickname || region_id || created_at_ms) FROM (SELECT * FROM users ORDER BY id) t",
        "SELECT coalesce(group_concat(id || ' ' || user_id || ' ' || location_id || title || start_at_ms || ' ' || end_at_ms), '')
         FROM (SELECT * FROM schedules ORDER BY id) t",
        "SELECT coalesce(group_concat(user_id || ' ' || n), '') FROM schedule_counts",
        "SELECT coalesce(group_concat(id || ' ' || author_id || ' ' || category_id || ' ' || town_id || ' ' || price
             || ' ' || stock || status || removed || created_at_ms || title || item_name || content), '')
         FROM (SELECT * FROM posts ORDER BY id) t",
        "SELECT coalesce(group_concat(id || ' ' || city_id || name), '') FROM (SELECT * FROM towns ORDER BY id) t",
    ];
    rows.iter().map(|sql| database::text(dir, sql)).collect()
}

#[test]
fn seeded_users_log_in_and_have_their_schedules() {
    let dir = tempfile::tempdir().unwrap();
    let output = succeeds(dir.path(), &["--users", "3", "--schedules-per-user", "40"]);
    for said in ["3 users", "120 schedules", "user-0001", "user-0003", "/v1/auth/user/login"] {
        assert!(output.stdout.contains(said), "{said}: {}", output.stdout);
    }
    let server = Setup::new().data(dir.path()).start();
    let body = json!({"nickname": "user-0002", "password": "madang-seed"});
    let login = server.post("/v1/auth/user/login", None, &body);
    assert_eq!(login.status, 200, "{}", login.text());
    let bearer = format!("Bearer {}", login.json()["token"].as_str().unwrap());
    let headers = [("Authorization", bearer.as_str())];
    let page = server.get_with("/v1/schedules?limit=100", &headers).json();
    let schedules = page["items"].as_array().unwrap();
    assert_eq!(schedules.len(), 40);
    assert!(schedules.iter().all(|s| s["startAt"].as_str().unwrap().starts_with("2027-")));
    // Far beyond the limit of 30, which holds for whoever asks over HTTP.
    let person = crate::harness::Person {
        nickname: "user-0002".to_owned(),
        token: login.json()["token"].as_str().unwrap().to_owned(),
    };
    server.post("/v1/schedules", Some(&person), &crate::schedules::plan("x", 0)).problem(409);
}

#[test]
fn the_same_numbers_give_the_same_rows_and_another_seed_others() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let rows = ["--users", "5", "--schedules-per-user", "7", "--posts", "120"];
    succeeds(dirs[0].path(), &rows);
    succeeds(dirs[1].path(), &rows);
    succeeds(dirs[2].path(), &[&rows[..], &["--seed", "1"]].concat());
    assert_eq!(contents(dirs[0].path()), contents(dirs[1].path()));
    assert_ne!(contents(dirs[0].path()), contents(dirs[2].path()));
}

#[test]
fn what_is_there_is_not_added_again_and_what_is_missing_is() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    succeeds(dir.path(), &["--users", "2", "--schedules-per-user", "3"]);
    let again = succeeds(dir.path(), &["--users", "2", "--schedules-per-user", "3"]);
    assert!(again.stdout.contains("added 0 users and 0 schedules"), "{}", again.stdout);
    succeeds(dir.path(), &["--users", "4", "--schedules-per-user", "5"]);
    assert_eq!(number(dir.path(), "SELECT count(*) FROM users"), 4);
    assert_eq!(number(dir.path(), "SELECT count(*) FROM schedules"), 20);
    assert_eq!(number(dir.path(), "SELECT count(*) FROM schedule_counts WHERE n = 5"), 4);
    // The rows are those of a run at once; only their ids tell how they came.
    succeeds(other.path(), &["--users", "4", "--schedules-per-user", "5"]);
    let rows = "SELECT group_concat(r ORDER BY r) FROM (SELECT user_id || title || start_at_ms AS r FROM schedules) t";
    assert_eq!(database::text(dir.path(), rows), database::text(other.path(), rows));
}

#[test]
fn seeded_posts_are_in_their_listings_and_every_50th_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let output = succeeds(dir.path(), &["--users", "3", "--posts", "200"]);
    assert!(output.stdout.contains("added 3 users and 200 posts"), "{}", output.stdout);
    let again = succeeds(dir.path(), &["--users", "3", "--posts", "200"]);
    assert!(again.stdout.contains("already there: 3 users and 200 posts"), "{}", again.stdout);
    let whole = tempfile::tempdir().unwrap();
    succeeds(dir.path(), &["--users", "3", "--posts", "300"]);
    succeeds(whole.path(), &["--users", "3", "--posts", "300"]);
    assert_eq!(contents(dir.path()), contents(whole.path()), "a larger run extends a smaller one");

    let removed = "SELECT group_concat(id ORDER BY id) FROM posts WHERE removed = 1";
    assert_eq!(database::text(dir.path(), removed), "50,100,150,200,250,300");
    assert_eq!(number(dir.path(), "SELECT count(DISTINCT status) FROM posts"), 3);
    assert_eq!(number(dir.path(), "SELECT count(DISTINCT category_id) FROM posts"), 12);
    if !database::on_server() {
        assert_eq!(number(dir.path(), "SELECT count(*) FROM pragma_foreign_key_check"), 0);
    }
    let server = Setup::new().data(dir.path()).start();
    let page = server.get("/v1/posts?limit=100").json();
    let ids: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|i| i["id"].as_i64().unwrap()).collect();
    let newest: Vec<_> = (1..=300).rev().filter(|id| id % 50 != 0).take(100).collect();
    assert_eq!(ids, newest);
    let one = server.get("/v1/posts/299").json();
    assert!(one["author"].as_str().unwrap().starts_with("user-"), "{one}");
    server.get("/v1/posts/300").problem(404);
}

#[test]
fn every_user_has_a_salt_of_its_own_unless_told_to_share() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    Madang::new(["seed", "--users", "3", "--hash", "bcrypt:10", "--data", data]).succeeds();
    let different = "SELECT count(DISTINCT password_hash) FROM users";
    assert_eq!(number(dir.path(), different), 3);
    succeeds(dir.path(), &["--users", "6", "--password", "another one"]);
    assert_eq!(number(dir.path(), different), 4);
    let unsafe_hash = seed(dir.path(), &["--users", "7", "--hash", "bcrypt:4"]);
    assert_eq!(unsafe_hash.code, Some(2));
    unsafe_hash.complains(&["accounts.hash", "unsafe_experiments"]);
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).start();
    let output = seed(dir.path(), &["--users", "1"]);
    assert_eq!(output.code, Some(5));
    output.complains(&["in use", &server.child.id().to_string()]);
    assert_eq!(number(dir.path(), "SELECT count(*) FROM users"), 0);
}

#[test]
fn wrong_numbers_are_refused_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for wrong in [
        &["--users", "0"][..],
        &["--users", "1000001"],
        &["--users", "-1"],
        &["--users", "x"],
        &[],
        &["--users", "1", "--schedules-per-user", "1000001"],
        &["--users", "1000000", "--schedules-per-user", "1000"],
        &["--users", "1", "--password", "short"],
        &["--users", "1", "--password", "비밀번호입니다"],
        &["--users", "1", "--epoch", "2027-01-01"],
        &["--users", "1", "--epoch", "9999-01-01T00:00:00Z"],
        &["--users", "1", "--hash", "md5"],
        &["--users", "1", "--posts", "5000001"],
        &["--posts", "1"],
    ] {
        let output = seed(&data, wrong);
        assert_eq!(output.code, Some(2), "{wrong:?}: {}", output.stderr);
        assert!(!data.exists(), "{wrong:?}");
    }
}
