//! Log-in under attack: who is let through to the hash, who is refused, and what helps.

use super::accounts::{log_in, new_user, register, start};
use crate::harness::{Answer, PASSWORD, Server, Setup};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::Barrier;

const LOGIN: &str = "/v1/auth/user/login";
const WRONG: &str = "wrong-horse-battery";

/// Runs `one` so many times at once, each on a thread of its own.
pub fn at_once<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let run = |i| {
            barrier.wait();
            one(i)
        };
        let all: Vec<_> = (0..count).map(|i| scope.spawn(move || run(i))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

pub fn hashed(server: &Server) -> f64 {
    server.metric("madang_hash_done_total", &[])
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

/// A log-in with further fields and headers.
pub fn attempt(
    server: &Server,
    nickname: &str,
    password: &str,
    more: &Value,
    headers: &[(&str, &str)],
) -> Answer {
    let mut body = json!({"nickname": nickname, "password": password});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let headers: Vec<_> =
        headers.iter().copied().chain([("Content-Type", "application/json")]).collect();
    server.connect().send_body("POST", LOGIN, &headers, body.to_string())
}

/// What an ALTCHA widget would put into its field.
pub fn solved(challenge: &Value) -> String {
    let text = |name: &str| challenge[name].as_str().unwrap();
    assert_eq!(text("algorithm"), "SHA-256");
    let most = challenge["maxnumber"].as_u64().unwrap();
    let found = (0..=most).find(|number| {
        let digest = Sha256::digest(format!("{}{number}", text("salt")));
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        hex == text("challenge")
    });
    let solution = json!({
        "algorithm": text("algorithm"), "challenge": text("challenge"), "salt": text("salt"),
        "signature": text("signature"), "number": found.expect("there is a solution"), "took": 12,
    });
    BASE64.encode(solution.to_string())
}

#[test]
fn of_two_hundred_parallel_guesses_exactly_the_allowed_number_reach_the_hash() {
    let server = start();
    server.somebody("mina");
    let before = hashed(&server);
    let answers = at_once(200, |_| log_in(&server, "mina", WRONG));
    assert_eq!(hashed(&server) - before, 10.0);
    assert_eq!((count(&answers, 401), count(&answers, 429)), (10, 190));
    for answer in answers.iter().filter(|answer| answer.status == 429) {
        answer.problem(429);
    }
    assert_eq!(server.metric("madang_guard_failures_total", &[]), 10.0);
    log_in(&server, "mina", PASSWORD).problem(429);
    server.is_well();
}

#[test]
fn guesses_at_a_name_that_nobody_has_are_limited_alike() {
    let server = start();
    let answers = at_once(60, |_| log_in(&server, "nobody", WRONG));
    assert_eq!((count(&answers, 401), count(&answers, 429)), (10, 50));
    assert_eq!(hashed(&server), 10.0);
}

#[test]
fn fifty_parallel_right_log_ins_of_one_account_all_succeed() {
    let server = start();
    server.somebody("mina");
    let answers = at_once(50, |_| log_in(&server, "mina", PASSWORD));
    assert_eq!(count(&answers, 200), 50, "{answers:?}");
}

#[test]
fn forty_nine_neighbours_of_an_attacker_all_get_in() {
    let server = start();
    let neighbours: Vec<String> = (0..49).map(|i| format!("neighbour-{i}")).collect();
    for nickname in &neighbours {
        assert_eq!(register(&server, &new_user(nickname)).status, 201);
    }
    server.somebody("victim");
    let before = hashed(&server);
    let (guesses, log_ins) = std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            at_once(8, |_| (0..25).map(|_| log_in(&server, "victim", WRONG)).collect::<Vec<_>>())
        });
        let log_ins = at_once(49, |i| log_in(&server, &neighbours[i], PASSWORD));
        (attacker.join().unwrap().concat(), log_ins)
    });
    assert_eq!(count(&log_ins, 200), 49, "{log_ins:?}");
    assert_eq!((count(&guesses, 401), count(&guesses, 429)), (10, 190));
    assert_eq!(hashed(&server) - before, 59.0);
}

