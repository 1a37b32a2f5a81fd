//! The old value between soft and hard expiry: when it is served, and when never.

use std::time::Duration;

use madang_cache::Policy;
use tokio::time::{Instant, advance};

use crate::kit::{Boom, Kit, MS, SECOND, body, plain, until};

/// A kit whose entry "k" = "old" is just past its soft expiry of 60 s (hard: 600 s).
async fn past_soft() -> Kit {
    let kit = Kit::new(Policy { soft_timeout: 100 * MS, ..plain() });
    kit.get("k", body("old")).await;
    advance(60 * SECOND).await;
    kit
}

#[tokio::test(start_paused = true)]
async fn an_entry_past_its_soft_expiry_is_loaded_anew() {
    let kit = past_soft().await;
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
    assert_eq!(kit.hit("k").await, "new Hit");
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_served_when_the_loader_fails() {
    let kit = past_soft().await;
    assert_eq!(kit.get("k", Err(Boom(1))).await, "old Stale");
    assert_eq!(kit.metrics().stale_served, 1);
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_served_when_the_loader_panics() {
    let kit = past_soft().await;
    assert_eq!(kit.hit("k").await, "old Stale");
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_served_when_the_load_takes_longer_than_the_soft_timeout() {
    let kit = past_soft().await;
    let begun = Instant::now();
    let mut load = kit.begin_load("k").await;
    let told = crate::kit::told(&(&mut load.caller).await.unwrap());
    assert_eq!((&*told, begun.elapsed()), ("old Stale", 100 * MS));
    // The load goes on behind it, others join it, and what it brings is stored.
    let follower = kit.join_load("k").await;
    load.gate.open(body("new"));
    assert_eq!(follower.await.unwrap(), "new Coalesced");
    assert_eq!(kit.hit("k").await, "new Hit");
}

#[tokio::test(start_paused = true)]
async fn with_a_soft_timeout_of_zero_the_old_value_is_served_at_once() {
    let kit = Kit::new(Policy { soft_timeout: Duration::ZERO, ..plain() });
    kit.get("k", body("old")).await;
    advance(60 * SECOND).await;
    let begun = Instant::now();
    let load = kit.begin("k");
    let told = crate::kit::told(&load.caller.await.unwrap());
    assert_eq!(told, "old Stale");
    assert!(begun.elapsed() <= MS, "{:?}", begun.elapsed());
    load.gate.open(body("new"));
    until(|| kit.peek("k").as_deref() == Some("new")).await;
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_served_when_there_are_too_many_loads() {
    let kit = Kit::new(Policy { max_loads_in_flight: 1, max_loads_waiting: 0, ..plain() });
    kit.get("k", body("old")).await;
    advance(60 * SECOND).await;
    let other = kit.begin_load("other").await;
    assert_eq!(kit.hit("k").await, "old Stale");
    other.answer(body("other")).await;
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_never_served_after_a_write() {
    let kit = past_soft().await;
    kit.write("k");
    assert_eq!(kit.get("k", Err(Boom(1))).await, "error: the loader failed: boom 1");
    let slow = kit.begin_load("k").await;
    advance(SECOND).await;
    assert_eq!(slow.answer(body("new")).await, "new Miss", "waited beyond the soft timeout");
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_never_served_after_a_write_that_came_while_waiting() {
    let kit = past_soft().await;
    let load = kit.begin_load("k").await;
    kit.write("k");
    assert_eq!(load.answer(Err(Boom(1))).await, "error: the loader failed: boom 1");

    let kit = past_soft().await;
    let load = kit.begin_load("k").await;
    kit.write("k");
    advance(SECOND).await;
    assert_eq!(load.answer(body("new")).await, "new Miss", "the soft timeout brought nothing");
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_never_served_after_its_hard_expiry() {
    let kit = past_soft().await;
    advance(540 * SECOND - MS).await;
    assert_eq!(kit.get("k", Err(Boom(1))).await, "old Stale", "just before");
    advance(MS).await;
    assert_eq!(kit.get("k", Err(Boom(2))).await, "error: the loader failed: boom 2");
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_never_served_when_its_hard_expiry_comes_while_waiting() {
    let kit = past_soft().await;
    advance(540 * SECOND - 50 * MS).await;
    let load = kit.begin_load("k").await;
    advance(50 * MS).await;
    assert_eq!(load.answer(Err(Boom(1))).await, "error: the loader failed: boom 1");
}
