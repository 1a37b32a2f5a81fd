//! Register, log in, log out, who am I: what the contract says of the good cases.

use crate::harness::{Answer, PASSWORD, Person, Server, Setup, database, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::Barrier;

/// A server with hashes that cost little, and with patience.
pub fn start() -> Server {
    Setup::new().cheap_hash().patient().start()
}

/// The body of a sign-up.
pub fn new_user(nickname: &str) -> Value {
    json!({"nickname": nickname, "password": PASSWORD, "region_name": "서울특별시"})
}

pub fn register(server: &Server, body: &Value) -> Answer {
    server.post("/v1/auth/user/register", None, body)
}

pub fn log_in(server: &Server, nickname: &str, password: &str) -> Answer {
    server.post("/v1/auth/user/login", None, &json!({"nickname": nickname, "password": password}))
}

/// What `GET /v1/users/me` answers to this token.
pub fn me(server: &Server, token: &str) -> Answer {
    server.get_with("/v1/users/me", &[("Authorization", &format!("Bearer {token}"))])
}

pub fn log_out(server: &Server, by: &Person) -> Answer {
    server.connect().request("POST", "/v1/auth/user/logout", &[("Authorization", &by.bearer())])
}

/// Asserts that a token is refused, as RFC 6750 says it.
pub fn is_refused(answer: &Answer) {
    answer.problem(401);
    assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
}

#[test]
fn somebody_registers_logs_in_and_is_known() {
    let server = start();
    let body =
        json!({"nickname": "마당_Mina", "password": PASSWORD, "region_name": "Jongno-gu, Seoul"});
    let created = register(&server, &body);
    assert_eq!(created.status, 201, "{}", created.text());
    let account = created.json();
    assert_eq!(account["nickname"], "마당_Mina");
    assert_eq!(account["regionName"], "서울특별시 종로구");
    assert_eq!(created.header("location"), Some("/v1/users/me"));

    let answer = log_in(&server, "마당_Mina", PASSWORD);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let session = answer.json();
    assert_eq!(session["nickname"], "마당_Mina");
    let expires = session["expiresAt"].as_str().unwrap();
    assert!(expires.ends_with('Z') && expires > "2026-", "{expires}");

    let answer = me(&server, session["token"].as_str().unwrap());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let known = answer.json();
    for field in ["id", "nickname", "regionName", "regionNameEn"] {
        assert_eq!(known[field], account[field], "{field}");
    }
    assert!(known["createdAt"].is_string());
    assert!(!answer.text().contains("hash"));
}

#[test]
fn without_a_token_there_is_nobody() {
    let server = start();
    for answer in [
        server.get("/v1/users/me"),
        server.get_with("/v1/users/me", &[("Authorization", "Basic bWluYTptaW5h")]),
        server.connect().request("POST", "/v1/auth/user/logout", &[]),
    ] {
        answer.problem(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
}

#[test]
fn a_name_is_taken_in_every_spelling() {
    let server = start();
    server.somebody("Mina");
    server.somebody("한글");
    for name in ["Mina", "mina", "MINA", "한글", "\u{1112}\u{1161}\u{11AB}\u{1100}\u{1173}\u{11AF}"]
    {
        let problem = register(&server, &new_user(name)).problem(409);
        assert_eq!(problem["type"], "urn:madang:problem:nickname-taken");
    }
    assert_eq!(log_in(&server, "mINA", PASSWORD).json()["nickname"], "Mina", "as registered");
    let decomposed = "\u{1112}\u{1161}\u{11AB}\u{1100}\u{1173}\u{11AF}";
    assert_eq!(log_in(&server, decomposed, PASSWORD).status, 200);
}

#[test]
fn a_password_is_the_same_however_its_hangul_was_composed() {
    let server = start();
    let body = json!({"nickname": "ab", "password": "비밀번호는길다", "region_name": "부산"});
    assert_eq!(register(&server, &body).status, 201);
    let decomposed = "\u{1107}\u{1175}\u{1106}\u{1175}\u{11AF}\u{1107}\u{1165}\u{11AB}\u{1112}\u{1169}\u{1102}\u{1173}\u{11AB}\u{1100}\u{1175}\u{11AF}\u{1103}\u{1161}";
    assert_eq!(log_in(&server, "ab", decomposed).status, 200);
    assert_eq!(log_in(&server, "ab", "비밀번호는길디").status, 401);
}

#[test]
fn of_many_who_take_one_name_at_once_exactly_one_gets_it() {
    let server = start();
    let barrier = Barrier::new(16);
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let sign_up = || {
            barrier.wait();
            register(&server, &new_user("the-one")).status
        };
        let all: Vec<_> = (0..16).map(|_| scope.spawn(sign_up)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses[0], 201);
    assert_eq!(statuses[1..], [409; 15]);
}

#[test]
fn a_sign_up_that_is_sent_again_with_its_key_makes_one_account() {
    let server = start();
    let send = |key: &str, body: &Value| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        server.connect().send_body("POST", "/v1/auth/user/register", &headers, body.to_string())
    };
    let first = send("k-1", &new_user("again"));
    assert_eq!(first.status, 201, "{}", first.text());
    let second = send("k-1", &new_user("again"));
    assert_eq!((second.status, second.json()), (201, first.json()));
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    send("k-2", &new_user("again")).problem(409);
    register(&server, &new_user("again")).problem(409);
    let mut elsewhere = new_user("again");
    elsewhere["region_name"] = json!("부산");
    assert_eq!(send("k-1", &elsewhere).status, 422, "the same key for another request");
    let mut guess = new_user("again");
    guess["password"] = json!("some-other-password");
    assert_eq!(send("k-1", &guess).status, 201, "a key is no way to try passwords");
    assert_eq!(log_in(&server, "again", "some-other-password").status, 401);
    assert_eq!(log_in(&server, "again", PASSWORD).status, 200);
}

#[test]
fn a_log_out_ends_this_token_and_no_other() {
    let server = start();
    let phone = server.somebody("mina");
    let tablet = server.log_in("mina");
    let answer = log_out(&server, &phone);
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    is_refused(&me(&server, &phone.token));
    is_refused(&log_out(&server, &phone));
    assert_eq!(me(&server, &tablet.token).json()["nickname"], *tablet.nickname);
    assert_eq!(server.metric("madang_accounts_revocations", &[]), 1.0);
}

#[test]
fn an_acknowledged_log_out_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Setup::new().data(dir.path()).cheap_hash().start();
    let (phone, tablet) = (server.somebody("mina"), server.log_in("mina"));
    assert_eq!(log_out(&server, &phone).status, 204);
    server.signal(Signal::KILL);
    server.wait();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    is_refused(&me(&server, &phone.token));
    assert_eq!(me(&server, &tablet.token).status, 200, "the key is the same");
}

#[test]
fn who_logs_out_a_hundred_times_is_remembered_in_little_room() {
    let server = start();
    let mut gone = vec![server.somebody("mina")];
    assert_eq!(log_out(&server, &gone[0]).status, 204);
    for _ in 1..100 {
        let session = server.post(
            "/v1/auth/user/login",
            None,
            &json!({"nickname": "mina", "password": PASSWORD}),
        );
        let token = session.json()["token"].as_str().unwrap().to_owned();
        let person = Person { nickname: "mina".to_owned(), token };
        // Refused when its second of issue was cut off already; it is then as good as logged out.
        let status = log_out(&server, &person).status;
        assert!(matches!(status, 204 | 401), "{status}");
        gone.push(person);
    }
    assert!(server.metric("madang_accounts_revocations", &[]) <= 65.0);
    for person in &gone {
        is_refused(&me(&server, &person.token));
    }
}

#[test]
fn revocations_go_a_day_after_their_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let (phone, tablet) = (server.somebody("mina"), server.log_in("mina"));
    assert_eq!(log_out(&server, &phone).status, 204);
    server.stop();
    database::execute(
        dir.path(),
        "UPDATE revoked_tokens SET expires_at = expires_at - 2 * 86400 - 60",
    );
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    assert_eq!(server.metric("madang_accounts_revocations", &[]), 1.0);
    assert_eq!(log_out(&server, &tablet).status, 204);
    assert_eq!(server.metric("madang_accounts_revocations", &[]), 1.0, "one went, one came");
    assert_eq!(database::number(dir.path(), "SELECT count(*) FROM revoked_tokens"), Some(1));
}

