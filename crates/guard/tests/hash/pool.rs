//! The pool with real hashes, real threads and real memory.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use madang_guard::hash::{
    CheckOutcome, HashPool, Password, PasswordCheck, PoolError, PoolMetrics, PoolOptions, Scheme,
    StoredHash, Ticket,
};

use madang_testing::alone;

fn options(scheme: &str, threads: usize) -> PoolOptions {
    PoolOptions {
        scheme: scheme.parse().unwrap(),
        threads: NonZeroUsize::new(threads).unwrap(),
        max_wait: Duration::from_secs(600),
        ..PoolOptions::default()
    }
}

fn pool(scheme: &str, threads: usize) -> HashPool {
    HashPool::start(options(scheme, threads)).unwrap()
}

async fn check(
    pool: &HashPool,
    password: &str,
    stored: Option<&StoredHash>,
) -> (PasswordCheck, CheckOutcome) {
    let (send, settled) = std::sync::mpsc::channel();
    let ticket = pool.verify(password.into(), stored.cloned(), move |outcome| {
        send.send(outcome).unwrap();
    });
    let verdict = ticket.await.unwrap();
    let outcome = settled.try_recv().expect("settled before it is answered");
    assert!(settled.try_recv().is_err(), "settled once");
    (verdict, outcome)
}

#[tokio::test]
async fn a_password_hashed_at_owasp_parameters_is_recognised() {
    let pool = HashPool::start(PoolOptions::default()).unwrap();
    assert_eq!(pool.scheme(), Scheme::default());
    let stored = pool.hash("correct horse".into()).await.unwrap();
    let right = (PasswordCheck::Right { needs_upgrade: false }, CheckOutcome::Right);
    assert_eq!(check(&pool, "correct horse", Some(&stored)).await, right);
    let wrong = (PasswordCheck::Wrong, CheckOutcome::Wrong);
    assert_eq!(check(&pool, "correct house", Some(&stored)).await, wrong);
    assert_eq!(check(&pool, "correct horse", None).await, wrong);
    let metrics = pool.metrics();
    assert_eq!((metrics.done, metrics.failed, metrics.refused), (4, 0, 0));
    assert!(metrics.hashing > Duration::ZERO && metrics.hash_time > Duration::ZERO);
}

#[tokio::test]
async fn an_older_hash_still_verifies_and_asks_to_be_replaced() {
    let pool = pool("argon2id:m=19456,t=2,p=1", 1);
    let older = "$2y$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a".parse().unwrap();
    let (verdict, _) = check(&pool, "U*U*U", Some(&older)).await;
    assert_eq!(verdict, PasswordCheck::Right { needs_upgrade: true });
    let newer = pool.hash("U*U*U".into()).await.unwrap();
    let (verdict, _) = check(&pool, "U*U*U", Some(&newer)).await;
    assert_eq!(verdict, PasswordCheck::Right { needs_upgrade: false });
    assert_eq!(check(&pool, "wrong", Some(&older)).await.0, PasswordCheck::Wrong);
}

#[tokio::test]
async fn a_plain_bcrypt_hash_is_not_replaced_by_one_of_a_password_that_it_cuts() {
    let pool = pool("argon2id:m=19456,t=2,p=1", 1);
    // Openwall crypt_blowfish, wrapper.c: the hash of these 72 bytes and of any text that begins so.
    let stored = "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui".parse().unwrap();
    let first = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for password in [first, &format!("{first} and a typo")] {
        let (verdict, _) = check(&pool, password, Some(&stored)).await;
        assert_eq!(verdict, PasswordCheck::Right { needs_upgrade: false });
    }
}

#[tokio::test]
async fn an_unknown_user_costs_a_hash_of_the_present_scheme_and_is_never_right() {
    let pool = pool("argon2id:m=1024,t=1,p=1", 1);
    assert_eq!(pool.metrics().memory_bytes, 0);
    for password in ["", "password", "nobody"] {
        assert_eq!(check(&pool, password, None).await, (PasswordCheck::Wrong, CheckOutcome::Wrong));
    }
    // The blocks of argon2id were filled.
    assert_eq!(pool.metrics().memory_bytes, 1 << 20);
    assert_eq!(pool.metrics().done, 3);
}

#[tokio::test]
async fn memory_is_given_back_when_idle_and_at_once_when_more_than_the_scheme_needs() {
    let idle = Duration::from_millis(1);
    let short = HashPool::start(PoolOptions { idle, ..options("argon2id:m=1024,t=1,p=1", 1) });
    let short = short.unwrap();
    short.hash("x".into()).await.unwrap();
    wait_until(|| short.metrics().memory_bytes == 0);
    let pool = pool("argon2id:m=1024,t=1,p=1", 1);
    let large = "argon2id:m=8192,t=1,p=1".parse::<Scheme>().unwrap().hash(&"x".into()).unwrap();
    assert_eq!(check(&pool, "x", Some(&large)).await.1, CheckOutcome::Right);
    assert_eq!(pool.metrics().memory_bytes, 0);
}

