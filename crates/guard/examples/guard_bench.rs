//! Cost of one decision of the guard: `cargo run --release -p madang-guard --example guard_bench`.
//!
//! CPU time of one decision: median, minimum and maximum of fifteen rounds. Other work on the machine disturbs CPU
//! time less than wall time. All decisions but the admitted ones are refusals. With several threads: refusals per
//! second of CPU time.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use madang_guard::clock::SystemClock;
use madang_guard::config::{IpLimit, Mode};
use madang_guard::rate::{Rate, RateLimiter};
use madang_guard::suspicion::DeviceToken;
use madang_guard::{Attempt, Guard, GuardConfig, Key};
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

const ROUNDS: usize = 15;
const DECISIONS: u32 = 20_000;

fn attempt<'a>(account: &'a str, address: &str) -> Attempt<'a> {
    let address: IpAddr = address.parse().unwrap();
    Attempt {
        account: account.as_bytes(),
        address,
        password: account.as_bytes(), // The same for all would become suspicious.
        proof: None,
        device_token: None,
        credential: b"stored hash",
        under_load: false,
    }
}

/// The device token of a successful attempt.
fn token_for(guard: &Guard, attempt: &Attempt<'_>) -> Option<DeviceToken> {
    guard.device_token(attempt.address, attempt.account, attempt.credential)
}

fn config() -> GuardConfig {
    GuardConfig::new(Key::random().unwrap())
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Prints the CPU time of one call.
async fn measure(name: &str, mut call: impl AsyncFnMut()) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let begin = used();
        for _ in 0..DECISIONS {
            call().await;
        }
        rounds.push((used() - begin).as_nanos() / u128::from(DECISIONS));
    }
    rounds.sort_unstable();
    let (median, best, worst) = (rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
    println!("{name:<44} {median:>6} ns  ({best} to {worst})");
}

async fn refusals(name: &str, guard: &Guard, attempt: &Attempt<'_>) {
    measure(name, async || {
        black_box(guard.admit(black_box(attempt)).await).unwrap_err();
    })
    .await;
}

async fn fail(guard: &Guard, attempt: &Attempt<'_>, times: usize) {
    for _ in 0..times {
        guard.admit(attempt).await.unwrap().fail();
    }
}

/// A guard to which 10.0.0.1 is suspicious, or over its limit.
async fn attacked(config: GuardConfig) -> Guard {
    let guard = Guard::new(config).unwrap();
    for account in 0..50 {
        fail(&guard, &attempt(&format!("user{account}"), "10.0.0.1"), 1).await;
    }
    guard
}

async fn decisions() {
    let guard = Guard::new(config()).unwrap();
    let pair = attempt("kim", "10.0.0.1");
    fail(&guard, &pair, 10).await;
    refusals("pair used up", &guard, &pair).await;

    let plain = attacked(GuardConfig { suspicion: None, ..config() }).await;
    refusals("address over its limit, no suspicion", &plain, &attempt("lee", "10.0.0.1")).await;

    let guard = attacked(config()).await;
    let suspicious = attempt("lee", "10.0.0.1");
    refusals("suspicious address, with a challenge", &guard, &suspicious).await;
    let password = vec![b'x'; 1_024];
    let long = Attempt { password: &password, ..suspicious };
    refusals("the same, password of 1,024 bytes", &guard, &long).await;

    let challenge = guard.admit(&suspicious).await.unwrap_err().challenge.unwrap();
    let json = serde_json::json!({
        "algorithm": challenge.algorithm, "challenge": challenge.challenge, "number": 1,
        "salt": challenge.salt, "signature": challenge.signature,
    });
    let proof = STANDARD.encode(json.to_string());
    let wrong = Attempt { proof: Some(&proof), ..suspicious };
    refusals("the same, with a wrong proof", &guard, &wrong).await;
    let junk = "A".repeat(4_096);
    let wrong = Attempt { proof: Some(&junk), ..suspicious };
    refusals("the same, with 4 KiB of junk as proof", &guard, &wrong).await;
    let owner = attempt("mo", "10.0.0.2");
    let token = token_for(&guard, &owner).unwrap().value;
    let wrong = Attempt { device_token: Some(&token), ..suspicious };
    refusals("the same, with another account's mark", &guard, &wrong).await;

    let limit = IpLimit { attempts: 1, ..IpLimit::default() };
    let ip = Guard::new(GuardConfig { mode: Mode::Ip(limit), ..config() }).unwrap();
    fail(&ip, &pair, 1).await;
    refusals("mode ip, blocked", &ip, &pair).await;

    let guard = Guard::new(config()).unwrap();
    measure("admitted, succeeded, with a mark", async || {
        guard.admit(&pair).await.unwrap().succeed();
        black_box(token_for(&guard, &pair));
    })
    .await;
    measure("admitted by a mark, succeeded", async || {
        let known = Attempt { device_token: Some(&token), ..attempt("mo", "10.0.0.2") };
        guard.admit(&known).await.unwrap().succeed();
        black_box(token_for(&guard, &known));
    })
    .await;
    let guard = Guard::new(config()).unwrap();
    let mut number = 0u32;
    measure("admitted, failed, a new name each time", async || {
        number += 1;
        let address = IpAddr::V4(number.into());
        let name = number.to_le_bytes();
        let fresh = Attempt { account: &name, address, password: &name, credential: &[], ..pair };
        guard.admit(&fresh).await.unwrap().fail();
    })
    .await;
    let metrics = guard.metrics();
    println!(
        "after {number} names: {} entries, {:.1} MiB, {} evictions",
        metrics.entries,
        metrics.bytes as f64 / f64::from(1 << 20),
        metrics.evictions
    );
}

/// Requests that take a token of their user and one of their address.
async fn rates() {
    let limiter = RateLimiter::new(&Key::random().unwrap(), Arc::new(SystemClock::default()), None);
    let (ample, used_up) = (Duration::from_millis(1), Duration::from_secs(86_400));
    let rate = |count, window| Rate { count, window };
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    let take = async |user, user_rate| {
        let user = limiter.of_user(0, user, user_rate);
        let address = limiter.of_address(0, address, rate(1_000_000, ample));
        limiter.take(black_box(&[user, address])).await
    };
    measure("rate limit: a token of user and address", async || {
        black_box(take(1, rate(1_000_000, ample)).await).unwrap();
    })
    .await;
    let mut user = 1;
    measure("rate limit: a new user each time", async || {
        user += 1;
        black_box(take(user, rate(10, used_up)).await).unwrap();
    })
    .await;
    take(0, rate(1, used_up)).await.unwrap();
    measure("rate limit: refused", async || {
        black_box(take(0, rate(1, used_up)).await).unwrap_err();
    })
    .await;
}

/// Refusals of one suspicious address by several threads.
fn contended(threads: u32) {
    let guard = run(attacked(config()));
    let busy: Duration = std::thread::scope(|scope| {
        let work = || {
            run(async {
                let begin = used();
                for _ in 0..10 * DECISIONS {
                    let refused = guard.admit(&attempt("lee", "10.0.0.1")).await;
                    black_box(refused).unwrap_err();
                }
                used() - begin
            })
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let rate = f64::from(10 * DECISIONS * threads) / busy.as_secs_f64();
    println!("suspicious address, {threads} threads: {rate:.0} refusals per core-second");
}

fn main() {
    run(decisions());
    run(rates());
    for threads in [1, 2, 4] {
        contended(threads);
    }
}
