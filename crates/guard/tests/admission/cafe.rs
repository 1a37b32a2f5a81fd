//! One address with an attacker and 49 innocent clients.

use std::time::Duration;

use madang_guard::config::Suspicion;
use madang_guard::{Reason, Suspect};

use crate::kit::{MINUTE, Yard, assert_delay, at, quick, solve, suspecting};

const CAFE: u32 = 1;

/// Thousands of guesses at 200 names; returns the number of admitted ones.
async fn attack(yard: &Yard) -> usize {
    let mut admitted = 0;
    for attempt in 0..5_000 {
        let name = format!("user{}", attempt % 200);
        let password = format!("guess{attempt}");
        if let Ok(reservation) = yard.admit(at(&name, CAFE).password(&password)).await {
            reservation.fail();
            admitted += 1;
        }
    }
    admitted
}

#[tokio::test(start_paused = true)]
async fn all_49_get_in_by_a_proof_even_if_their_names_are_guessed_at() {
    let yard = Yard::new(quick(200));
    assert_eq!(attack(&yard).await, 50);
    for user in 0..49 {
        let name = format!("user{user}");
        let owner = at(&name, CAFE).password("right");
        let refused = yard.refused(owner).await;
        assert_eq!(refused.reason, Reason::Suspicious(Suspect::Address));
        let proof = solve(&refused.challenge.unwrap());
        yard.admit(owner.proof(&proof)).await.unwrap().succeed();
        assert_eq!(attack(&yard).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_there_before_gets_in_without_work() {
    let yard = Yard::new(quick(200));
    let mut tokens = Vec::new();
    for user in 0..49 {
        let name = format!("user{user}");
        tokens.push(yard.log_in(at(&name, CAFE)).await.unwrap().value);
    }
    assert_eq!(attack(&yard).await, 50);
    for (user, token) in tokens.iter().enumerate() {
        let name = format!("user{user}");
        yard.admit(at(&name, CAFE).token(token)).await.unwrap().succeed();
    }
}

#[tokio::test(start_paused = true)]
async fn an_attacker_with_proofs_is_bounded_by_the_pair() {
    let yard = Yard::new(quick(200));
    attack(&yard).await;
    let mut admitted = 0;
    let refused = loop {
        let next = at("fresh", CAFE);
        let refused = yard.refused(next).await;
        let Some(challenge) = &refused.challenge else {
            break refused;
        };
        yard.fail(next.proof(&solve(challenge))).await;
        admitted += 1;
    };
    assert_eq!((admitted, refused.reason), (10, Reason::Pair));
}

#[tokio::test(start_paused = true)]
async fn an_attacker_with_proofs_and_addresses_is_bounded_by_the_pace_of_the_account() {
    let yard = Yard::new(quick(200));
    yard.fail_from("kim", 0..20).await;
    for address in 100..110 {
        let next = at("kim", address);
        let proof = yard.solved(next).await;
        yard.clock.advance(Duration::from_millis(999));
        assert_eq!(yard.reason(next.proof(&proof)).await, Reason::Account);
        yard.clock.advance(Duration::from_millis(1));
        yard.fail(next.proof(&proof)).await; // The refusal did not use the proof up.
    }
}

#[tokio::test(start_paused = true)]
async fn work_grows_with_what_fails_and_not_with_what_is_refused() {
    let yard = Yard::new(quick(200));
    attack(&yard).await;
    assert_eq!(yard.refused(at("x", CAFE)).await.challenge.unwrap().maxnumber, 200);
    yard.fail_from("kim", 100..120).await;
    let mut work = Vec::new();
    for address in 0..40 {
        let next = at("kim", 200 + address);
        work.push(yard.refused(next).await.challenge.unwrap().maxnumber);
        let proof = yard.solved(next).await;
        yard.clock.advance(Duration::from_secs(1));
        yard.fail(next.proof(&proof)).await;
    }
    let expected = |n: usize| 200 << (n / 5).min(4);
    assert_eq!(work, (0..40).map(expected).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_address_is_no_longer_suspicious_than_its_window_counts() {
    let yard = Yard::new(quick(200));
    attack(&yard).await;
    // All in the first step: they count for nine eighths of the window.
    let counts = 10 * MINUTE * 9 / 8;
    assert_delay(&yard.refused(at("x", CAFE)).await, counts);
    yard.clock.advance(counts - Duration::from_nanos(1));
    assert_eq!(yard.reason(at("x", CAFE)).await, Reason::Suspicious(Suspect::Address));
    yard.clock.advance(Duration::from_nanos(1));
    yard.fail(at("x", CAFE)).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_no_proof_gets_in_to_an_attacked_account_when_its_delay_is_over() {
    let yard = Yard::new(quick(200));
    yard.fail_from("kim", 0..20).await;
    let attacked = Reason::Suspicious(Suspect::Account);
    for (address, seconds) in [1, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
        let next = at("kim", 100 + address as u32);
        let refused = yard.refused(next).await;
        assert_eq!(refused.reason, attacked);
        assert!(refused.challenge.is_some());
        assert_delay(&refused, Duration::from_secs(seconds));
        yard.clock.advance(Duration::from_secs(seconds));
        // One at a time.
        let held = yard.admit(next).await.unwrap();
        assert_eq!(yard.reason(at("kim", 99)).await, Reason::InFlight);
        held.fail();
    }
    assert_eq!(yard.reason(at("kim", 98)).await, attacked);
    yard.clock.advance(MINUTE);
    yard.admit(at("kim", 98)).await.unwrap().succeed();
}

#[tokio::test(start_paused = true)]
async fn at_a_suspicious_address_an_account_whose_delay_is_over_still_needs_a_proof() {
    let yard = Yard::new(quick(200));
    attack(&yard).await;
    yard.fail_from("kim", 100..120).await;
    yard.clock.advance(MINUTE);
    assert_eq!(yard.reason(at("kim", CAFE)).await, Reason::Suspicious(Suspect::Address));
    yard.fail(at("kim", 120)).await;
}

#[tokio::test(start_paused = true)]
async fn without_proofs_limits_refuse_and_marks_still_pass() {
    let yard = Yard::new(suspecting(Suspicion { proof: None, ..Suspicion::default() }));
    let token = yard.log_in(at("kim", CAFE)).await.unwrap().value;
    assert_eq!(attack(&yard).await, 50);
    let refused = yard.refused(at("kim", CAFE)).await;
    assert_eq!((refused.reason, refused.challenge), (Reason::Address, None));
    yard.admit(at("kim", CAFE).token(&token)).await.unwrap().succeed();
}
