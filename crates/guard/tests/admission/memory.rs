use madang_guard::{Reason, Suspect};

use crate::kit::{MINUTE, Yard, at, config, unsuspecting};

/// Memory of all entries at the default capacity, as in docs/SECURITY.md.
const MAX_BYTES: u64 = 25_000_000;

#[tokio::test(start_paused = true)]
async fn a_million_addresses_and_names_neither_grow_the_guard_nor_free_a_victim() {
    let yard = Yard::new(config());
    // One pair used up, one account under attack, one address over its limit.
    yard.fail_times(10, at("victim", 1)).await;
    yard.fail_from("target", 1_000..1_020).await;
    for account in 0..50 {
        yard.fail(at(&format!("cafe{account}"), 2)).await;
    }
    let mut name = String::new();
    for number in 0..1_000_000u32 {
        use std::fmt::Write as _;
        name.clear();
        write!(name, "n{number}").unwrap();
        yard.fail(at(&name, 10_000 + number)).await;
    }
    let metrics = yard.guard.metrics();
    let capacity = 65_536 + 32_768 + 8_192 + 16_384;
    assert!(metrics.entries <= capacity, "{metrics:?}");
    assert!(metrics.entries > capacity * 9 / 10, "{metrics:?}");
    assert!(metrics.evictions > 3_000_000, "{metrics:?}");
    assert!((MAX_BYTES / 2..=MAX_BYTES).contains(&metrics.bytes), "{metrics:?}");
    assert_eq!(yard.reason(at("victim", 1)).await, Reason::Pair);
    assert_eq!(yard.reason(at("target", 5)).await, Reason::Suspicious(Suspect::Account));
    assert_eq!(yard.reason(at("new", 2)).await, Reason::Suspicious(Suspect::Address));
}

#[tokio::test(start_paused = true)]
async fn refused_attempts_take_no_place() {
    let yard = Yard::new(config());
    yard.fail_users(50, 1).await;
    let before = yard.guard.metrics().entries;
    for account in 0..10_000 {
        yard.refused(at(&format!("other{account}"), 1)).await;
    }
    assert_eq!(yard.guard.metrics().entries, before);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_flight_is_never_forgotten() {
    let yard = Yard::new(unsuspecting());
    let _held = yard.hold(10, at("kim", 1)).await;
    for number in 0..200_000 {
        yard.fail(at(&number.to_string(), 10 + number)).await;
    }
    assert_eq!(yard.reason(at("kim", 1)).await, Reason::InFlight);
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_leaves_its_place() {
    let yard = Yard::new(config());
    for round in 0..20u32 {
        for number in 0..1_000 {
            yard.fail(at(&number.to_string(), round * 1_000 + number)).await;
        }
        yard.clock.advance(120 * MINUTE);
    }
    assert_eq!(yard.guard.metrics().evictions, 0);
}
