//! Refreshing in the background, ahead of expiry.

use madang_cache::{CacheConfig, Policy, Served};
use tokio::time::advance;

use crate::kit::{Boom, Kit, MS, SECOND, body, gated, plain, served, settle, until};

fn ahead() -> Policy {
    Policy { refresh_ahead: Some(0.8), load_timeout: 2 * SECOND, ..plain() }
}

/// A kit whose entry "k" = "old" (soft expiry 60 s) is due for a refresh, which is from 48 s on.
async fn due() -> Kit {
    let kit = Kit::new(ahead());
    kit.get("k", body("old")).await;
    advance(48 * SECOND).await;
    kit
}

#[tokio::test(start_paused = true)]
async fn a_late_hit_starts_one_load_behind_it() {
    let kit = due().await;
    assert_eq!(kit.peek("k"), None, "a peek has no loader: it sends its caller to `get`");
    let mut load = kit.begin("k");
    assert_eq!(served(&(&mut load.caller).await.unwrap()), Served::Hit);
    load.gate.reached().await;
    for _ in 0..10 {
        assert_eq!(kit.hit("k").await, "old Hit");
    }
    assert_eq!(kit.peek("k").as_deref(), Some("old"), "once it is under way, peeks answer");
    load.gate.open(body("new"));
    until(|| kit.peek("k").as_deref() == Some("new")).await;
    let metrics = kit.metrics();
    assert_eq!((metrics.refreshes, metrics.loads, metrics.misses), (1, 2, 1));
    advance(47 * SECOND).await;
    assert_eq!(kit.hit("k").await, "new Hit", "the new entry's time began with the refresh");
}

#[tokio::test(start_paused = true)]
async fn an_early_hit_starts_no_load() {
    let kit = Kit::new(Policy { refresh_ahead: Some(0.8), ..plain() });
    kit.get("k", body("old")).await;
    advance(48 * SECOND - MS).await;
    assert_eq!(kit.peek("k").as_deref(), Some("old"));
    assert_eq!(kit.hit("k").await, "old Hit");
    settle().await;
    assert_eq!(kit.metrics().loads, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_begun_before_a_write_is_not_stored() {
    let kit = due().await;
    let mut load = kit.begin("k");
    load.gate.reached().await;
    kit.write("k");
    load.gate.open(body("old"));
    until(|| kit.metrics().vetoed_fills == 1).await;
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_comes_after_a_write_is_not_given_an_older_refresh() {
    let kit = due().await;
    let mut load = kit.begin("k");
    load.gate.reached().await;
    kit.write("k");
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
    load.gate.open(body("old"));
    settle().await;
    assert_eq!(kit.hit("k").await, "new Hit");
}

#[tokio::test(start_paused = true)]
async fn readers_of_an_expired_entry_join_its_refresh() {
    let kit = due().await;
    advance(11 * SECOND).await;
    let mut load = kit.begin("k");
    load.gate.reached().await;
    advance(SECOND).await;
    let follower = kit.join_load("k").await;
    load.gate.open(body("new"));
    assert_eq!(follower.await.unwrap(), "new Coalesced");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_leaves_the_old_value() {
    let kit = due().await;
    assert_eq!(kit.get("k", Err(Boom(1))).await, "old Hit");
    until(|| kit.metrics().load_errors == 1).await;
    assert_eq!(kit.get("k", body("new")).await, "old Hit", "this hit starts the next refresh");
    until(|| kit.peek("k").as_deref() == Some("new")).await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_lost_with_its_runtime_is_made_up_for() {
    let (kit, clock) = Kit::with_manual_clock(&CacheConfig::default(), ahead());
    kit.get("k", body("old")).await;
    clock.advance(48 * SECOND);
    let (loader, _gate) = gated();
    let elsewhere = kit.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(runtime.block_on(elsewhere.get_with("k", loader)).unwrap().served, Served::Hit);
    })
    .join()
    .unwrap();
    assert_eq!(kit.metrics().refreshes, 1);
    assert_eq!(kit.hit("k").await, "old Hit", "the refresh is still leased");
    clock.advance(4 * SECOND);
    assert_eq!(kit.get("k", body("new")).await, "old Hit");
    until(|| kit.peek("k").as_deref() == Some("new")).await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_does_not_take_a_place_in_the_queue() {
    let kit = Kit::new(Policy {
        refresh_ahead: Some(0.8),
        max_loads_in_flight: 1,
        max_loads_waiting: 1,
        ..plain()
    });
    kit.get("k", body("old")).await;
    advance(48 * SECOND).await;
    let running = kit.begin_load("a").await;
    assert_eq!(kit.get("k", body("new")).await, "old Hit");
    let waiting = kit.begin("b");
    until(|| kit.metrics().misses == 3).await;
    assert_eq!(kit.metrics().refreshes, 0);
    running.answer(body("a")).await;
    assert_eq!(waiting.answer(body("b")).await, "b Miss");
}
