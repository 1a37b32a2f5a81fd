//! `madang admin`: what each command does, seen by clients, also of another node.

use crate::articles::{read, write};
use crate::harness::{Madang, Output, PASSWORD, Person, Server, Setup, database, eventually};
use crate::nodes::Cluster;
use crate::posts::{bicycle, made};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;

/// `madang admin --data DIR …`
pub fn admin(dir: &Path, args: &[&str]) -> Madang {
    let dir = dir.to_str().unwrap();
    Madang::new(["admin", "--data", dir].iter().chain(args))
}

fn done(dir: &Path, args: &[&str]) -> String {
    admin(dir, args).succeeds().is_calm().stdout.trim_end().to_owned()
}

fn refused(dir: &Path, args: &[&str], parts: &[&str]) {
    admin(dir, args).fails_with(1).complains(parts);
}

pub fn start(dir: &Path) -> Server {
    Setup::new().cheap_hash().data(dir).start()
}

fn log_in(server: &Server, nickname: &str, password: &str) -> u16 {
    let body = json!({"nickname": nickname, "password": password});
    server.post("/v1/auth/user/login", None, &body).status
}

fn me(server: &Server, person: &Person) -> u16 {
    server.get_with("/v1/users/me", &[("Authorization", &person.bearer())]).status
}

fn comment(server: &Server, article: i64, by: &Person) -> i64 {
    let path = format!("/v1/articles/{article}/comments");
    let made = server.post(&path, Some(by), &json!({"content": "hello"}));
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["id"].as_i64().unwrap()
}

fn track(server: &Server, by: &Person) -> i64 {
    let body = json!({"name": "river", "segments": [[[37.5, 127], [37.501, 127]]]});
    let made = server.post("/v1/tracks", Some(by), &body);
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["id"].as_i64().unwrap()
}

/// Reads a page until it comes from the cache: the second time it is kept, the third time it is there.
fn cached(server: &Server, path: &str) -> Value {
    let read = || {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    };
    read();
    read();
    read()
}

#[test]
fn a_user_is_shown_logged_out_given_a_password_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mina = server.somebody("mina");
    let post = made(&server, &mina, &bicycle());
    write(&server, &mina, "walk");
    let shown = done(dir.path(), &["user", "show", "MINA"]);
    let has = |name: &str, value: &str| {
        let line = |line: &str| {
            line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(value))
        };
        assert!(shown.lines().any(line), "{name} {value} is not in {shown}");
    };
    has("user", "mina (id:1)");
    has("region", "서울특별시");
    has("posts", "1");
    has("articles", "1");
    has("comments", "0");
    has("tokens", "never");
    for (name, begins) in [("juno", "JU"), ("mi_na", "mi_"), ("min-na", "min")] {
        server.somebody(name);
        let listed = done(dir.path(), &["user", "list", begins]);
        let listed: Vec<&str> = listed.lines().collect();
        assert!(listed[0].ends_with(name), "{listed:?}");
        // `_` is itself.
        assert_eq!(listed.len(), if begins == "min" { 2 } else { 1 }, "{listed:?}");
    }
    let listed = done(dir.path(), &["user", "list", "--last", "2"]);
    let listed: Vec<&str> = listed.lines().map(|line| line.split_once(' ').unwrap().0).collect();
    assert_eq!(listed, ["id:4", "id:3"]);
    refused(dir.path(), &["user", "list", "nobody"], &["no nickname begins with nobody"]);
    assert_eq!(done(dir.path(), &["user", "show", "id:1"]), shown);

    let said = done(dir.path(), &["user", "logout", "mina"]);
    assert_eq!(said, "mina (id:1) is logged out everywhere");
    assert_eq!(me(&server, &mina), 401);
    let mina = server.log_in("mina");
    assert_eq!(me(&server, &mina), 200);
    assert!(done(dir.path(), &["user", "show", "mina"]).contains("are ended"));

    // The token above was given within the second of the end before it.
    let said = done(dir.path(), &["user", "password", "mina"]);
    let password = said.rsplit(' ').next().unwrap();
    assert!(password.len() >= 16, "{said}");
    assert_eq!((me(&server, &mina), log_in(&server, "mina", PASSWORD)), (401, 401));
    assert_eq!(log_in(&server, "mina", password), 200);

    let path = format!("/v1/posts/{post}");
    assert_eq!(cached(&server, &path)["author"], "mina");
    done(dir.path(), &["user", "delete", "mina"]);
    assert_eq!(server.get(&path).json()["author"], Value::Null, "the name is in no cache");
    assert_eq!(log_in(&server, "mina", password), 401);
    refused(dir.path(), &["user", "show", "mina"], &["there is no user mina"]);
    refused(dir.path(), &["user", "delete", "id:1"], &["there is no user id:1"]);
    refused(dir.path(), &["user", "logout", "mi na"], &["is no user", "nickname"]);
    let audit = done(dir.path(), &["audit"]);
    assert!(!audit.contains(password), "a password is in the audit log: {audit}");
    server.is_well();
}

