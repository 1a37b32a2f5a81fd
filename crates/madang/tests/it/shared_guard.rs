//! Attempts that all nodes count together, in a server of their own.

use crate::accounts::{log_in, new_user, register};
use crate::accounts_guard::{at_once, attempt, hashed, solved};
use crate::beside::Beside;
use crate::harness::database::supervisor;
use crate::harness::{PASSWORD, Server, Setup, eventually};
use madang_guard::clock::ManualClock;
use madang_guard::config::{AccountLimit, AddressLimit, FailureLimit, PasswordWatch, Suspicion};
use madang_guard::limit::{
    AttemptOutcome, AttemptStore, Decision, Id, MemoryStore, Request, StoreError, Subject,
    ValkeyStore,
};
use madang_guard::{GuardConfig, Key};
use madang_stack::redis::Redis;
use madang_valkey::Url;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

const WRONG: &str = "wrong-horse-battery";

fn nodes(shared: &Beside, setup: impl Fn(Setup) -> Setup) -> [Server; 2] {
    let node = || {
        let counted = shared.cluster.setup().cheap_hash().set("guard.url", &shared.redis.url());
        setup(counted.set("accounts.hash_wait", "9s").set("guard.wait", "9s")).start()
    };
    [node(), node()]
}

fn is_away(node: &Server) -> bool {
    node.metric("madang_guard_store_away", &[]) > 0.5
}

fn unanswered(nodes: &[Server; 2]) -> f64 {
    nodes.iter().map(|node| node.metric("madang_guard_store_errors_total", &[])).sum()
}

/// How many of so many parallel guesses at a new account were compared, while the counter answered each in time. A
/// node counts by itself what the counter answers too late, which a busy machine can bring about.
pub fn compared(nodes: &[Server; 2], guesses: usize) -> usize {
    for round in 0..10 {
        let name = format!("mina{round}");
        assert_eq!(register(&nodes[0], &new_user(&name)).status, 201);
        let before = (unanswered(nodes), nodes.iter().map(hashed).sum::<f64>());
        let statuses = at_once(guesses, |i| log_in(&nodes[i % 2], &name, WRONG).status);
        assert!(statuses.iter().all(|&status| matches!(status, 401 | 429)), "{statuses:?}");
        let compared = statuses.iter().filter(|&&status| status == 401).count();
        let hashes = nodes.iter().map(hashed).sum::<f64>() - before.1;
        assert!((hashes - compared as f64).abs() < 0.5, "{hashes} hashes, {compared} compared");
        let late = unanswered(nodes) - before.0;
        assert!(compared as f64 <= 10.0 + late, "{compared} compared, {late} not answered in time");
        if late < 0.5 {
            return compared;
        }
    }
    panic!("the counter was late in ten rounds: {}", nodes[0].log());
}

#[test]
fn two_hundred_parallel_guesses_over_two_nodes_are_hashed_as_often_as_allowed() {
    let shared = Beside::new();
    let nodes = nodes(&shared, |setup| setup);
    assert_eq!(compared(&nodes, 200), 10);
    assert!(nodes.iter().all(|node| !is_away(node)));
}