#[test]
fn invented_forwarding_headers_change_nothing() {
    let server = start();
    server.somebody("mina");
    let before = hashed(&server);
    let statuses: Vec<u16> = (0..40)
        .map(|i| {
            let invented = format!("10.1.2.{i}");
            let names =
                ["X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "Client-IP"];
            let headers = names.map(|name| (name, invented.as_str()));
            attempt(&server, "mina", WRONG, &json!({}), &headers).status
        })
        .collect();
    assert_eq!(hashed(&server) - before, 10.0, "{statuses:?}");
    assert!(statuses[..10].iter().all(|status| *status == 401));
    assert!(statuses[10..].iter().all(|status| *status == 429));
}

#[test]
fn behind_a_trusted_proxy_each_client_has_a_limit_of_its_own() {
    let server = Setup::new().cheap_hash().set("server.trusted_proxies", "127.0.0.1").start();
    server.somebody("mina");
    let from = |address: &str, password: &str| {
        attempt(&server, "mina", password, &json!({}), &[("X-Forwarded-For", address)]).status
    };
    for _ in 0..10 {
        assert_eq!(from("203.0.113.7", WRONG), 401);
    }
    assert_eq!(from("203.0.113.7", PASSWORD), 429);
    assert_eq!(from("198.51.100.1, 203.0.113.7", PASSWORD), 429, "the left one is invented");
    assert_eq!(from("203.0.113.8", PASSWORD), 200);
    let six = |last: u32| format!("2001:db8:1:2::{last:x}");
    for i in 0..10 {
        assert_eq!(from(&six(i), WRONG), 401);
    }
    assert_eq!(from(&six(99), WRONG), 429, "a /64 is one client");
}

#[test]
fn a_success_forgets_the_failures_before_it() {
    let server = start();
    server.somebody("mina");
    for _ in 0..2 {
        for _ in 0..9 {
            assert_eq!(log_in(&server, "mina", WRONG).status, 401);
        }
        assert_eq!(log_in(&server, "mina", PASSWORD).status, 200);
    }
}

#[test]
fn a_challenge_that_is_solved_lets_an_attempt_through_once() {
    let server = Setup::new()
        .cheap_hash()
        .set("guard.address", "5/10min")
        .set("guard.device_marks", "off")
        .set("guard.proof_work", "500")
        .start();
    server.somebody("mina");
    for i in 0..5 {
        assert_eq!(log_in(&server, &format!("target-{i}"), WRONG).status, 401);
    }
    let refused = log_in(&server, "mina", PASSWORD);
    let problem = refused.problem(429);
    assert_eq!(problem["type"], "urn:madang:problem:challenge-required");
    let solution = solved(&problem["challenge"]);
    let with = |nickname: &str, altcha: &str| {
        attempt(&server, nickname, PASSWORD, &json!({"altcha": altcha}), &[])
    };
    for wrong in ["", "x", "!!", &solution[1..], &BASE64.encode("{}"), &"A".repeat(4000)] {
        with("mina", wrong).problem(429);
    }
    with("other", &solution).problem(429);
    let answer = with("mina", &solution);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let again = with("mina", &solution).problem(429);
    assert!(again["challenge"].is_object(), "a new one: {again}");
    assert_eq!(server.metric("madang_guard_proofs_total", &["result=\"accepted\""]), 1.0);
}

#[test]
fn a_device_that_logged_in_before_is_let_through_while_its_account_is_attacked() {
    let server =
        Setup::new().cheap_hash().set("guard.address", "5/10min").set("guard.proof", "off").start();
    register(&server, &new_user("mina"));
    register(&server, &new_user("other"));
    let answer = log_in(&server, "mina", PASSWORD);
    let cookie = answer.header("set-cookie").expect("a device token").to_owned();
    for part in ["madang_device=", "Path=/v1/auth", "Max-Age=", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "nobody said https: {cookie}");
    let mark = cookie.split(';').next().unwrap();
    for i in 0..6 {
        log_in(&server, &format!("target-{i}"), WRONG);
    }
    let with = |nickname: &str, cookie: &str| {
        attempt(&server, nickname, PASSWORD, &json!({}), &[("Cookie", cookie)]).status
    };
    assert_eq!(log_in(&server, "mina", PASSWORD).status, 429);
    assert_eq!(with("mina", "madang_device=x"), 429);
    assert_eq!(with("other", mark), 429, "a mark is good for one account");
    assert_eq!(with("mina", &format!("a=b; {mark}; c=d")), 200);
}

#[test]
fn the_device_cookie_is_secure_when_a_trusted_proxy_says_https() {
    let cookie = |trusted: &str| {
        let server = Setup::new().cheap_hash().set("server.trusted_proxies", trusted).start();
        register(&server, &new_user("mina"));
        let https = [("X-Forwarded-Proto", "https"), ("X-Forwarded-For", "203.0.113.7")];
        let answer = attempt(&server, "mina", PASSWORD, &json!({}), &https);
        answer.header("set-cookie").unwrap().to_owned()
    };
    assert!(cookie("127.0.0.1").contains("; Secure"));
    assert!(!cookie("10.0.0.0/8").contains("; Secure"), "a client's own word");
}

#[test]
fn one_password_tried_at_many_accounts_from_many_addresses_is_stopped() {
    let server = Setup::new().cheap_hash().set("server.trusted_proxies", "127.0.0.1").start();
    let answers: Vec<u16> = (0..200)
        .map(|i| {
            let address = format!("203.0.{}.{}", 113 + i / 100, 1 + i % 100);
            let headers = [("X-Forwarded-For", address.as_str())];
            attempt(&server, &format!("user-{i}"), "Spring2026!", &json!({}), &headers).status
        })
        .collect();
    let reached = answers.iter().filter(|status| **status == 401).count();
    assert_eq!(hashed(&server), reached as f64);
    assert!(reached <= 21, "{reached} of 200 reached the hash");
    let headers = [("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(attempt(&server, "user-1", WRONG, &json!({}), &headers).status, 401);
}

#[test]
fn sign_up_is_limited_by_address() {
    let server = Setup::new().cheap_hash().set("guard.sign_up", "5/1h").start();
    for i in 0..5 {
        assert_eq!(register(&server, &new_user(&format!("user{i}"))).status, 201);
    }
    let before = hashed(&server);
    let problem = register(&server, &new_user("one-more")).problem(429);
    assert_eq!(problem["type"], "urn:madang:problem:too-many-sign-ups");
    assert_eq!(hashed(&server), before);
    assert_eq!(log_in(&server, "user1", PASSWORD).status, 200, "log-in is another matter");
}

#[test]
fn exempt_addresses_are_neither_limited_nor_counted() {
    let server = Setup::new().cheap_hash().set("guard.exempt", "127.0.0.0/8, ::1").start();
    server.somebody("mina");
    // One after another: of fifty at once, a busy machine's pool of hashing threads refuses some.
    let statuses: Vec<u16> = (0..50).map(|_| log_in(&server, "mina", WRONG).status).collect();
    assert_eq!(statuses, [401; 50]);
}

#[test]
fn the_documented_ways_of_limiting_can_be_chosen() {
    let off = Setup::new().cheap_hash().set("accounts.guard", "off").start();
    assert!((0..40).all(|_| log_in(&off, "nobody", WRONG).status == 401));
    let ip = Setup::new()
        .cheap_hash()
        .set("accounts.guard", "ip")
        .set("guard.ip", "20/60s")
        .set("guard.ip_block", "180s")
        .start();
    let statuses: Vec<u16> = (0..25).map(|_| log_in(&ip, "nobody", WRONG).status).collect();
    assert_eq!(statuses, [vec![401; 20], vec![429; 5]].concat());
    ip.somebody_registered("mina");
    let problem = log_in(&ip, "mina", PASSWORD);
    problem.problem(429);
    let wait: u32 = problem.header("retry-after").unwrap().parse().unwrap();
    // 180 s and some jitter.
    assert!((150..=240).contains(&wait), "everybody behind the address is locked out: {wait}");
}

impl Server {
    /// Somebody who has registered and not logged in.
    fn somebody_registered(&self, nickname: &str) {
        let answer = register(self, &new_user(nickname));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}