#[test]
fn what_anybody_has_made_is_taken_away_and_gone_from_cached_pages() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mina = server.somebody("mina");
    let (post, article) = (made(&server, &mina, &bicycle()), write(&server, &mina, "walk"));
    let (comment, track) = (comment(&server, article, &mina), track(&server, &mina));
    let comments = format!("/v1/articles/{article}/comments");
    let count = |page: &Value| page["items"].as_array().unwrap().len();
    let gone = |kind: &str, id: i64, page: &str, list: &str| {
        let id = id.to_string();
        cached(&server, page);
        assert_eq!(count(&cached(&server, list)), 1);
        done(dir.path(), &[kind, "delete", &id]);
        if page != list {
            assert_eq!(server.get(page).status, 404, "{kind}");
        }
        assert_eq!(count(&server.get(list).json()), 0, "{kind}");
        refused(dir.path(), &[kind, "delete", &id], &["there is no", kind, &id]);
    };
    gone("post", post, &format!("/v1/posts/{post}"), "/v1/posts");
    gone("comment", comment, &comments, &comments);
    assert_eq!(read(&server, article, None).json()["commentCount"], 0);
    gone("article", article, &format!("/v1/articles/{article}"), "/v1/articles");
    gone("track", track, &format!("/v1/tracks/{track}"), "/v1/tracks");
    server.is_well();
}

/// An account may be gone before what it wrote.
#[test]
fn what_nobody_owns_any_more_is_taken_away_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mina = server.somebody("mina");
    let (post, article) = (made(&server, &mina, &bicycle()), write(&server, &mina, "walk"));
    done(dir.path(), &["user", "delete", "mina"]);
    for (kind, id) in [("post", post), ("article", article)] {
        done(dir.path(), &[kind, "delete", &id.to_string()]);
        assert_eq!(server.get(&format!("/v1/{kind}s/{id}")).status, 404);
    }
}

