//! Log-in under suspicion, each way through it alone, and what is not counted.

use super::accounts::{log_in, new_user, register, start};
use super::accounts_guard::{at_once, attempt, hashed, solved};
use crate::harness::{Answer, PASSWORD, Server, Setup, eventually};
use serde_json::json;

const WRONG: &str = "wrong-horse-battery";

/// Five failures make an address suspicious; proofs are quick to solve.
fn strict() -> Setup {
    let setup = Setup::new().cheap_hash().patient();
    setup.set("guard.address", "5/10min").set("guard.proof_work", "200")
}

/// Makes the address of the tests suspicious.
fn attack(server: &Server) {
    for i in 0..5 {
        assert_eq!(log_in(server, &format!("target-{i}"), WRONG).status, 401);
    }
}

#[test]
fn neighbours_of_a_suspicious_address_all_get_in_by_a_proof() {
    let server = strict().start();
    let neighbours: Vec<String> = (0..49).map(|i| format!("neighbour-{i}")).collect();
    for nickname in &neighbours {
        assert_eq!(register(&server, &new_user(nickname)).status, 201);
    }
    attack(&server);
    let statuses = at_once(49, |i| {
        let refused = log_in(&server, &neighbours[i], PASSWORD).problem(429);
        let proof = json!({"altcha": solved(&refused["challenge"])});
        attempt(&server, &neighbours[i], PASSWORD, &proof, &[]).status
    });
    assert_eq!(statuses, [200; 49]);
}

#[test]
fn an_attacked_account_is_open_to_one_attempt_at_a_time_without_a_proof() {
    // One failure is over the limit; the delay after it is a second.
    let server = Setup::new().cheap_hash().set("guard.account", "1/1h").start();
    let mut names = (0..).map(|i| format!("mina-{i}"));
    // On a busy machine the second may be over before the second request.
    let (name, refused) = eventually("a refusal within the delay", || {
        let name = names.next().unwrap();
        register(&server, &new_user(&name));
        assert_eq!(log_in(&server, &name, WRONG).status, 401);
        let answer = log_in(&server, &name, PASSWORD);
        (answer.status != 200).then_some((name, answer))
    });
    assert!(refused.problem(429)["challenge"].is_object());
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&wait), "the growing delay, not the end of suspicion: {wait}");
    eventually("the delay is over", || {
        (log_in(&server, &name, PASSWORD).status == 200).then_some(())
    });
}

#[test]
fn without_proofs_a_suspicious_address_is_refused_without_a_challenge() {
    let server = strict().set("guard.proof", "off").start();
    server.somebody("mina");
    attack(&server);
    let refused = log_in(&server, "mina", PASSWORD).problem(429);
    assert!(refused.get("challenge").is_none(), "{refused}");
    assert_eq!(refused["type"], "urn:madang:problem:too-many-attempts");
}

/// The mark among what this answer sets, as a request shows it.
fn mark(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn without_device_marks_no_cookie_is_given_and_none_helps() {
    let dir = tempfile::tempdir().unwrap();
    let marked = strict().data(dir.path()).start();
    register(&marked, &new_user("mina"));
    let cookie = mark(&log_in(&marked, "mina", PASSWORD));
    marked.stop();
    let server = strict().data(dir.path()).set("guard.device_marks", "off").start();
    assert!(log_in(&server, "mina", PASSWORD).header("set-cookie").is_none());
    attack(&server);
    let shown = [("Cookie", cookie.as_str())];
    attempt(&server, "mina", PASSWORD, &json!({}), &shown).problem(429);
    server.stop();
    let server = strict().data(dir.path()).start();
    attack(&server);
    assert_eq!(attempt(&server, "mina", PASSWORD, &json!({}), &shown).status, 200);
}

#[test]
fn device_marks_end_with_the_password() {
    let server = strict().start();
    let mina = server.somebody("mina");
    let old = mark(&log_in(&server, "mina", PASSWORD));
    let new_password = "battery staple 2";
    let change = json!({"password": PASSWORD, "newPassword": new_password});
    let changed = server.post("/v1/auth/user/password", Some(&mina), &change);
    let new = mark(&changed);
    attack(&server);
    let log_in_by =
        |mark: &str| attempt(&server, "mina", new_password, &json!({}), &[("Cookie", mark)]).status;
    assert_eq!(log_in_by(&old), 429);
    assert_eq!(log_in_by(&new), 200);
}

#[test]
fn unwatched_a_password_may_fail_at_any_number_of_accounts() {
    let server = Setup::new().cheap_hash().set("guard.passwords", "off").start();
    for i in 0..40 {
        assert_eq!(log_in(&server, &format!("user-{i}"), WRONG).status, 401);
    }
}

#[test]
fn a_sign_up_whose_key_belongs_to_another_request_does_not_count() {
    let server = Setup::new().cheap_hash().set("guard.sign_up", "2/1h").start();
    let send = |body: &serde_json::Value| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k-1")];
        let path = "/v1/auth/user/register";
        server.connect().send_body("POST", path, &headers, body.to_string()).status
    };
    assert_eq!(send(&new_user("again")), 201);
    let mut elsewhere = new_user("again");
    elsewhere["region_name"] = json!("부산");
    for _ in 0..5 {
        assert_eq!(send(&elsewhere), 422);
    }
    assert_eq!(register(&server, &new_user("other")).status, 201);
    assert_eq!(register(&server, &new_user("one-more")).status, 429);
}

#[test]
fn a_password_of_any_length_is_compared_at_one_price() {
    let server = start();
    server.somebody("mina");
    let before = hashed(&server);
    for length in [1_025, 3_072, 3_075, 60_000] {
        assert_eq!(log_in(&server, "mina", &"x".repeat(length)).status, 401, "{length} bytes");
    }
    assert_eq!(hashed(&server) - before, 4.0);
}

#[test]
fn refusals_leave_no_secret_in_the_log() {
    let server = strict().set("log.level", "trace").start();
    register(&server, &new_user("mina"));
    attack(&server);
    let refused = log_in(&server, "mina", PASSWORD).problem(429);
    let proof = solved(&refused["challenge"]);
    let other = json!({"altcha": proof});
    attempt(&server, "other", PASSWORD, &other, &[]).problem(429);
    let mark = [("Cookie", "madang_device=1.not-a-mark-of-anybody")];
    attempt(&server, "mina", PASSWORD, &json!({}), &mark).problem(429);
    let answer = attempt(&server, "mina", PASSWORD, &other, &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let given = answer.header("set-cookie").unwrap().split([';', '=']).nth(1).unwrap().to_owned();
    let log = server.log();
    for secret in [PASSWORD, WRONG, "not-a-mark-of-anybody", &proof, &given, "target-1"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    assert!(log.contains("/v1/auth/user/login"), "it was not talkative: {log}");
}
