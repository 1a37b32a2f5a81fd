//! What hashing costs, whom it costs, and what it gives away.

use super::accounts::{log_in, me, new_user, register};
use super::accounts_guard::solved;
use super::answers::memory;
use crate::harness::{Madang, PASSWORD, Server, Setup, database, eventually, stores};
use serde_json::{Value, json};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Median of a list, which must not be empty.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn an_unknown_name_and_a_wrong_password_are_one_answer_at_one_price() {
    // A hash of a few milliseconds: long beside everything else, and 400 of them take seconds.
    let server = Setup::new()
        .set("unsafe_experiments", "true")
        .set("accounts.hash", "bcrypt:6")
        .set("accounts.guard", "off")
        .start();
    server.somebody("mina");
    let mut connection = server.connect();
    let mut attempt = |nickname: &str| {
        let body = json!({"nickname": nickname, "password": "wrong-horse-battery"}).to_string();
        let headers = [("Content-Type", "application/json"), ("X-Request-Id", "same")];
        let begun = Instant::now();
        let mut answer = connection.send_body("POST", "/v1/auth/user/login", &headers, body);
        let took = begun.elapsed().as_secs_f64();
        answer.headers.retain(|(name, _)| name != "date");
        (answer, took)
    };
    let before = server.metric("madang_hash_done_total", &[]);
    let (mut differences, mut known) = (Vec::new(), Vec::new());
    for i in 0..200 {
        // In either order by turns, so that whatever favours the second favours both alike.
        let names = if i % 2 == 0 { ["mina", "nobody"] } else { ["nobody", "mina"] };
        let [first, second] = names.map(&mut attempt);
        let (mina, nobody) = if i % 2 == 0 { (first, second) } else { (second, first) };
        assert_eq!(mina.0, nobody.0, "status, headers and body");
        assert_eq!(mina.0.status, 401);
        differences.push(mina.1 - nobody.1);
        known.push(mina.1);
    }
    assert_eq!(server.metric("madang_hash_done_total", &[]) - before, 400.0);
    // Without the hash for nobody the difference is nine tenths of the time; with it, none. A median of
    // 200 differences is not moved by what else the machine does.
    let (difference, time) = (median(differences), median(known));
    assert!(
        difference.abs() < time / 2.0,
        "a known name takes {:.3} ms longer, of {:.3} ms",
        difference * 1e3,
        time * 1e3
    );
}

#[test]
fn a_hostile_stored_hash_is_refused_without_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    server.somebody("mina");
    server.stop();
    let salt_and_output = "c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b4dWRWJTmaasYBXIlFSDLQsqVk";
    for hostile in [
        format!("$argon2id$v=19$m=4194304,t=3,p=1${salt_and_output}"),
        format!("$argon2id$v=19$m=19456,t=4294967295,p=1${salt_and_output}"),
        format!("$argon2id$v=19$m=65536,t=1,p=16777215${salt_and_output}"),
        format!("$argon2i$v=19$m=19456,t=2,p=1${salt_and_output}"),
        "$2b$31$abcdefghijklmnopqrstuvabcdefghijklmnopqrstuvabcdefghijk".to_owned(),
        "$1$abc$def".to_owned(),
        PASSWORD.to_owned(),
        String::new(),
        "x".repeat(1 << 20),
    ] {
        database::execute(dir.path(), &format!("UPDATE users SET password_hash = '{hostile}'"));
        let server = Setup::new().data(dir.path()).cheap_hash().start();
        let before = server.metric("process_resident_memory_bytes", &[]);
        for password in [PASSWORD, "wrong-horse-battery"] {
            let problem = log_in(&server, "mina", password).problem(401);
            assert_eq!(problem["detail"], "unknown nickname or wrong password");
        }
        let grown = server.metric("process_resident_memory_bytes", &[]) - before;
        assert!(grown < 64e6, "{grown} bytes");
        let line = server.until_logged("rejected a stored password hash");
        assert!(hostile.is_empty() || !line.contains(&hostile), "{line}");
        server.is_well();
        server.stop();
    }
}

