//! A loader that fails is left in peace for a while.

use std::time::Duration;

use madang_cache::Policy;
use tokio::time::advance;

use crate::kit::{Boom, Kit, MS, SECOND, body, plain, settle};

fn pausing() -> Policy {
    Policy { failure_backoff: 100 * MS, failure_backoff_max: 400 * MS, ..plain() }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_failed_is_not_loaded_again_at_once() {
    let kit = Kit::new(pausing());
    assert_eq!(kit.get("k", Err(Boom(1))).await, "error: the loader failed: boom 1");
    let pause = "error: the loader failed a moment ago: the loader failed: boom 1";
    assert_eq!(kit.get("k", body("v")).await, pause);
    assert_eq!(kit.get("other", body("v")).await, "v Miss", "other keys are");
    advance(100 * MS).await;
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
    let metrics = kit.metrics();
    assert_eq!((metrics.loads, metrics.load_errors, metrics.backing_off), (3, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_pause_doubles_up_to_its_limit_and_ends_with_a_success() {
    let kit = Kit::new(pausing());
    for pause in [100, 200, 400, 400].map(Duration::from_millis) {
        kit.get("k", Err(Boom(1))).await;
        advance(pause - MS).await;
        let error = kit.get_with("k", || async { body("v") }).await.unwrap_err();
        assert_eq!((error.load_error(), error.retry_after()), (Some(&Boom(1)), Some(MS)));
        advance(MS).await;
    }
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
    kit.write("k");
    kit.get("k", Err(Boom(2))).await;
    advance(100 * MS).await;
    assert_eq!(kit.get("k", body("v")).await, "v Miss", "counting began anew");
}

#[tokio::test(start_paused = true)]
async fn the_old_value_is_served_during_the_pause() {
    let kit = Kit::new(pausing());
    kit.get("k", body("old")).await;
    advance(60 * SECOND).await;
    kit.get("k", Err(Boom(1))).await;
    assert_eq!(kit.hit("k").await, "old Stale");
    advance(100 * MS).await;
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_failed_is_not_tried_again_at_once() {
    let kit = Kit::new(Policy { refresh_ahead: Some(0.5), ..pausing() });
    kit.get("k", body("old")).await;
    advance(30 * SECOND).await;
    kit.get("k", Err(Boom(1))).await;
    settle().await;
    assert_eq!(kit.hit("k").await, "old Hit");
    settle().await;
    assert_eq!(kit.metrics().loads, 2);
    advance(100 * MS).await;
    kit.get("k", body("new")).await;
    settle().await;
    assert_eq!(kit.peek("k").as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn failures_of_very_many_keys_are_not_all_remembered() {
    let kit = Kit::new(pausing());
    for n in 0..5_000 {
        kit.get(&n.to_string(), Err(Boom(1))).await;
    }
    let mut pausing = 0;
    for n in 0..5_000 {
        pausing += usize::from(kit.get(&n.to_string(), body("v")).await.starts_with("error"));
    }
    assert_eq!(pausing, 1024);
}