/// This brings the documented service down; here two threads of 19 MiB do all the work, and most jobs are
/// refused at once.
#[test]
fn a_thousand_submits_at_once_take_the_memory_of_the_threads() {
    alone("pool::a_thousand_submits_at_once_take_the_memory_of_the_threads", &[], || {
        // A short queue with a long wait: the first jobs begin also on a busy machine.
        let (queue, max_wait) = (64, Duration::from_secs(5));
        let options = PoolOptions { queue, max_wait, ..options("argon2id:m=19456,t=1,p=1", 2) };
        let pool = HashPool::start(options).unwrap();
        let before = peak_kib();
        let (tickets, settled) = submit(&pool, 1000);
        let metrics = finish(&pool, tickets);
        assert!(metrics.refused > 0 && metrics.done > 0, "{metrics:?}");
        assert_eq!(metrics.done + metrics.refused + metrics.expired, 1000, "{metrics:?}");
        assert_eq!(settled.load(Ordering::Relaxed), 1000);
        assert!(metrics.running_max <= 2 && metrics.queued_max <= queue + 2, "{metrics:?}");
        assert!(metrics.memory_bytes <= 2 * 19_456 * 1024);
        let grown = peak_kib() - before;
        assert!(grown < 2 * 19_456 + 16 * 1024, "grew by {grown} KiB");
    });
}

/// Submits checks, and counts the settled ones.
fn submit(pool: &HashPool, checks: usize) -> (Vec<Ticket<PasswordCheck>>, Arc<AtomicUsize>) {
    let settled = Arc::new(AtomicUsize::new(0));
    let check = |_| {
        let settled = Arc::clone(&settled);
        pool.verify("password".into(), None, move |_| {
            settled.fetch_add(1, Ordering::Relaxed);
        })
    };
    ((0..checks).map(check).collect(), settled)
}

fn finish(pool: &HashPool, tickets: Vec<Ticket<PasswordCheck>>) -> PoolMetrics {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for ticket in tickets {
            match ticket.await {
                Ok(PasswordCheck::Wrong) | Err(PoolError::Busy { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    pool.metrics()
}

/// The peak resident size.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn only_the_threads_that_hash_have_low_priority() {
    alone("pool::only_the_threads_that_hash_have_low_priority", &[], || {
        let pool = pool("argon2id:m=64,t=1,p=1", 3);
        let hashers = ["hash-0", "hash-1", "hash-2"];
        let of_hashers = || {
            let nice = nice_of_threads();
            hashers.iter().filter_map(|name| nice.get(*name).copied()).collect::<Vec<_>>()
        };
        // A thread that has not run yet has neither its priority nor its name.
        let has_conductor = || nice_of_threads().contains_key("hash");
        wait_until(|| of_hashers() == [19, 19, 19] && has_conductor());
        let all = nice_of_threads();
        assert_eq!(all["hash"], all[&main_thread()], "the conductor has the process's priority");
        drop(pool);
        // A joined thread may stay in /proc for a moment.
        wait_until(|| of_hashers().is_empty() && !nice_of_threads().contains_key("hash"));
    });
}

#[test]
fn unbounded_threads_have_the_priority_of_the_process() {
    alone("pool::unbounded_threads_have_the_priority_of_the_process", &[], || {
        let threads = NonZeroUsize::new(2).unwrap();
        let pool = HashPool::start_unbounded("bcrypt:4".parse().unwrap(), threads).unwrap();
        let (send, nice) = std::sync::mpsc::channel();
        let _ticket = pool.verify("x".into(), None, move |_| {
            send.send(nice_of_threads()).unwrap();
        });
        let nice = nice.recv_timeout(madang_testing::DEADLINE).unwrap();
        assert_eq!(nice["hash"], nice[&main_thread()]);
    });
}

/// Waits up to a minute, for busy machines.
fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "it never came; threads: {:?}", nice_of_threads());
        std::thread::yield_now();
    }
}

/// Name of the main thread, which does not belong to the pool.
fn main_thread() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap().trim().to_owned()
}

/// Nice values by thread name, proc_pid_stat(5) field 19.
fn nice_of_threads() -> HashMap<String, i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    stats
        .map(|stat| {
            let (head, fields) = stat.rsplit_once(") ").unwrap();
            let name = head.split_once('(').unwrap().1;
            // The first field after the name is the third.
            (name.to_owned(), fields.split(' ').nth(19 - 3).unwrap().parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn dropping_the_pool_settles_and_answers_everything() {
    let pool = pool("argon2id:m=4096,t=1,p=1", 1);
    let (tickets, settled) = submit(&pool, 100);
    drop(pool);
    assert_eq!(settled.load(Ordering::Relaxed), 100);
    for ticket in tickets {
        let answer = ticket.await;
        assert!(matches!(answer, Ok(PasswordCheck::Wrong) | Err(PoolError::Closed)), "{answer:?}");
    }
}

#[tokio::test]
async fn unbounded_gives_the_same_answers() {
    let threads = NonZeroUsize::new(4).unwrap();
    let pool = HashPool::start_unbounded("bcrypt:4".parse().unwrap(), threads).unwrap();
    let stored = pool.hash(Password::from("secret")).await.unwrap();
    let right = (PasswordCheck::Right { needs_upgrade: false }, CheckOutcome::Right);
    assert_eq!(check(&pool, "secret", Some(&stored)).await, right);
    assert_eq!(check(&pool, "secret", None).await, (PasswordCheck::Wrong, CheckOutcome::Wrong));
    assert_eq!(pool.metrics().done, 3);
}
