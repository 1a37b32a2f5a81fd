use std::net::IpAddr;
use std::time::Duration;

use madang_guard::config::FailureLimit;
use madang_guard::{GuardConfig, Reason};

use crate::kit::{HOUR, MINUTE, Yard, assert_delay, at, from, unsuspecting};

#[tokio::test(start_paused = true)]
async fn ten_wrong_guesses_per_account_and_address() {
    let yard = Yard::new(unsuspecting());
    let (admitted, refused) = yard.guess(at("kim", 1)).await;
    assert_eq!((admitted, refused.reason), (10, Reason::Pair));
    yard.fail(at("kim", 2)).await;
    yard.fail(at("lee", 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_window_holds_for_its_length_and_ends_within_nine_eighths_of_it() {
    let yard = Yard::new(unsuspecting());
    let (eighth, tick) = (15 * MINUTE / 8, Duration::from_nanos(1));
    yard.fail_times(5, at("kim", 1)).await; // first moment of a step
    yard.clock.advance(eighth - tick);
    yard.fail_times(5, at("kim", 1)).await; // last moment of it
    yard.clock.advance(15 * MINUTE);
    let refused = yard.refused(at("kim", 1)).await;
    assert_eq!(refused.reason, Reason::Pair);
    assert_delay(&refused, tick);
    yard.clock.advance(tick);
    assert_eq!(yard.guess(at("kim", 1)).await.0, 10);
}

#[tokio::test(start_paused = true)]
async fn failures_are_forgotten_one_step_after_the_other() {
    let yard = Yard::new(unsuspecting());
    let eighth = 15 * MINUTE / 8;
    for _ in 0..5 {
        yard.fail_times(2, at("kim", 1)).await;
        yard.clock.advance(eighth);
    }
    assert_delay(&yard.refused(at("kim", 1)).await, 4 * eighth);
    yard.clock.advance(4 * eighth);
    assert_eq!(yard.guess(at("kim", 1)).await.0, 2);
    yard.clock.advance(eighth);
    assert_eq!(yard.guess(at("kim", 1)).await.0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_forgets_nothing_and_one_that_leaps_forgets_all() {
    let yard = Yard::new(unsuspecting());
    yard.fail_times(10, at("kim", 1)).await;
    for _ in 0..1_000 {
        assert_eq!(yard.reason(at("kim", 1)).await, Reason::Pair);
    }
    yard.clock.advance(200 * 365 * 24 * HOUR);
    assert_eq!(yard.guess(at("kim", 1)).await.0, 10);
}

#[tokio::test(start_paused = true)]
async fn refused_attempts_do_not_prolong_a_refusal() {
    let yard = Yard::new(unsuspecting());
    yard.fail_times(10, at("kim", 1)).await;
    for _ in 0..16 {
        yard.clock.advance(MINUTE);
        assert_eq!(yard.reason(at("kim", 1)).await, Reason::Pair);
    }
    yard.clock.advance(MINUTE);
    yard.fail(at("kim", 1)).await;
}

#[tokio::test(start_paused = true)]
async fn success_clears_the_pair_only() {
    let yard = Yard::new(unsuspecting());
    yard.fail_times(9, at("kim", 1)).await;
    yard.admit(at("kim", 1)).await.unwrap().succeed();
    yard.fail_times(10, at("kim", 1)).await;
    // 19 failures of the account are not forgotten: the next is the twentieth.
    yard.fail(at("kim", 2)).await;
    assert_eq!(yard.reason(at("kim", 3)).await, Reason::Account);
}

#[tokio::test(start_paused = true)]
async fn an_account_is_delayed_ever_longer_and_never_locked() {
    let yard = Yard::new(unsuspecting());
    yard.fail_from("kim", 0..20).await;
    for (address, seconds) in [1, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
        let next = at("kim", 100 + address as u32);
        let refused = yard.refused(next).await;
        assert_eq!(refused.reason, Reason::Account);
        assert_delay(&refused, Duration::from_secs(seconds));
        yard.clock.advance(Duration::from_secs(seconds) - Duration::from_nanos(1));
        assert_eq!(yard.reason(next).await, Reason::Account);
        yard.clock.advance(Duration::from_nanos(1));
        yard.fail(next).await;
    }
    yard.clock.advance(MINUTE);
    yard.admit(at("kim", 999)).await.unwrap().succeed();
}

#[tokio::test(start_paused = true)]
async fn a_delayed_account_is_tried_one_at_a_time() {
    let yard = Yard::new(unsuspecting());
    yard.fail_from("kim", 0..20).await;
    yard.clock.advance(MINUTE);
    let first = yard.admit(at("kim", 100)).await.unwrap();
    assert_eq!(yard.reason(at("kim", 101)).await, Reason::InFlight);
    first.cancel();
    yard.fail(at("kim", 101)).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_fails_three_hundred_times() {
    let yard = Yard::new(unsuspecting());
    let mut admitted = 0;
    for account in 0..40 {
        let (guesses, refused) = yard.guess(at(&format!("user{account}"), 1)).await;
        admitted += guesses;
        assert_eq!(refused.reason, if account < 30 { Reason::Pair } else { Reason::Address });
    }
    assert_eq!(admitted, 300);
    yard.fail(at("user39", 2)).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_fails_at_fifty_accounts() {
    let yard = Yard::new(unsuspecting());
    for account in 0..50 {
        yard.fail(at(&format!("user{account}"), 1)).await;
        yard.clock.advance(Duration::from_secs(1));
    }
    for account in 0..100 {
        let refused = yard.refused(at(&format!("user{account}"), 1)).await;
        assert_eq!(refused.reason, Reason::Address);
        // The oldest goes in the ninth step of 75 s.
        assert_delay(&refused, Duration::from_secs(9 * 75 - 50));
    }
    yard.clock.advance(Duration::from_secs(9 * 75 - 50));
    yard.fail(at("somebody", 1)).await;
}

#[tokio::test(start_paused = true)]
async fn successes_never_count_against_an_address() {
    let yard = Yard::new(unsuspecting());
    for account in 0..1_000 {
        yard.admit(at(&format!("user{account}"), 1)).await.unwrap().succeed();
    }
    assert_eq!(yard.guard.metrics().entries, 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_compared_does_not_count_and_what_was_dropped_does() {
    let yard = Yard::new(unsuspecting());
    for _ in 0..100 {
        yard.admit(at("kim", 1)).await.unwrap().cancel();
    }
    for _ in 0..10 {
        drop(yard.admit(at("kim", 1)).await.unwrap());
    }
    assert_eq!(yard.reason(at("kim", 1)).await, Reason::Pair);
    assert_eq!(yard.guard.metrics().failures, 10);
}

#[tokio::test(start_paused = true)]
async fn addresses_that_one_client_chooses_from_are_one() {
    let yard = Yard::new(unsuspecting());
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    for last in 0..10 {
        let own = format!("2001:db8:1:2:{last}::{last}");
        yard.fail(from("kim", address(&own))).await;
    }
    let refused = yard.reason(from("kim", address("2001:db8:1:2:ffff::1"))).await;
    assert_eq!(refused, Reason::Pair);
    yard.fail(from("kim", address("2001:db8:1:3::1"))).await;

    yard.fail_times(5, from("lee", address("192.0.2.7"))).await;
    yard.fail_times(5, from("lee", address("::ffff:192.0.2.7"))).await;
    assert_eq!(yard.reason(from("lee", address("192.0.2.7"))).await, Reason::Pair);
    yard.fail(from("lee", address("::ffff:192.0.2.8"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_sign_ups_per_hour_and_address() {
    let yard = Yard::new(unsuspecting());
    let home: IpAddr = "192.0.2.7".parse().unwrap();
    for _ in 0..1_000 {
        drop(yard.guard.admit_sign_up(home).await.unwrap());
    }
    let refused = yard.guard.admit_sign_up(home).await.unwrap_err();
    assert_eq!(refused.reason, Reason::SignUp);
    assert_delay(&refused, HOUR * 9 / 8);
    yard.clock.advance(HOUR * 9 / 8);
    for _ in 0..2_000 {
        yard.guard.admit_sign_up(home).await.unwrap().cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn limits_are_settings() {
    let pair = FailureLimit { failures: 3, window: MINUTE };
    let yard = Yard::new(GuardConfig { pair, ..unsuspecting() });
    let (admitted, refused) = yard.guess(at("kim", 1)).await;
    assert_eq!(admitted, 3);
    assert_delay(&refused, MINUTE * 9 / 8);
}

#[tokio::test(start_paused = true)]
async fn refused_attempts_come_back_at_different_times() {
    let yard = Yard::new(unsuspecting());
    yard.fail_times(10, at("kim", 1)).await;
    let first = yard.refused(at("kim", 1)).await.retry_after;
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(yard.refused(at("kim", 1)).await.retry_after);
    }
    assert!(others.iter().any(|other| *other != first));
}