#[test]
fn what_is_taken_away_at_one_node_is_gone_from_the_cache_of_another_before_the_command_ends() {
    let cluster = Cluster::new();
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let nodes = [0, 1].map(|n| cluster.setup().data(dirs[n].path()).start());
    let mina = nodes[0].somebody("mina");
    let others_misses = || nodes[1].metric("madang_cache_misses_total", &[]);
    let walk = write(&nodes[0], &mina, "walk");
    let comments = format!("/v1/articles/{walk}/comments");
    for (round, kind) in ["post", "comment", "track", "article"].iter().cycle().take(12).enumerate()
    {
        let id = match *kind {
            "post" => made(&nodes[0], &mina, &bicycle()),
            "comment" => comment(&nodes[0], walk, &mina),
            "track" => track(&nodes[0], &mina),
            _ => write(&nodes[0], &mina, "run"),
        };
        let path = match *kind {
            "comment" => comments.clone(),
            kind => format!("/v1/{kind}s/{id}"),
        };
        nodes.iter().for_each(|node| drop(cached(node, &path)));
        let misses = others_misses();
        cached(&nodes[1], &path);
        assert!((others_misses() - misses).abs() < 0.5, "not cached: nothing is tested");
        done(dirs[round / 4 % 2].path(), &[kind, "delete", &id.to_string()]);
        for node in &nodes {
            let answer = node.get(&path);
            match *kind {
                "comment" => assert_eq!(answer.json()["items"], json!([]), "round {round}"),
                _ => assert_eq!(answer.status, 404, "{kind}, round {round}"),
            }
        }
    }

    let article = write(&nodes[0], &mina, "walk");
    let path = format!("/v1/articles/{article}");
    nodes.iter().for_each(|node| drop(cached(node, &path)));
    let misses = others_misses();
    done(dirs[0].path(), &["cache", "clear"]);
    nodes[1].get(&path);
    assert!(others_misses() > misses, "the other node still has it");

    nodes.iter().for_each(|node| assert_eq!(cached(node, &path)["author"]["nickname"], "mina"));
    done(dirs[1].path(), &["user", "delete", "mina"]);
    for node in &nodes {
        assert_eq!(node.get(&path).json()["author"], Value::Null);
        assert_eq!(me(node, &mina), 401);
    }
    assert!(done(dirs[0].path(), &["status"]).contains("MariaDB"));
    refused(dirs[0].path(), &["checkpoint"], &["no write-ahead log here"]);
}

#[test]
fn maintenance_mode_refuses_writes_serves_reads_and_outlives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    let is_on = |server: &Server, message: &str| {
        let post = server.post("/v1/posts", Some(&mina), &bicycle());
        let problem = post.problem(503);
        assert_eq!(problem["type"], "urn:madang:problem:maintenance");
        assert_eq!(problem["detail"], message);
        assert_eq!(post.header("retry-after"), Some("60"));
        server.delete(&format!("/v1/posts/{id}"), Some(&mina)).problem(503);
        let body = json!({"nickname": "juno", "password": PASSWORD, "region_name": "서울특별시"});
        server.post("/v1/auth/user/register", None, &body).problem(503);
        assert_eq!(server.get(&format!("/v1/posts/{id}")).status, 200);
        assert_eq!(me(server, &mina), 200);
        let ready = server.get("/health/ready");
        assert_eq!((ready.status, ready.text().contains("maintenance")), (200, true));
        assert!((server.metric("madang_maintenance", &[]) - 1.0).abs() < f64::EPSILON);
        assert!(done(dir.path(), &["status"]).contains(message));
    };
    done(dir.path(), &["maintenance", "on", "--message", "back at 10:00"]);
    is_on(&server, "back at 10:00");
    server.stop();
    let server = start(dir.path());
    is_on(&server, "back at 10:00");
    server.until_logged("maintenance mode is on");
    // An operator can take something away meanwhile.
    done(dir.path(), &["post", "delete", &id.to_string()]);
    assert_eq!(done(dir.path(), &["maintenance", "off"]), "maintenance mode is off");
    assert_eq!(done(dir.path(), &["maintenance", "off"]), "maintenance mode was off");
    made(&server, &mina, &bicycle());
    assert_eq!(server.get("/health/ready").text(), "ok\n");
    assert!(server.metric("madang_maintenance", &[]).abs() < f64::EPSILON);
    refused(dir.path(), &["maintenance", "on", "--message", "two\nlines"], &["a line of 1 to 200"]);
    server.stop();
    let server = start(dir.path());
    made(&server, &mina, &bicycle());
    done(dir.path(), &["maintenance", "on"]);
    server.post("/v1/posts", Some(&mina), &bicycle()).problem(503);
}

