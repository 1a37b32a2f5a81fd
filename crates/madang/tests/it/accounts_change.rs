//! A new password, log out everywhere, delete my account: what ends with each, and what does not.

use crate::accounts::{is_refused, log_in, log_out, me, new_user, register, start};
use crate::harness::{Answer, PASSWORD, Person, Server, Setup, database, eventually};
use crate::posts;
use serde_json::json;

const OTHER: &str = "battery staple 2";

fn change(server: &Server, by: &Person, password: &str, new: &str) -> Answer {
    let body = json!({"password": password, "newPassword": new});
    server.post("/v1/auth/user/password", Some(by), &body)
}

fn log_out_everywhere(server: &Server, by: &Person) -> Answer {
    let path = "/v1/auth/user/logout-all";
    server.connect().request("POST", path, &[("Authorization", &by.bearer())])
}

fn delete(server: &Server, by: &Person, password: &str) -> Answer {
    server.post("/v1/auth/user/delete", Some(by), &json!({"password": password}))
}

#[test]
fn a_new_password_ends_the_old_one_and_every_token() {
    let dir = tempfile::tempdir().unwrap();
    let patient = || Setup::new().cheap_hash().data(dir.path()).set("accounts.hash_wait", "9s");
    let server = patient().start();
    let (mina, other) = (server.somebody("mina"), server.log_in("mina"));
    let bystander = server.somebody("juno");
    let changed = change(&server, &mina, PASSWORD, OTHER);
    assert_eq!(changed.status, 200, "{}", changed.text());
    let new = changed.json()["token"].as_str().unwrap().to_owned();
    let is_right = |server: &Server| {
        is_refused(&me(server, &mina.token));
        is_refused(&me(server, &other.token));
        assert_eq!(me(server, &new).status, 200);
        assert_eq!(me(server, &bystander.token).status, 200);
        assert_eq!(log_in(server, "mina", PASSWORD).status, 401);
        // Also within the second in which the others ended.
        let again = log_in(server, "mina", OTHER).json();
        assert_eq!(me(server, again["token"].as_str().unwrap()).status, 200);
    };
    is_right(&server);
    server.stop();
    is_right(&patient().start());
}

#[test]
fn a_token_alone_changes_and_deletes_nothing() {
    let server = start();
    let mina = server.somebody("mina");
    for wrong in ["wrong password", "x", ""] {
        change(&server, &mina, wrong, OTHER).problem(403);
        delete(&server, &mina, wrong).problem(403);
    }
    let short = change(&server, &mina, PASSWORD, "short");
    assert_eq!(short.wrong_fields(), ["newPassword"]);
    assert_eq!(log_in(&server, "mina", PASSWORD).status, 200);
    assert_eq!(me(&server, &mina.token).status, 200);
    let nobody = json!({"password": PASSWORD, "newPassword": OTHER});
    server.post("/v1/auth/user/password", None, &nobody).problem(401);
}

#[test]
fn guesses_at_the_password_of_a_stolen_token_are_limited() {
    let server = Setup::new().cheap_hash().set("guard.pair", "3/1m").start();
    let mina = server.somebody("mina");
    let statuses: Vec<_> =
        (0..6).map(|n| change(&server, &mina, &format!("wrong {n}"), OTHER).status).collect();
    assert_eq!(statuses[..3], [403; 3]);
    assert_eq!(statuses[3..], [429; 3]);
}

#[test]
fn everybody_is_logged_out_and_may_log_in_again_at_once() {
    let server = start();
    let mina = server.somebody("mina");
    let others: Vec<_> = (0..70).map(|_| server.log_in("mina")).collect();
    assert_eq!(log_out(&server, &others[0]).status, 204);
    assert_eq!(log_out_everywhere(&server, &mina).status, 204);
    for one in others.iter().chain([&mina]) {
        is_refused(&me(&server, &one.token));
    }
    let again = server.log_in("mina");
    assert_eq!(me(&server, &again.token).status, 200);
    assert_eq!(log_out(&server, &again).status, 204);
    is_refused(&me(&server, &again.token));
    is_refused(&log_out_everywhere(&server, &mina));
}

#[test]
fn a_deleted_account_is_nobodys_and_its_name_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let article = crate::articles::write(&server, &mina, "stays");
    let liked = crate::likes::ask(&mut server.connect(), "PUT", article, &mina);
    assert_eq!(liked.status, 200);
    let post = posts::made(&server, &mina, &posts::bicycle());
    let mine = me(&server, &mina.token).json()["id"].as_i64().unwrap();
    let answer = delete(&server, &mina, PASSWORD);
    assert_eq!(answer.status, 204, "{}", answer.text());
    is_refused(&me(&server, &mina.token));
    assert_eq!(log_in(&server, "mina", PASSWORD).status, 401);
    eventually("the like is gone", || {
        let article = server.get(&format!("/v1/articles/{article}")).json();
        (article["likeCount"] == 0 && article["author"].is_null()).then_some(())
    });
    assert_eq!(server.get(&format!("/v1/posts/{post}")).status, 200);
    eventually("nothing of the user is left", || {
        let left = format!(
            "SELECT (SELECT count(*) FROM users WHERE id = {mine}) +
                    (SELECT count(*) FROM article_likes WHERE user_id = {mine}) +
                    (SELECT count(*) FROM deleted_users)"
        );
        (database::number(dir.path(), &left) == Some(0)).then_some(())
    });
    assert_eq!(register(&server, &new_user("mina")).status, 201);
    let other = server.log_in("mina");
    assert_ne!(me(&server, &other.token).json()["id"], mine);
    assert_eq!(me(&server, &juno.token).status, 200);
    server.is_well();
}
