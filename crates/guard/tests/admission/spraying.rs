use madang_guard::config::{PasswordWatch, Suspicion};
use madang_guard::{Reason, Suspect};

use crate::kit::{HOUR, MINUTE, Yard, at, config, suspecting};

const SPRAYED: Reason = Reason::Suspicious(Suspect::Password);

#[tokio::test(start_paused = true)]
async fn one_password_at_many_accounts_from_two_hundred_addresses_is_stopped() {
    let yard = Yard::new(config());
    let mut admitted = 0;
    for attempt in 0..4_000 {
        let name = format!("user{attempt}");
        match yard.admit(at(&name, attempt % 200).password("spring2026")).await {
            Ok(reservation) => {
                reservation.fail();
                admitted += 1;
            }
            Err(refused) => assert_eq!(refused.reason, SPRAYED),
        }
    }
    assert_eq!(admitted, 20);
    // Other clients of the same addresses are not affected.
    for address in 0..200 {
        let name = format!("user{address}");
        yard.admit(at(&name, address).password("their own")).await.unwrap().succeed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_sprayed_password_stays_suspicious_for_an_hour_and_a_proof_lifts_it() {
    let yard = Yard::new(config());
    yard.spray(0..20, "spring2026").await;
    let owner = at("owner", 500).password("spring2026");
    yard.clock.advance(HOUR - MINUTE);
    let proof = yard.solved(owner).await;
    yard.admit(owner.proof(&proof)).await.unwrap().succeed();
    assert_eq!(yard.reason(owner).await, SPRAYED);
    yard.clock.advance(MINUTE);
    yard.admit(owner).await.unwrap().succeed();
}

#[tokio::test(start_paused = true)]
async fn two_hundred_sprays_at_once_reach_the_hash_twenty_times() {
    let yard = Yard::new(config());
    let mut tasks = tokio::task::JoinSet::new();
    let (queue, mut hash) = tokio::sync::mpsc::unbounded_channel();
    for user in 0..200 {
        let (guard, queue) = (yard.guard.clone(), queue.clone());
        tasks.spawn(async move {
            let name = format!("user{user}");
            if let Ok(reservation) = guard.admit(&at(&name, user).password("x").attempt()).await {
                queue.send(reservation).unwrap();
            }
        });
    }
    drop(queue);
    let mut hashed = 0;
    while let Some(reservation) = hash.recv().await {
        reservation.fail();
        hashed += 1;
    }
    assert_eq!(hashed, 20);
}

#[tokio::test(start_paused = true)]
async fn a_common_password_that_is_right_is_not_suspicious() {
    let yard = Yard::new(config());
    for user in 0..200 {
        let name = format!("user{user}");
        yard.admit(at(&name, user).password("12345678")).await.unwrap().succeed();
    }
    yard.spray(0..19, "12345678").await;
    for user in 0..200 {
        let name = format!("user{user}");
        yard.admit(at(&name, user).password("12345678")).await.unwrap().succeed();
    }
}

#[tokio::test(start_paused = true)]
async fn one_account_that_fails_often_does_not_make_its_password_suspicious() {
    let yard = Yard::new(config());
    for address in 0..19 {
        yard.fail(at("kim", address).password("mistyped")).await;
    }
    yard.fail(at("lee", 1).password("mistyped")).await;
}

#[tokio::test(start_paused = true)]
async fn slow_spraying_is_below_the_threshold() {
    let yard = Yard::new(config());
    // The limit is twenty accounts in ten minutes; failures expire after nine eighths of that.
    for user in 0..100 {
        yard.fail(at(&format!("user{user}"), user).password("x")).await;
        yard.clock.advance(MINUTE);
    }
}

#[tokio::test(start_paused = true)]
async fn passwords_can_be_left_unwatched_or_watched_without_proofs() {
    let yard = Yard::new(suspecting(Suspicion { passwords: None, ..Suspicion::default() }));
    yard.spray(0..100, "x").await;
    let passwords = Some(PasswordWatch { accounts: 3, ..PasswordWatch::default() });
    let suspicion = Suspicion { passwords, proof: None, ..Suspicion::default() };
    let yard = Yard::new(suspecting(suspicion));
    yard.spray(0..3, "x").await;
    let refused = yard.refused(at("user9", 9).password("x")).await;
    assert_eq!((refused.reason, refused.challenge), (Reason::Password, None));
}
