//! One cache under several runtimes, each on a thread of its own.

use std::sync::mpsc;
use std::thread;

use madang_cache::{CacheConfig, CacheError, Policy};
use tokio::runtime::{Builder, Runtime};

use crate::kit::{Kit, MS, body, gated, plain, told};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Waits, on a plain thread, until a figure has been reached.
fn spin_until(holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "what was waited for did not happen");
        thread::yield_now();
    }
}

#[test]
fn a_load_wakes_those_who_wait_for_it_on_other_runtimes() {
    let kit = Kit::new(plain());
    let (loader, gate) = gated();
    let leader = thread::spawn({
        let kit = kit.clone();
        move || told(&runtime().block_on(kit.get_with("k", loader)))
    });
    spin_until(|| kit.metrics().loads == 1);
    let followers: Vec<_> = (0..3)
        .map(|_| {
            let kit = kit.clone();
            thread::spawn(move || runtime().block_on(kit.hit("k")))
        })
        .collect();
    spin_until(|| kit.metrics().coalesced == 3);
    gate.open(body("v"));
    assert_eq!(leader.join().unwrap(), "v Miss");
    for follower in followers {
        assert_eq!(follower.join().unwrap(), "v Coalesced");
    }
}

#[test]
fn when_the_loads_runtime_shuts_down_a_waiter_loads_for_itself() {
    let kit = Kit::new(plain());
    let (loader, mut gate) = gated();
    let first = runtime();
    let leader = first.spawn({
        let kit = kit.clone();
        async move { kit.get_with("k", loader).await }
    });
    first.block_on(gate.reached());
    let follower = thread::spawn({
        let kit = kit.clone();
        move || runtime().block_on(kit.get("k", body("own")))
    });
    spin_until(|| kit.metrics().coalesced == 1);
    drop(first);
    assert_eq!(follower.join().unwrap(), "own Miss");
    assert!(runtime().block_on(leader).unwrap_err().is_cancelled());
    assert_eq!(runtime().block_on(kit.hit("k")), "own Hit");
}

/// A runtime that nobody drives any more can neither finish a load nor time it out.
#[test]
fn when_the_loads_runtime_stands_still_waiters_time_out_and_later_readers_load() {
    let policy = Policy { load_timeout: 20 * MS, queue_timeout: MS, ..plain() };
    let (kit, clock) = Kit::with_manual_clock(&CacheConfig::default(), policy);
    let (loader, mut gate) = gated();
    let still = runtime();
    still.spawn({
        let kit = kit.clone();
        async move { kit.get_with("k", loader).await }
    });
    still.block_on(gate.reached());
    let paused = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (got, waited) = paused.block_on(async {
        let begun = tokio::time::Instant::now();
        (kit.get_with("k", || async { body("never run") }).await, begun.elapsed())
    });
    assert!(matches!(got, Err(CacheError::TimedOut { .. })), "{got:?}");
    assert_eq!(waited, 121 * MS);
    clock.advance(121 * MS);
    assert_eq!(paused.block_on(kit.get("k", body("v"))), "v Miss");
    assert_eq!(paused.block_on(kit.hit("k")), "v Hit");
    drop(still);
}

#[test]
fn a_leader_whose_own_runtime_shuts_down_is_told_so() {
    let kit = Kit::new(plain());
    let (loader, mut gate) = gated();
    let first = runtime();
    let mut look_up = Box::pin(kit.get_with("k", loader));
    let (polled, wait) = mpsc::channel();
    // Poll the look-up once inside the runtime, so that its load starts there, and go on outside.
    first.block_on(std::future::poll_fn(|cx| {
        polled.send(look_up.as_mut().poll(cx).is_pending()).unwrap();
        std::task::Poll::Ready(())
    }));
    assert!(wait.recv().unwrap());
    first.block_on(gate.reached());
    drop(first);
    let got = runtime().block_on(look_up);
    assert!(matches!(got, Err(CacheError::Abandoned)), "{got:?}");
}