#[test]
fn the_log_level_changes_while_it_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    server.get("/v1/posts?limit=1");
    done(dir.path(), &["log-level", "info,madang_service=debug"]);
    assert!(!server.log().contains("/v1/posts"), "{}", server.log());
    server.get("/v1/posts?limit=1");
    server.until_logged("route=\"/v1/posts\"");
    assert!(done(dir.path(), &["status"]).contains("info,madang_service=debug"));
    done(dir.path(), &["log-level", "warn"]);
    let before = server.log().matches("DEBUG").count();
    server.get("/v1/posts?limit=1");
    done(dir.path(), &["log-level", "debug"]);
    server.get("/health/live");
    // What is logged after the request for posts shows that nothing of that is still to come.
    server.until_logged("/health/live");
    let log = server.log();
    let after: Vec<_> = log.lines().filter(|line| line.contains("DEBUG")).skip(before).collect();
    assert!(!after.iter().any(|line| line.contains("/v1/posts")), "{after:?}");
    for wrong in ["loud", "info,x", ""] {
        admin(dir.path(), &["log-level", wrong]).fails_with(2);
    }
}

#[test]
fn a_checkpoint_empties_the_log_into_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mina = server.somebody("mina");
    made(&server, &mina, &bicycle());
    let log = || std::fs::metadata(dir.path().join("madang.db-wal")).unwrap().len();
    assert!(log() > 0);
    done(dir.path(), &["checkpoint"]);
    assert_eq!(log(), 0);
    made(&server, &mina, &bicycle());
    assert_eq!(database::number(dir.path(), "SELECT count(*) FROM posts"), Some(2));
    server.is_well();
}

/// Commands and outcomes, as the audit log has them.
fn audit(dir: &Path) -> Vec<(String, String)> {
    let Output { stdout, .. } = admin(dir, &["audit", "--last", "3"]).succeeds();
    let fields = |line: &str| {
        let mut fields = line.split("  ").skip(2).map(str::to_owned);
        (fields.next().unwrap(), fields.next().unwrap())
    };
    stdout.lines().map(fields).collect()
}

#[test]
fn a_command_is_in_the_audit_log_before_it_is_carried_out_also_of_a_server_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path());
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle()).to_string();
    assert_eq!(audit(dir.path()), []);
    done(dir.path(), &["cache", "clear"]);
    refused(dir.path(), &["post", "delete", "77"], &["there is no post 77"]);
    let lock = database::lock(dir.path());
    let (mut waiting, _home) = admin(dir.path(), &["post", "delete", &id]).spawn();
    let begun = format!("post delete {id}");
    let unended = eventually("the command is written down", || {
        audit(dir.path()).into_iter().find(|(command, _)| *command == begun)
    });
    assert!(unended.1.starts_with("no outcome"), "{unended:?}");
    server.signal(Signal::KILL);
    server.wait();
    assert!(!eventually("the command ends", || waiting.try_wait().unwrap()).success());
    drop(lock);
    // Neither needs a server, nor does a new one change what was.
    for server in [None, Some(start(dir.path()))] {
        let found = audit(dir.path());
        assert_eq!(found[0], ("cache clear".to_owned(), "done".to_owned()));
        assert_eq!(found[1].0, "post delete 77");
        assert!(found[1].1.starts_with("failed: there is no post 77"), "{found:?}");
        assert_eq!(found[2], unended);
        if let Some(server) = server {
            assert_eq!(server.get(&format!("/v1/posts/{id}")).status, 200);
        }
    }
}

#[test]
fn nothing_is_done_that_cannot_be_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle()).to_string();
    std::fs::create_dir(dir.path().join("admin.log")).unwrap();
    refused(dir.path(), &["post", "delete", &id], &["nothing was done", "audit log"]);
    assert_eq!(server.get(&format!("/v1/posts/{id}")).status, 200);
    done(dir.path(), &["status"]);
}