#[test]
fn a_token_of_an_account_that_is_gone_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let mina = server.somebody("mina");
    server.stop();
    database::execute(dir.path(), "DELETE FROM users");
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    is_refused(&me(&server, &mina.token));
    let other = server.somebody("mina");
    assert_ne!(me(&server, &other.token).json()["id"], 1, "an id is never given again");
    is_refused(&me(&server, &mina.token));
}

#[test]
fn an_old_weak_hash_is_renewed_at_the_next_log_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    server.somebody("mina");
    server.stop();
    let hash = |prefix: &str| {
        let sql = format!("SELECT count(*) FROM users WHERE password_hash LIKE '{prefix}%'");
        database::number(dir.path(), &sql)
    };
    assert_eq!(hash("$2b$04$"), Some(1));
    let server = Setup::new().data(dir.path()).start();
    assert_eq!(log_in(&server, "mina", "wrong-horse-battery").status, 401);
    assert_eq!(hash("$2b$04$"), Some(1), "nobody's guess renews anything");
    assert_eq!(log_in(&server, "mina", PASSWORD).status, 200);
    eventually("the hash is renewed", || {
        (hash("$argon2id$v=19$m=19456,t=2,p=1$") == Some(1)).then_some(())
    });
    assert_eq!(log_in(&server, "mina", PASSWORD).status, 200);
}