/// Checks something with names of its own, again while the counter answered some of it too late: that is counted by one
/// node alone, and holds its place until its lease ends.
fn in_time(nodes: &[Server; 2], check: impl Fn(usize)) {
    for round in 0..10 {
        let before = unanswered(nodes);
        let ended = catch_unwind(AssertUnwindSafe(|| check(round)));
        if unanswered(nodes) - before < 0.5 {
            return ended.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }
    panic!("the counter was late in ten rounds: {}", nodes[0].log());
}

#[test]
fn fifty_right_log_ins_at_once_over_two_nodes_all_succeed() {
    let shared = Beside::new();
    let nodes = nodes(&shared, |setup| setup);
    in_time(&nodes, |round| {
        let name = format!("mina{round}");
        assert_eq!(register(&nodes[0], &new_user(&name)).status, 201);
        let statuses = at_once(50, |i| log_in(&nodes[i % 2], &name, PASSWORD).status);
        assert_eq!(statuses, [200; 50]);
    });
}

/// One password at many accounts, each time from another address: only the password gives it away.
#[test]
fn spraying_from_two_hundred_addresses_over_two_nodes_is_stopped_as_on_one() {
    let shared = Beside::new();
    let nodes = nodes(&shared, |setup| setup.set("server.trusted_proxies", "127.0.0.1"));
    in_time(&nodes, |round| {
        let (mut compared, password) = (0, format!("{WRONG}-{round}"));
        for i in 0..200usize {
            let from = format!("203.{round}.{}.{}", i / 100, i % 100 + 1);
            let name = format!("target-{round}-{i}");
            let header = [("X-Forwarded-For", from.as_str())];
            let answer = attempt(&nodes[i % 2], &name, &password, &json!({}), &header);
            match answer.status {
                401 => compared += 1,
                429 => assert!(answer.problem(429)["challenge"].is_object()),
                other => panic!("{other}"),
            }
        }
        assert_eq!(compared, 20, "accounts at which one password may fail");
    });
}

#[test]
fn a_proof_of_work_is_good_for_one_attempt_over_all_nodes() {
    let shared = Beside::new();
    let nodes = nodes(&shared, |setup| {
        setup.set("guard.address", "5/10min").set("server.trusted_proxies", "127.0.0.1")
    });
    in_time(&nodes, |round| {
        let (from, password) = (format!("203.0.113.{round}"), format!("{WRONG}-{round}"));
        let by = |node: &Server, name: &str, proof: &Value| {
            attempt(node, name, &password, proof, &[("X-Forwarded-For", &from)])
        };
        for i in 0..5 {
            assert_eq!(by(&nodes[0], &format!("target-{round}-{i}"), &json!({})).status, 401);
        }
        let name = format!("mina-{round}");
        let refused = by(&nodes[1], &name, &json!({})).problem(429);
        let proof = json!({"altcha": solved(&refused["challenge"])});
        assert_eq!(by(&nodes[0], &name, &proof).status, 401);
        for node in &nodes {
            let again = by(node, &name, &proof).problem(429);
            assert!(again["detail"].as_str().unwrap().contains("used before"), "{again}");
        }
    });
}

#[test]
fn while_the_counter_is_away_each_node_counts_its_own_and_says_so() {
    let mut shared = Beside::new();
    let nodes = nodes(&shared, |setup| setup);
    for _ in 0..3 {
        assert_eq!(log_in(&nodes[0], "mina", WRONG).status, 401);
    }
    for signal in [Signal::STOP, Signal::KILL] {
        shared.signal(signal);
        let name = format!("{signal:?}").to_lowercase();
        for node in &nodes {
            let statuses: Vec<u16> = (0..12).map(|_| log_in(node, &name, WRONG).status).collect();
            assert_eq!(statuses[..10], [401; 10]);
            assert_eq!(statuses[10..], [429; 2]);
            assert!(is_away(node));
        }
    }
    shared.redis.restart(&supervisor()).unwrap();
    for node in &nodes {
        eventually("the counter is asked again", || {
            log_in(node, "nobody", PASSWORD);
            (!is_away(node)).then_some(())
        });
    }
    // It has lost what it knew: exactly one allowance for both nodes.
    assert_eq!(compared(&nodes, 40), 10);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Begin { kind: u8, account: u8, address: u8, password: u8, proven: bool, take: bool },
    End(usize, AttemptOutcome),
    Pass(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let begin =
        (0..6u8, 0..5u8, 0..3u8, 0..3u8, prop::bool::weighted(0.2), prop::bool::weighted(0.9));
    prop_oneof![
        6 => begin.prop_map(|(kind, account, address, password, proven, take)| Act::Begin {
            kind, account, address, password, proven, take
        }),
        4 => (0..8usize).prop_map(|which| Act::End(which, AttemptOutcome::Failure)),
        1 => (0..8usize).prop_map(|which| Act::End(which, AttemptOutcome::Success)),
        1 => (0..8usize).prop_map(|which| Act::End(which, AttemptOutcome::Cancelled)),
        2 => (0..4_000u32).prop_map(Act::Pass),
    ]
}

/// Small limits, so that all of them are met.
fn small() -> GuardConfig {
    let window = Duration::from_secs(8);
    let mut config = GuardConfig::new(Key::new([7; 32]));
    config.pair = FailureLimit { failures: 3, window };
    config.account = AccountLimit {
        failures: 5,
        window,
        first_delay: Duration::from_millis(500),
        longest_delay: Duration::from_secs(3),
    };
    config.address = AddressLimit { failures: 7, accounts: 3, window };
    config.sign_up = FailureLimit { failures: 3, window };
    let mut suspicion = Suspicion { remember: Duration::from_secs(4), ..Suspicion::default() };
    suspicion.passwords = Some(PasswordWatch { accounts: 4, window });
    if let Some(tokens) = &mut suspicion.device_tokens {
        (tokens.failures, tokens.account_failures, tokens.window) = (2, 4, window);
    }
    config.suspicion = Some(suspicion);
    config
}

fn subject(base: u64, kind: u8, account: u8, address: u8, password: u8) -> Subject {
    let id = |domain: u64, value: u64| Id(base + (domain << 32) + (value << 40) + value);
    let (account_id, by_address) = (id(1, account.into()), id(2, address.into()));
    match kind {
        0 => Subject::SignUp(by_address),
        1 => Subject::KnownDevice {
            token: id(3, (account * 4 + address).into()),
            account: account_id,
        },
        _ => Subject::LogIn {
            pair: id(4, (account * 4 + address).into()),
            account: account_id,
            address: by_address,
            password: (kind > 2).then(|| id(5, password.into())),
        },
    }
}

/// Decides and ends as told, in both stores, and compares all decisions; an error when the server did not answer in time.
async fn compare(acts: &[Act], base: u64, server: &Url) -> Result<(), StoreError> {
    let clock = Arc::new(ManualClock::default());
    let config = small();
    let memory = MemoryStore::new(&config, clock.clone());
    let shared = ValkeyStore::new(&config, std::slice::from_ref(server)).unwrap();
    let shared = shared.with_clock(clock.clone());
    // A whole step after zero, which the server's counters take for "never".
    clock.advance(Duration::from_secs(100));
    let (mut held, mut ticket, mut passed) = (Vec::new(), 0, 0u32);
    for (step, act) in acts.iter().enumerate() {
        match *act {
            Act::Begin { kind, account, address, password, proven, take } => {
                ticket += 1;
                let subject = subject(base, kind, account, address, password);
                let request = Request { subject, ticket, proven, take };
                let expected = memory.reserve(&request).get().await.unwrap();
                let found = shared.reserve(&request).get().await?;
                assert_eq!(found, expected, "step {step}: {act:?}");
                if expected == Decision::Room && (take || kind == 0) {
                    held.push((subject, ticket, passed));
                }
            }
            Act::Pass(milliseconds) => {
                passed += milliseconds;
                // A lease ends after 30 s; memory knows none.
                while held.first().is_some_and(|(.., since)| passed - since > 25_000) {
                    let (subject, ticket, _) = held.remove(0);
                    memory.settle(&subject, ticket, AttemptOutcome::Failure).get().await.unwrap();
                    shared.settle(&subject, ticket, AttemptOutcome::Failure).get().await?;
                }
                clock.advance(Duration::from_millis(milliseconds.into()));
            }
            Act::End(which, outcome) if !held.is_empty() => {
                let (subject, ticket, _) = held.remove(which % held.len());
                memory.settle(&subject, ticket, outcome).get().await.unwrap();
                shared.settle(&subject, ticket, outcome).get().await?;
            }
            Act::End(..) => {}
        }
    }
    Ok(())
}

/// [`compare`], begun again with names of its own while a busy machine has the server answer too late.
fn compare_in_time(acts: &[Act], mut new_base: impl FnMut() -> u64, server: &Url) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let late = |_| runtime.block_on(compare(acts, new_base(), server)).err();
    let late: Vec<_> = (0..20).map_while(late).collect();
    assert!(late.len() < 20, "late in each of 20 attempts: {late:?}");
}

#[test]
fn both_stores_decide_alike() {
    let dir = tempfile::tempdir().unwrap();
    let server = Redis::start(&supervisor(), dir.path()).unwrap();
    let url = Url::parse(&server.url()).unwrap();
    let base = std::cell::Cell::new(0);
    let new_base = || base.replace(base.get() + (1 << 50));
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(act(), 1..80), |acts| {
            compare_in_time(&acts, new_base, &url);
            Ok(())
        })
        .unwrap();
}