/// Everybody signs up at once; answers how many were accepted and how many refused.
fn rush(server: &Server, people: usize) -> (usize, usize) {
    let barrier = Barrier::new(people);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let sign_up = |i: usize| {
            barrier.wait();
            let answer = register(server, &new_user(&format!("user-{i}")));
            if answer.status != 201 {
                answer.problem(503);
            }
            answer.status
        };
        let all: Vec<_> = (0..people).map(|i| scope.spawn(move || sign_up(i))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let accepted = statuses.iter().filter(|status| **status == 201).count();
    (accepted, statuses.len() - accepted)
}

#[test]
fn what_the_pool_cannot_take_is_refused_at_once_while_cached_reads_go_on() {
    let dir = stores::bundled();
    let server = Setup::new()
        .data(dir.path())
        .set("accounts.hash", "bcrypt:10")
        .set("accounts.hash_threads", "1")
        .set("accounts.hash_queue", "2")
        // The thread gives way to all others: what it took must get its answer on a busy machine, too.
        .set("server.request_timeout", "60s")
        .start();
    assert_eq!(server.get("/v1/tracks/1").status, 200);
    let ((accepted, refused), reads) = std::thread::scope(|scope| {
        let rushing = scope.spawn(|| rush(&server, 24));
        let mut connection = server.connect();
        let mut reads = 0;
        while !rushing.is_finished() {
            assert_eq!(connection.get("/v1/tracks/1").status, 200);
            reads += 1;
        }
        (rushing.join().unwrap(), reads)
    });
    assert!(accepted >= 1 && refused >= 1, "{accepted} accepted, {refused} refused");
    // At once, or after the longest wait where the machine is too busy even for what was taken.
    let [at_once, late] = ["madang_hash_refused_total", "madang_hash_expired_total"]
        .map(|name| server.metric(name, &[]));
    assert_eq!(at_once + late, refused as f64);
    assert!(at_once >= 1.0);
    assert_eq!(server.metric("madang_hash_done_total", &[]), accepted as f64);
    assert!(reads > 0);
    // Who was refused was not counted, and comes in later.
    assert_eq!(register(&server, &new_user("later")).status, 201);
    server.is_well();
}

#[test]
fn who_finds_the_queue_half_full_is_asked_for_a_proof() {
    // Seven people, of whom four fill half of the queue; even if all of them found it empty, there is a place left.
    let server = Setup::new()
        .set("accounts.hash", "bcrypt:13")
        .set("accounts.hash_threads", "1")
        .set("accounts.hash_queue", "8")
        // Not a bound here: what a busy machine is expected to take longer for would be refused at once.
        .set("accounts.hash_wait", "10min")
        .set("guard.proof_work", "1000")
        .set("server.request_timeout", "10min")
        .start();
    server.somebody("mina");
    std::thread::scope(|scope| {
        for i in 0..7 {
            let (server, name) = (&server, format!("user-{i}"));
            // Who is asked for a proof comes again: the queue stays half full for as long as some are left.
            scope.spawn(move || {
                eventually("there is room", || {
                    (log_in(server, &name, "wrong-horse-battery").status == 401).then_some(())
                });
            });
        }
        eventually("half of the queue is full", || {
            (server.metric("madang_hash_queue", &[]) >= 4.0).then_some(())
        });
        let asked = log_in(&server, "mina", PASSWORD).problem(429);
        let altcha = solved(&asked["challenge"]);
        let body = json!({"nickname": "mina", "password": PASSWORD, "altcha": altcha});
        assert_eq!(server.post("/v1/auth/user/login", None, &body).status, 200);
    });
    assert!(server.metric("madang_guard_challenged_total", &["reason=\"load\""]) >= 1.0);
    assert!(server.metric("madang_guard_proofs_total", &["result=\"accepted\""]) == 1.0);
    // The rush is over: nothing of it is held against this address.
    assert_eq!(log_in(&server, "mina", PASSWORD).status, 200);
}

#[test]
fn without_a_bound_everybody_is_hashed() {
    let server = Setup::new().cheap_hash().set("accounts.hash_pool", "unbounded").start();
    assert_eq!(rush(&server, 24), (24, 0));
    assert_eq!(log_in(&server, "user-1", PASSWORD).status, 200);
    assert_eq!(log_in(&server, "user-1", "wrong-horse-battery").status, 401);
    assert_eq!(server.metric("madang_hash_done_total", &[]), 26.0);
}

#[test]
fn unsafe_settings_stop_the_start_unless_they_are_wanted() {
    for (key, value) in [
        ("accounts.hash", "bcrypt:4"),
        ("accounts.hash", "bcrypt:9"),
        ("accounts.hash", "argon2id:m=1024,t=1,p=1"),
        ("accounts.hash_pool", "unbounded"),
    ] {
        let pair = format!("{key}={value}");
        Madang::new(["serve", "--set", &pair])
            .fails_with(2)
            .complains(&[key, value, "unsafe", "unsafe_experiments = true", "--set"]);
        Madang::new(["config", "--set", &pair, "--set", "unsafe_experiments=true"]).succeeds();
    }
    for (key, value) in [
        ("accounts.hash", "md5"),
        ("accounts.hash", "bcrypt:3"),
        ("accounts.hash", "bcrypt:15"),
        ("accounts.hash", "argon2id:m=4194304,t=2,p=1"),
        ("accounts.hash_threads", "0"),
        ("accounts.token_ttl", "0"),
        ("accounts.token_ttl", "500d"),
        ("accounts.guard", "maybe"),
        ("guard.pair", "10"),
        ("guard.pair", "0/15min"),
        ("guard.address_accounts", "257"),
        ("guard.exempt", "localhost"),
        ("guard.exempt", "10.0.0.0/33"),
    ] {
        Madang::new(["serve", "--set", &format!("{key}={value}")])
            .fails_with(2)
            .complains(&[key, value, "accepted"]);
    }
}

#[test]
fn the_log_holds_no_secret_even_at_its_most_talkative() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().set("log.level", "trace").start();
    let mina = server.somebody("mina");
    let answer = log_in(&server, "mina", PASSWORD);
    let cookie = answer.header("set-cookie").unwrap().split([';', '=']).nth(1).unwrap().to_owned();
    let wrong = "wrong-horse-battery";
    assert_eq!(log_in(&server, "mina", wrong).status, 401);
    assert_eq!(me(&server, &mina.token).status, 200);
    assert_eq!(me(&server, &format!("{}x", mina.token)).status, 401);
    let odd = "odd-secret-7";
    let bodies: [Value; 3] = [
        json!({"nickname": "ab", "password": {"nested": odd}, "region_name": "Seoul"}),
        json!({"nickname": "ab", "password": format!("{odd}\n"), "region_name": "nowhere"}),
        json!([odd]),
    ];
    for body in &bodies {
        assert_eq!(register(&server, body).status, 422);
        assert_eq!(server.post("/v1/auth/user/login", None, body).status, 422);
    }
    let broken = format!("{{\"password\":\"{odd}\"");
    let kind = [("Content-Type", "application/json")];
    server.connect().send_body("POST", "/v1/auth/user/login", &kind, broken).problem(400);
    super::accounts::log_out(&server, &mina);
    server.until_logged("/v1/auth/user/logout");
    let log = server.log();
    let key = std::fs::read_to_string(dir.path().join("token.key")).unwrap();
    let signature = mina.token.rsplit('.').next().unwrap();
    let payload = mina.token.split('.').nth(1).unwrap();
    for secret in [PASSWORD, wrong, odd, &cookie, key.trim(), signature, payload, "$2b$"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "it was not talkative: {log}");
}

