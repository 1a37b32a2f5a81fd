//! One load per key, and nobody stranded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use madang_cache::{CacheError, Loaded, Policy};
use tokio::time::Instant;

use crate::kit::{Boom, Kit, MS, SECOND, body, plain, settle, told, until};

#[tokio::test(start_paused = true)]
async fn five_hundred_readers_of_a_cold_key_make_one_load() {
    let kit = Kit::new(plain());
    let loads = Arc::new(AtomicUsize::new(0));
    let readers: Vec<_> = (0..500)
        .map(|_| {
            let (kit, loads) = (kit.clone(), Arc::clone(&loads));
            tokio::spawn(async move {
                let load = move || async move {
                    loads.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    body("v")
                };
                told(&kit.get_with("k", load).await)
            })
        })
        .collect();
    let mut answers = Vec::new();
    for reader in readers {
        answers.push(reader.await.unwrap());
    }
    assert_eq!(loads.load(Ordering::Relaxed), 1);
    assert_eq!(answers.iter().filter(|told| *told == "v Miss").count(), 1);
    assert!(answers.iter().all(|told| told.starts_with("v ")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_on_many_threads_make_one_load_per_key() {
    let kit = Kit::new(plain());
    let loads = Arc::new(AtomicUsize::new(0));
    let readers: Vec<_> = (0..2_000)
        .map(|n| {
            let (kit, loads) = (kit.clone(), Arc::clone(&loads));
            let load = move || async move {
                loads.fetch_add(1, Ordering::Relaxed);
                body("v")
            };
            tokio::spawn(async move { told(&kit.get_with(&(n % 100).to_string(), load).await) })
        })
        .collect();
    for reader in readers {
        assert!(reader.await.unwrap().starts_with("v "));
    }
    assert_eq!(loads.load(Ordering::Relaxed), 100);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cancelled_strands_nobody() {
    let kit = Kit::new(plain());
    let load = kit.begin_load("k").await;
    let follower = kit.join_load("k").await;
    load.caller.abort();
    assert!(load.caller.await.unwrap_err().is_cancelled());
    load.gate.open(body("v"));
    assert_eq!(follower.await.unwrap(), "v Coalesced");
    assert_eq!(kit.hit("k").await, "v Hit");
    assert_eq!(kit.metrics().loads, 1);
}

#[tokio::test(start_paused = true)]
async fn a_loader_that_panics_gives_every_waiter_an_error() {
    let kit = Kit::new(plain());
    let reader = |kit: Kit| async move {
        let load = || async {
            tokio::task::yield_now().await;
            panic!("on purpose, in a loader");
        };
        told(&kit.get_with("k", load).await)
    };
    let (first, second) = tokio::join!(reader(kit.clone()), reader(kit.clone()));
    assert_eq!([&*first, &*second], ["error: the loader panicked"; 2]);
    let metrics = kit.metrics();
    assert_eq!((metrics.loads, metrics.load_errors, metrics.coalesced), (1, 1, 1));
    assert_eq!(kit.get("k", body("v")).await, "v Miss", "and the key is not stuck");
}

#[tokio::test(start_paused = true)]
async fn a_loader_that_panics_before_its_future_is_an_error_too() {
    let kit = Kit::new(plain());
    let load = || -> std::future::Ready<_> { panic!("on purpose, in a loader's closure") };
    assert_eq!(told(&kit.get_with("k", load).await), "error: the loader panicked");
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
}

#[tokio::test(start_paused = true)]
async fn a_load_that_takes_too_long_is_given_up() {
    let kit = Kit::new(Policy { load_timeout: 3 * SECOND, ..plain() });
    let begun = Instant::now();
    let load = kit.begin_load("k").await;
    let got = load.caller.await.unwrap();
    assert!(matches!(got, Err(CacheError::TimedOut { after }) if after == 3 * SECOND), "{got:?}");
    assert_eq!(begun.elapsed(), 3 * SECOND);
    load.gate.dropped().await;
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_loader_reaches_every_waiter() {
    let kit = Kit::new(plain());
    let load = kit.begin_load("k").await;
    let follower = kit.join_load("k").await;
    load.gate.open(Err(Boom(7)));
    let got = load.caller.await.unwrap();
    assert_eq!(got.unwrap_err().load_error(), Some(&Boom(7)));
    assert_eq!(follower.await.unwrap(), "error: the loader failed: boom 7");
}

fn narrow() -> Policy {
    Policy { max_loads_in_flight: 2, max_loads_waiting: 1, queue_timeout: SECOND, ..plain() }
}

#[tokio::test(start_paused = true)]
async fn only_so_many_loads_run_and_only_so_many_wait() {
    let kit = Kit::new(narrow());
    let first = kit.begin_load("a").await;
    let second = kit.begin_load("b").await;
    let mut third = kit.begin("c");
    until(|| kit.metrics().misses == 3).await;
    settle().await;
    assert_eq!(kit.metrics().loads, 2, "the third waits for its turn");
    assert_eq!(kit.get("d", body("d")).await, "error: too many loads at once");
    assert_eq!(kit.metrics().overloaded, 1);
    assert_eq!(first.answer(body("a")).await, "a Miss");
    third.gate.reached().await;
    assert_eq!(third.answer(body("c")).await, "c Miss");
    assert_eq!(second.answer(body("b")).await, "b Miss");
    assert_eq!(kit.get("d", body("d")).await, "d Miss");
}

#[tokio::test(start_paused = true)]
async fn a_load_waits_for_its_turn_only_so_long() {
    let kit = Kit::new(narrow());
    let running = [kit.begin_load("a").await, kit.begin_load("b").await];
    let begun = Instant::now();
    let got = kit.get_with("c", || async { body("c") }).await;
    assert!(matches!(got, Err(CacheError::Overloaded { .. })), "{got:?}");
    assert_eq!(got.unwrap_err().retry_after(), Some(SECOND));
    assert_eq!(begun.elapsed(), SECOND);
    let metrics = kit.metrics();
    assert_eq!((metrics.queue_timeouts, metrics.load_errors), (1, 0));
    for load in running {
        load.answer(body("v")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loader_without_a_turn_of_its_own_is_no_failure() {
    let kit = Kit::new(Policy { failure_backoff: SECOND, ..plain() });
    let got = kit.get_with("k", || async { Ok(Loaded::NoTurn { retry_after: SECOND }) }).await;
    assert_eq!(got.unwrap_err().retry_after(), Some(SECOND));
    assert_eq!(kit.metrics().load_errors, 0);
    assert_eq!(kit.get("k", body("v")).await, "v Miss", "without a pause");
}

/// Others may have to wait longer for a turn than those who joined them.
#[tokio::test(start_paused = true)]
async fn whoever_joined_a_load_without_a_turn_asks_its_own_loader() {
    let kit = Kit::new(plain());
    let leader = kit.begin_load("k").await;
    let (mut one, mut two) = (kit.begin("k"), kit.begin("k"));
    until(|| kit.metrics().coalesced == 2).await;
    let refused = leader.answer(Ok(Loaded::NoTurn { retry_after: SECOND })).await;
    assert_eq!(refused, "error: the load had no turn");
    // One of them leads now, whichever is woken first, and the other does not join again.
    one.gate.reached().await;
    two.gate.reached().await;
    assert_eq!(two.answer(body("two")).await, "two Miss");
    assert_eq!(one.answer(body("one")).await, "one Miss");
    let kept = kit.hit("k").await;
    assert!(["one Hit", "two Hit"].contains(&kept.as_str()), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn whoever_joined_a_load_that_met_a_limit_of_all_shares_its_answer() {
    let kit = Kit::new(plain());
    let leader = kit.begin_load("k").await;
    let joined = kit.join_load("k").await;
    leader.answer(Ok(Loaded::Overloaded { retry_after: SECOND })).await;
    assert_eq!(joined.await.unwrap(), "error: too many loads at once");
}

#[tokio::test(start_paused = true)]
async fn loads_outdated_by_writes_still_count_against_the_limit() {
    let kit = Kit::new(Policy { max_loads_waiting: 0, ..narrow() });
    let first = kit.begin_load("k").await;
    kit.write("k");
    let second = kit.begin_load("k").await;
    kit.write("k");
    assert_eq!(kit.get("k", body("v")).await, "error: too many loads at once");
    first.answer(body("v")).await;
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
    second.answer(body("v")).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_aborts_loads_in_flight() {
    let kit = Kit::new(plain());
    let (outdated, current) = (kit.begin_load("k").await, {
        kit.write("k");
        kit.begin_load("k").await
    });
    for load in [&outdated, &current] {
        load.caller.abort();
    }
    settle().await;
    let begun = Instant::now();
    drop(kit);
    outdated.gate.dropped().await;
    current.gate.dropped().await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "aborted, not timed out");
}

#[tokio::test(start_paused = true)]
async fn a_named_part_outlives_the_cache_it_was_made_from() {
    let kit = Kit::new(plain());
    let named = kit.named.clone();
    drop(kit);
    let stamps = [madang_cache::Stamp::new("k")];
    for expected in ["v Miss", "v Hit"] {
        let got = named.get("k", &stamps, || async { body("v") }).await;
        assert_eq!(told(&got), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_load_that_ended() {
    let kit = Kit::new(Policy { max_loads_in_flight: 1, max_loads_waiting: 0, ..plain() });
    for round in 0..100 {
        let key = round.to_string();
        let answer = if round % 2 == 0 { body("v") } else { Err(Boom(1)) };
        kit.get(&key, answer).await;
    }
    let cancelled = kit.begin_load("c").await;
    cancelled.caller.abort();
    cancelled.gate.open(body("c"));
    until(|| kit.peek("c").is_some()).await;
    tokio::time::advance(MS).await;
    assert_eq!(kit.get("last", body("v")).await, "v Miss", "no load is counted as pending");
}
