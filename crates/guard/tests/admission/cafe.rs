//! One address, an attacker, and 49 others who did nothing.

use madang_guard::config::{ProofConfig, Suspicion};
use madang_guard::{GuardConfig, Reason, Suspect};

use crate::kit::{MINUTE, Yard, assert_delay, at, config};

/// As by default, but quick to solve.
fn quick() -> GuardConfig {
    let proof = Some(ProofConfig { work: 200 });
    GuardConfig { suspicion: Some(Suspicion { proof, ..Suspicion::default() }), ..config() }
}

const CAFE: u32 = 1;

/// Thousands of guesses at 200 names; how many were admitted.
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
    let yard = Yard::new(quick());
    assert_eq!(attack(&yard).await, 50);
    for user in 0..49 {
        let name = format!("user{user}");
        let owner = at(&name, CAFE).password("right");
        let refused = yard.refused(owner).await;
        assert_eq!(refused.reason, Reason::Suspicious(Suspect::Address));
        let proof = crate::kit::solve(&refused.challenge.unwrap());
        yard.admit(owner.proof(&proof)).await.unwrap().succeed();
        assert_eq!(attack(&yard).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_there_before_gets_in_without_work() {
    let yard = Yard::new(quick());
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
    let yard = Yard::new(quick());
    attack(&yard).await;
    let mut admitted = 0;
    let refused = loop {
        let next = at("fresh", CAFE);
        let refused = yard.refused(next).await;
        let Some(challenge) = &refused.challenge else {
            break refused;
        };
        yard.fail(next.proof(&crate::kit::solve(challenge))).await;
        admitted += 1;
    };
    assert_eq!((admitted, refused.reason), (10, Reason::Pair));
}

#[tokio::test(start_paused = true)]
async fn an_attacker_with_proofs_and_addresses_is_bounded_by_the_pace_of_the_account() {
    let yard = Yard::new(quick());
    for address in 0..20 {
        yard.fail(at("kim", address)).await;
    }
    for address in 100..110 {
        let next = at("kim", address);
        let proof = yard.solved(next).await;
        yard.clock.advance(std::time::Duration::from_millis(999));
        assert_eq!(yard.reason(next.proof(&proof)).await, Reason::Account);
        yard.clock.advance(std::time::Duration::from_millis(1));
        yard.fail(next.proof(&proof)).await; // The refusal did not use the proof up.
    }
}

#[tokio::test(start_paused = true)]
async fn work_grows_with_what_fails_and_not_with_what_is_refused() {
    let yard = Yard::new(quick());
    attack(&yard).await;
    assert_eq!(yard.refused(at("x", CAFE)).await.challenge.unwrap().maxnumber, 200);
    for address in 0..20 {
        yard.fail(at("kim", 100 + address)).await;
    }
    let mut work = Vec::new();
    for address in 0..40 {
        let next = at("kim", 200 + address);
        work.push(yard.refused(next).await.challenge.unwrap().maxnumber);
        let proof = yard.solved(next).await;
        yard.clock.advance(std::time::Duration::from_secs(1));
        yard.fail(next.proof(&proof)).await;
    }
    let expected = |n: usize| 200 << (n / 5).min(4);
    assert_eq!(work, (0..40).map(expected).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_address_is_no_longer_suspicious_than_its_window_counts() {
    let yard = Yard::new(quick());
    attack(&yard).await;
    // All in the first step: they count for nine eighths of the window.
    let counts = 10 * MINUTE * 9 / 8;
    assert_delay(&yard.refused(at("x", CAFE)).await, counts);
    yard.clock.advance(counts - std::time::Duration::from_nanos(1));
    assert_eq!(yard.reason(at("x", CAFE)).await, Reason::Suspicious(Suspect::Address));
    yard.clock.advance(std::time::Duration::from_nanos(1));
    yard.fail(at("x", CAFE)).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_no_proof_gets_in_to_an_attacked_account_when_its_delay_is_over() {
    let yard = Yard::new(quick());
    for address in 0..20 {
        yard.fail(at("kim", address)).await;
    }
    let attacked = Reason::Suspicious(Suspect::Account);
    for (address, seconds) in [1, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
        let next = at("kim", 100 + address as u32);
        let refused = yard.refused(next).await;
        assert_eq!(refused.reason, attacked);
        assert!(refused.challenge.is_some());
        assert_delay(&refused, std::time::Duration::from_secs(seconds));
        yard.clock.advance(std::time::Duration::from_secs(seconds));
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
    let yard = Yard::new(quick());
    attack(&yard).await;
    for address in 100..120 {
        yard.fail(at("kim", address)).await;
    }
    yard.clock.advance(MINUTE);
    assert_eq!(yard.reason(at("kim", CAFE)).await, Reason::Suspicious(Suspect::Address));
    yard.fail(at("kim", 120)).await;
}

#[tokio::test(start_paused = true)]
async fn without_proofs_limits_refuse_and_marks_still_pass() {
    let suspicion = Some(Suspicion { proof: None, ..Suspicion::default() });
    let yard = Yard::new(GuardConfig { suspicion, ..config() });
    let token = yard.log_in(at("kim", CAFE)).await.unwrap().value;
    assert_eq!(attack(&yard).await, 50);
    let refused = yard.refused(at("kim", CAFE)).await;
    assert_eq!((refused.reason, refused.challenge), (Reason::Address, None));
    yard.admit(at("kim", CAFE).token(&token)).await.unwrap().succeed();
}
