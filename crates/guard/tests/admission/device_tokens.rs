use std::time::Duration;

use madang_guard::config::{DeviceTokenConfig, Suspicion};
use madang_guard::{GuardConfig, Key, Reason, Suspect};

use crate::kit::{MINUTE, Yard, at, config, suspecting, unsuspecting};

/// A guard with an attack on the account `kim`, and a device token of its owner.
async fn attacked() -> (Yard, String) {
    let yard = Yard::new(config());
    let token = yard.log_in(at("kim", 1)).await.unwrap();
    assert_eq!(token.max_age, Duration::from_secs(90 * 86_400));
    attack(&yard).await;
    (yard, token.value)
}

async fn attack(yard: &Yard) {
    yard.fail_from("kim", 100..120).await;
    assert_eq!(yard.reason(at("kim", 1)).await, Reason::Suspicious(Suspect::Account));
}

#[tokio::test(start_paused = true)]
async fn a_mark_lets_its_account_in_from_anywhere_and_no_other() {
    let (yard, token) = attacked().await;
    yard.admit(at("kim", 999).token(&token)).await.unwrap().succeed();
    yard.fail_from("lee", 200..220).await;
    let refused = yard.reason(at("lee", 1).token(&token)).await;
    assert_eq!(refused, Reason::Suspicious(Suspect::Account));
    assert_eq!(yard.guard.metrics().device_tokens_rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn an_altered_mark_is_worth_nothing() {
    let (yard, token) = attacked().await;
    for at_byte in 0..token.len() {
        let mut altered = token.clone().into_bytes();
        altered[at_byte] = if altered[at_byte] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();
        let refused = yard.admit(at("kim", 1).token(&altered)).await;
        assert!(refused.is_err(), "byte {at_byte}");
    }
    let long = "A".repeat(1 << 20);
    for altered in
        ["", "1.", "2.", "3.", &token[..token.len() - 1], &format!("{token}A"), "2.ä", &long]
    {
        assert!(yard.admit(at("kim", 1).token(altered)).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_expires_after_ninety_days() {
    let yard = Yard::new(config());
    let token = yard.log_in(at("kim", 1)).await.unwrap().value;
    yard.clock.advance(Duration::from_secs(90 * 86_400 - 1));
    attack(&yard).await;
    yard.admit(at("kim", 1).token(&token)).await.unwrap().succeed();
    yard.clock.advance(Duration::from_secs(1));
    // Without a device token one attempt is due now.
    yard.fail(at("kim", 2)).await;
    assert!(yard.admit(at("kim", 1).token(&token)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_mark_outlives_the_process_with_its_key() {
    let (_, token) = attacked().await;
    let same_key = Yard::new(config());
    attack(&same_key).await;
    same_key.admit(at("kim", 1).token(&token)).await.unwrap().succeed();
    let other_key = Yard::new(GuardConfig { key: Key::new([8; 32]), ..config() });
    attack(&other_key).await;
    assert!(other_key.admit(at("kim", 1).token(&token)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_mark_ends_with_the_password_it_was_earned_with() {
    let (yard, token) = attacked().await;
    let old = at("kim", 1).token(&token);
    for changed in ["", "hash2", "has"] {
        let refused = yard.reason(old.credential(changed)).await;
        assert_eq!(refused, Reason::Suspicious(Suspect::Account), "{changed:?}");
    }
    // Bytes of the name cannot be moved into the credential.
    assert!(yard.admit(at("kimh", 1).credential("ash").token(&token)).await.is_ok());
    assert_eq!(yard.guard.metrics().device_tokens_accepted, 0);
    yard.admit(old).await.unwrap().succeed();
    assert_eq!(yard.guard.metrics().device_tokens_accepted, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stolen_mark_is_put_aside_after_ten_failures() {
    let (yard, token) = attacked().await;
    let thief = at("kim", 66).token(&token);
    let (guesses, refused) = yard.guess(thief).await;
    assert_eq!((guesses, refused.reason), (10, Reason::Suspicious(Suspect::Account)));
    // From another address it is the same device token.
    assert!(yard.admit(at("kim", 67).token(&token)).await.is_err());
    yard.clock.advance(15 * MINUTE * 9 / 8);
    // Ten with the device token, and the one that is due to the account without it.
    assert_eq!(yard.guess(thief).await.0, 11);
}

#[tokio::test(start_paused = true)]
async fn all_marks_of_an_account_together_have_a_hundred_failures() {
    let yard = Yard::new(config());
    let (mut tokens, mut of_lee) = (Vec::new(), None);
    for _ in 0..12 {
        tokens.push(yard.log_in(at("kim", 1)).await.unwrap().value);
        of_lee = yard.log_in(at("lee", 1)).await;
    }
    attack(&yard).await;
    let mut guesses = 0;
    for token in &tokens {
        guesses += yard.guess(at("kim", 1).token(token)).await.0;
    }
    assert_eq!(guesses, 100);
    // The owner with an unused token needs a proof, like all clients; other accounts are not affected.
    let owner = yard.reason(at("kim", 1).token(&tokens[11])).await;
    assert_eq!(owner, Reason::Suspicious(Suspect::Account));
    yard.fail(at("lee", 1).token(&of_lee.unwrap().value)).await;
    yard.clock.advance(15 * MINUTE * 9 / 8);
    yard.admit(at("kim", 1).token(&tokens[11])).await.unwrap().succeed();
}

#[tokio::test(start_paused = true)]
async fn a_mark_counts_its_own_failures_and_nobody_elses() {
    let yard = Yard::new(config());
    let token = yard.log_in(at("kim", 1)).await.unwrap().value;
    yard.fail_times(10, at("kim", 1)).await;
    assert_eq!(yard.reason(at("kim", 1)).await, Reason::Pair);
    yard.fail_times(9, at("kim", 1).token(&token)).await;
    yard.admit(at("kim", 1).token(&token)).await.unwrap().succeed();
    yard.fail_times(10, at("kim", 1).token(&token)).await;
    // Over its limit it is ignored.
    assert_eq!(yard.reason(at("kim", 1).token(&token)).await, Reason::Pair);
    yard.fail(at("kim", 2).token(&token)).await;
}

#[tokio::test(start_paused = true)]
async fn each_success_brings_a_new_mark() {
    let yard = Yard::new(config());
    let first = yard.log_in(at("kim", 1)).await.unwrap().value;
    let second = yard.log_in(at("kim", 1).token(&first)).await.unwrap().value;
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn marks_can_be_switched_off_and_set() {
    let yard = Yard::new(unsuspecting());
    assert!(yard.log_in(at("kim", 1)).await.is_none());
    let (_, token) = attacked().await;
    let off = Yard::new(suspecting(Suspicion { device_tokens: None, ..Suspicion::default() }));
    attack(&off).await;
    assert!(off.admit(at("kim", 1).token(&token)).await.is_err());
    let device_tokens = Some(DeviceTokenConfig { failures: 2, ..DeviceTokenConfig::default() });
    let two = Yard::new(suspecting(Suspicion { device_tokens, ..Suspicion::default() }));
    attack(&two).await;
    assert_eq!(two.guess(at("kim", 1).token(&token)).await.0, 2);
}
