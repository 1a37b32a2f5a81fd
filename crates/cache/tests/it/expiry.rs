//! Times to live, jitter, negative entries.

use std::collections::BTreeSet;
use std::time::Duration;

use madang_cache::{CacheConfig, Loaded, Policy};
use tokio::time::advance;

use crate::kit::{Boom, Kit, MS, SECOND, body, plain};

#[tokio::test(start_paused = true)]
async fn an_entry_is_served_up_to_its_soft_expiry() {
    let kit = Kit::new(plain());
    kit.get("k", body("old")).await;
    advance(60 * SECOND - MS).await;
    assert_eq!(kit.hit("k").await, "old Hit");
    assert_eq!(kit.peek("k").as_deref(), Some("old"));
    advance(MS).await;
    assert_eq!(kit.peek("k"), None);
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
}

#[tokio::test(start_paused = true)]
async fn age_counts_from_the_beginning_of_the_load_not_from_its_end() {
    let kit = Kit::new(Policy { hard_ttl: 61 * SECOND, ..plain() });
    let load = kit.begin_load("k").await;
    advance(3 * SECOND).await;
    assert_eq!(load.answer(body("old")).await, "old Miss");
    advance(57 * SECOND - MS).await;
    assert_eq!(kit.hit("k").await, "old Hit");
    advance(MS).await;
    assert_eq!(kit.peek("k"), None);
    assert_eq!(kit.get("k", Err(Boom(1))).await, "old Stale");
    advance(SECOND).await;
    let told = kit.get("k", Err(Boom(2))).await;
    assert!(told.starts_with("error"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn what_took_longer_to_load_than_it_may_live_is_not_kept() {
    let kit = Kit::new(Policy { soft_ttl: SECOND, hard_ttl: 2 * SECOND, ..plain() });
    let load = kit.begin_load("k").await;
    advance(2 * SECOND).await;
    assert_eq!(load.answer(body("old")).await, "old Miss");
    assert_eq!(kit.metrics().entries, 0);
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
}

#[tokio::test(start_paused = true)]
async fn with_jitter_entries_expire_spread_over_its_range_and_never_late() {
    let (kit, clock) =
        Kit::with_manual_clock(&CacheConfig::default(), Policy { jitter: 0.5, ..plain() });
    let keys: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    for key in &keys {
        kit.get(key, body("v")).await;
    }
    let alive = || keys.iter().filter(|key| kit.peek(key).is_some()).count();
    clock.advance(30 * SECOND - MS);
    assert_eq!(alive(), 400, "none expires before the range begins");
    let mut counts = BTreeSet::new();
    for _ in 0..10 {
        clock.advance(3 * SECOND);
        counts.insert(alive());
    }
    assert!(counts.len() >= 9, "about a tenth should expire in each tenth: {counts:?}");
    clock.advance(MS);
    assert_eq!(alive(), 0, "the time to live itself is the upper bound");
}

#[tokio::test(start_paused = true)]
async fn jitter_shortens_the_hard_expiry_too() {
    let policy = Policy { jitter: 0.5, soft_ttl: SECOND, hard_ttl: 100 * SECOND, ..plain() };
    let (kit, clock) = Kit::with_manual_clock(&CacheConfig::default(), policy);
    let keys: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    for key in &keys {
        kit.get(key, body("old")).await;
    }
    clock.advance(75 * SECOND);
    let mut stale = 0;
    for key in &keys {
        stale += usize::from(kit.get(key, Err(Boom(1))).await == "old Stale");
    }
    assert!((1..200).contains(&stale), "about half should be past their hard expiry: {stale}");
}

#[tokio::test(start_paused = true)]
async fn times_to_live_without_end_are_accepted() {
    let for_ever = Policy::with_ttl(Duration::MAX, Duration::MAX);
    let kit = Kit::new(Policy { jitter: 0.0, ..for_ever });
    kit.get("k", body("v")).await;
    advance(1_000_000 * SECOND).await;
    assert_eq!(kit.hit("k").await, "v Hit");
}

#[tokio::test(start_paused = true)]
async fn absence_is_remembered_for_its_own_time() {
    let kit = Kit::new(Policy { negative_ttl: 5 * SECOND, ..plain() });
    assert_eq!(kit.get("k", Ok(Loaded::Absent)).await, "nothing Miss");
    advance(5 * SECOND - MS).await;
    assert_eq!(kit.hit("k").await, "nothing Hit");
    assert_eq!(kit.peek("k"), None);
    advance(MS).await;
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
    assert_eq!(kit.metrics().negative_hits, 1);
}

#[tokio::test(start_paused = true)]
async fn absence_is_not_remembered_without_a_time_for_it() {
    let kit = Kit::new(Policy { negative_ttl: Duration::ZERO, ..plain() });
    assert_eq!(kit.get("k", Ok(Loaded::Absent)).await, "nothing Miss");
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
}

#[tokio::test(start_paused = true)]
async fn absence_takes_the_place_of_an_older_value() {
    for negative_ttl in [5 * SECOND, Duration::ZERO] {
        let kit = Kit::new(Policy { negative_ttl, ..plain() });
        kit.get("k", body("old")).await;
        advance(60 * SECOND).await;
        assert_eq!(kit.get("k", Ok(Loaded::Absent)).await, "nothing Miss");
        advance(5 * SECOND).await;
        let told = kit.get("k", Err(Boom(1))).await;
        assert_eq!(told, "error: the loader failed: boom 1", "the old value is gone");
    }
}