#[test]
fn the_figures_of_hashing_and_guard_are_there() {
    let server = Setup::new().cheap_hash().start();
    server.somebody("mina");
    log_in(&server, "mina", "wrong-horse-battery");
    let page = server.metrics_page();
    for name in [
        "madang_hash_done_total",
        "madang_hash_refused_total",
        "madang_hash_queue",
        "madang_hash_running",
        "madang_hash_seconds_total",
        "madang_hash_memory_bytes",
        "madang_guard_allowed_total",
        "madang_guard_refused_total{reason=\"pair\"}",
        "madang_guard_challenged_total{reason=\"address\"}",
        "madang_guard_proofs_total{result=\"accepted\"}",
        "madang_guard_device_marks_total{result=\"rejected\"}",
        "madang_guard_failures_total",
        "madang_guard_entries",
        "madang_accounts_revocations",
    ] {
        assert!(
            page.lines().any(|line| line.starts_with(&format!("{name} "))),
            "no {name}\n{page}"
        );
    }
    assert!(server.metric("madang_hash_seconds_total", &[]) > 0.0);
    assert!(
        Duration::from_secs_f64(server.metric("madang_hash_seconds_total", &[]))
            < Duration::from_secs(60)
    );
}

#[test]
fn the_memory_of_hashes_goes_back_to_the_system_when_nobody_logs_in() {
    // MiB that one hash takes, and the resident ones that the program allocated.
    const HASH: f64 = 128.0;
    let server = Setup::new()
        .set("accounts.hash", &format!("argon2id:m={},t=1,p=1", HASH * 1024.0))
        .patient()
        .start();
    let resident = || memory(&server, "RssAnon") as f64 / 1_048_576.0;
    let before = resident();
    assert!(before < HASH, "nothing is hashed at the start: {before}");
    // On one thread at least; an unknown name costs what a known one does.
    assert_eq!(log_in(&server, "nobody", PASSWORD).status, 401);
    assert!(resident() > before + HASH * 0.9, "{before} MiB before, {} after", resident());
    eventually("the memory went back", || (resident() < before + HASH * 0.5).then_some(()));
}
