use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use madang_guard::clock::ManualClock;
use madang_guard::suspicion::{Challenge, ProofError};
use madang_guard::{GuardConfig, Key, Reason, Suspect};
use sha2::Sha256;

use crate::kit::{HOUR, MINUTE, Yard, at, number, payload, poll, quick, solve, unsuspecting};

/// A guard to which address 1 is suspicious.
async fn suspicious() -> Yard {
    suspicious_by(quick(50)).await
}

async fn suspicious_by(config: GuardConfig) -> Yard {
    let yard = Yard::new(config);
    yard.fail_users(50, 1).await;
    yard
}

async fn challenge(yard: &Yard, account: &str) -> Challenge {
    yard.refused(at(account, 1)).await.challenge.unwrap()
}

async fn error(yard: &Yard, account: &str, proof: &str) -> ProofError {
    let refused = yard.refused(at(account, 1).proof(proof)).await;
    assert_eq!(refused.reason, Reason::Suspicious(Suspect::Address));
    assert!(refused.challenge.is_some(), "a new challenge comes with the refusal");
    refused.proof_error.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_challenge_is_what_altcha_widgets_read() {
    let yard = suspicious().await;
    let challenge = challenge(&yard, "kim").await;
    let json = serde_json::to_value(&challenge).unwrap();
    let mut fields: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    fields.sort();
    assert_eq!(fields, ["algorithm", "challenge", "maxnumber", "salt", "signature"]);
    assert_eq!(json["algorithm"], "SHA-256");
    assert_eq!(json["maxnumber"], 50);
    assert!(number(&challenge) <= 50);
    let (_, parameters) = challenge.salt.split_once('?').unwrap();
    let expires = ManualClock::EPOCH + 300;
    assert!(parameters.starts_with(&format!("expires={expires}&")), "{parameters}");
    assert!(parameters.ends_with('&'), "{parameters}");
    assert_eq!((challenge.challenge.len(), challenge.signature.len()), (64, 64));
}

#[tokio::test(start_paused = true)]
async fn a_proof_is_good_for_one_attempt() {
    let yard = suspicious().await;
    let proof = solve(&challenge(&yard, "kim").await);
    yard.fail(at("kim", 1).proof(&proof)).await;
    assert_eq!(error(&yard, "kim", &proof).await, ProofError::Used);
    let metrics = yard.guard.metrics();
    assert_eq!((metrics.proofs_accepted, metrics.proofs_rejected), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_proof_is_not_lost_to_an_attempt_that_was_not_compared() {
    let yard = suspicious().await;
    let proof = solve(&challenge(&yard, "kim").await);
    for _ in 0..3 {
        yard.admit(at("kim", 1).proof(&proof)).await.unwrap().cancel();
    }
    drop(yard.admit(at("kim", 1).proof(&proof)).await.unwrap());
    assert_eq!(error(&yard, "kim", &proof).await, ProofError::Used);
}

#[tokio::test(start_paused = true)]
async fn of_parallel_attempts_with_one_proof_one_goes_on() {
    let yard = suspicious().await;
    let proof = solve(&challenge(&yard, "kim").await);
    let attempt = at("kim", 1).proof(&proof).attempt();
    let mut held = Vec::new();
    // Ten in flight leave no place; ten more wait with the same proof.
    for _ in 0..10 {
        let other = solve(&challenge(&yard, "kim").await);
        held.push(yard.admit(at("kim", 1).proof(&other)).await.unwrap());
    }
    let mut waiters: Vec<_> = (0..10).map(|_| Box::pin(yard.guard.admit(&attempt))).collect();
    assert!(waiters.iter_mut().all(|waiter| poll(waiter).is_none()));
    for reservation in held {
        reservation.cancel();
    }
    let answers: Vec<_> = waiters.iter_mut().map(|waiter| poll(waiter).unwrap()).collect();
    assert_eq!(answers.iter().flatten().count(), 1);
    let used = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(used.into_iter().all(|refused| refused.proof_error == Some(ProofError::Used)));
    assert_eq!(yard.guard.metrics().in_flight, 1);
}

#[tokio::test(start_paused = true)]
async fn under_load_who_has_nothing_to_show_is_asked_for_a_proof() {
    let yard = Yard::new(quick(50));
    let token = yard.log_in(at("lee", 1)).await.unwrap().value;
    let refused = yard.refused(at("kim", 1).under_load()).await;
    assert_eq!(refused.reason, Reason::Suspicious(Suspect::Load));
    let proof = solve(&refused.challenge.unwrap());
    yard.fail(at("kim", 1).under_load().proof(&proof)).await;
    let again = yard.refused(at("kim", 1).under_load().proof(&proof)).await;
    assert_eq!(again.proof_error, Some(ProofError::Used));
    yard.admit(at("lee", 1).under_load().token(&token)).await.unwrap().succeed();
    assert_eq!(yard.guard.metrics().suspicious_load, 2);
    // Nothing of it is remembered.
    yard.admit(at("kim", 1)).await.unwrap().succeed();
}

#[tokio::test(start_paused = true)]
async fn without_proofs_load_is_left_to_the_hash_pool() {
    let yard = Yard::new(unsuspecting());
    yard.admit(at("kim", 1).under_load()).await.unwrap().succeed();
}

#[tokio::test(start_paused = true)]
async fn a_proof_belongs_to_its_account_and_address() {
    let yard = suspicious().await;
    let proof = solve(&challenge(&yard, "kim").await);
    assert_eq!(error(&yard, "lee", &proof).await, ProofError::Unbound);
    yard.fail_users(50, 2).await;
    let refused = yard.refused(at("kim", 2).proof(&proof)).await;
    assert_eq!(refused.proof_error, Some(ProofError::Unbound));
    yard.fail(at("kim", 1).proof(&proof)).await;
}

#[tokio::test(start_paused = true)]
async fn a_proof_expires_after_five_minutes_whatever_the_date_does() {
    let yard = suspicious().await;
    let (first, second) = (challenge(&yard, "kim").await, challenge(&yard, "kim").await);
    yard.clock.advance(5 * MINUTE - Duration::from_secs(1));
    let proof = solve(&first);
    yard.fail(at("kim", 1).proof(&proof)).await;
    yard.clock.advance(Duration::from_secs(1));
    assert_eq!(error(&yard, "kim", &solve(&second)).await, ProofError::Expired);
    yard.clock.set_unix_seconds(0);
    assert_eq!(error(&yard, "kim", &proof).await, ProofError::Used);
    yard.clock.set_unix_seconds(u64::MAX);
    let refused = yard.refused(at("kim", 1).proof(&proof)).await;
    assert_eq!(refused.proof_error, Some(ProofError::Expired));
}

#[tokio::test(start_paused = true)]
async fn nothing_in_a_proof_can_be_altered() {
    let yard = suspicious().await;
    let challenge = challenge(&yard, "kim").await;
    let right = number(&challenge);
    let wrong = (right + 1) % 50;
    let wrong = payload(&challenge, &wrong.to_string());
    assert_eq!(error(&yard, "kim", &wrong).await, ProofError::Wrong);
    let right = right.to_string();
    let altered_error =
        async |altered: Challenge| error(&yard, "kim", &payload(&altered, &right)).await;
    let flip = |text: &str, at: usize| {
        let with = if &text[at..=at] == "0" { "1" } else { "0" };
        format!("{}{with}{}", &text[..at], &text[at + 1..])
    };
    for byte in [0, 63] {
        let signature = flip(&challenge.signature, byte);
        let altered = Challenge { signature, ..challenge.clone() };
        assert_eq!(altered_error(altered).await, ProofError::Wrong);
        let altered =
            Challenge { challenge: flip(&challenge.challenge, byte), ..challenge.clone() };
        assert_eq!(altered_error(altered).await, ProofError::Wrong);
    }
    for byte in 0..challenge.salt.len() {
        let altered = Challenge { salt: flip(&challenge.salt, byte), ..challenge.clone() };
        let altered = payload(&altered, &right);
        let refused = yard.refused(at("kim", 1).proof(&altered)).await;
        assert!(refused.proof_error.is_some(), "byte {byte}");
    }
    for algorithm in ["SHA-1", "none", ""] {
        let altered = Challenge { algorithm, ..challenge.clone() };
        assert_eq!(altered_error(altered).await, ProofError::Malformed);
    }
    yard.fail(at("kim", 1).proof(&payload(&challenge, &right))).await;
}

#[tokio::test(start_paused = true)]
async fn digits_cannot_wander_between_salt_and_number() {
    // The hash covers salt and number as one text; only the delimiter separates them.
    let yard = suspicious().await;
    let challenge = challenge(&yard, "kim").await;
    let number = number(&challenge).to_string();
    for cut in 1..=number.len() {
        let salt = format!("{}{}", challenge.salt, &number[..cut]);
        let spliced = Challenge { salt, ..challenge.clone() };
        let rest = if cut == number.len() { "0" } else { &number[cut..] };
        assert_eq!(error(&yard, "kim", &payload(&spliced, rest)).await, ProofError::Malformed);
    }
    let salt = challenge.salt.trim_end_matches('&').to_owned();
    let spliced = Challenge { salt, ..challenge };
    assert_eq!(error(&yard, "kim", &payload(&spliced, &number)).await, ProofError::Malformed);
}

#[tokio::test(start_paused = true)]
async fn numbers_that_are_none_are_malformed() {
    let yard = suspicious().await;
    let challenge = challenge(&yard, "kim").await;
    let right = number(&challenge);
    let (float, text, lead) =
        (format!("{right}.0"), format!("\"{right}\""), format!("0{}", right + 10));
    for number in [
        "-1", "-0.0", "1.5", "1e1", "51", "4294967296", "18446744073709551616", "null", "[]", "{}",
        "true", "", &float, &text, &lead,
    ] {
        let proof = payload(&challenge, number);
        assert_eq!(error(&yard, "kim", &proof).await, ProofError::Malformed, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_payload_is_malformed() {
    let yard = suspicious().await;
    let challenge = challenge(&yard, "kim").await;
    let right = solve(&challenge);
    let json = STANDARD.decode(&right).unwrap();
    let twice = String::from_utf8(json.clone()).unwrap().replace("}", r#","number":1}"#);
    let padded = [json.as_slice(), &[b' '; 2_048]].concat();
    let nested = "[".repeat(1_000);
    for proof in [
        String::new(),
        "=".to_owned(),
        "not base64".to_owned(),
        right.replace('=', "") + "A",
        STANDARD.encode("{}"),
        STANDARD.encode("null"),
        STANDARD.encode([0xff, 0xfe]),
        STANDARD.encode(&nested),
        STANDARD.encode(&twice),
        STANDARD.encode(&padded),
        STANDARD.encode(&json[..json.len() - 1]),
        "A".repeat(1 << 20),
    ] {
        assert_eq!(error(&yard, "kim", &proof).await, ProofError::Malformed, "{proof:.80}");
    }
    for salt in [
        "",
        "?",
        "?expires=",
        "?expires=1&max=1&for=&",
        "0123456789abcdef?expires=99999999999999999999&max=5&for=0123456789abcdef&",
    ] {
        let altered = Challenge { salt: salt.to_owned(), ..challenge.clone() };
        assert_eq!(error(&yard, "kim", &payload(&altered, "1")).await, ProofError::Malformed);
    }
    yard.fail(at("kim", 1).proof(&right)).await;
}

#[tokio::test(start_paused = true)]
async fn a_challenge_signed_by_another_key_is_wrong() {
    let yard = suspicious().await;
    let other = suspicious_by(GuardConfig { key: Key::new([8; 32]), ..quick(50) }).await;
    let foreign = solve(&challenge(&other, "kim").await);
    assert_eq!(error(&yard, "kim", &foreign).await, ProofError::Wrong);
    // The configured key itself does not sign either: each purpose has its own key.
    let own = challenge(&yard, "kim").await;
    let mac = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap().chain_update(&own.challenge);
    let signature: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let forged = solve(&Challenge { signature, ..own });
    assert_eq!(error(&yard, "kim", &forged).await, ProofError::Wrong);
}

#[tokio::test(start_paused = true)]
async fn nodes_with_one_key_accept_each_others_challenges() {
    let (here, there) = (suspicious().await, suspicious().await);
    let proof = solve(&challenge(&here, "kim").await);
    there.fail(at("kim", 1).proof(&proof)).await;
}

#[tokio::test(start_paused = true)]
async fn a_proof_that_is_not_needed_is_not_used_up() {
    let yard = suspicious().await;
    let proof = solve(&challenge(&yard, "kim").await);
    let nobody = "not even looked at";
    yard.fail(at("lee", 7).proof(nobody)).await;
    yard.fail_times(10, at("kim", 9)).await;
    assert_eq!(yard.reason(at("kim", 9).proof(&proof)).await, Reason::Pair);
    yard.fail(at("kim", 1).proof(&proof)).await;
}

#[tokio::test(start_paused = true)]
async fn no_proof_is_accepted_twice_when_the_memory_of_used_ones_is_full() {
    let yard = suspicious_by(GuardConfig { used_proofs: 8, ..quick(50) }).await;
    let mut proofs = Vec::new();
    for user in 0..20 {
        let name = format!("kim{user}");
        let proof = solve(&challenge(&yard, &name).await);
        yard.fail(at(&name, 1).proof(&proof)).await;
        proofs.push((name, proof));
        yard.clock.advance(Duration::from_secs(1));
    }
    for (name, proof) in &proofs {
        assert_eq!(error(&yard, name, proof).await, ProofError::Used);
    }
    let fresh = solve(&challenge(&yard, "new").await);
    yard.fail(at("new", 1).proof(&fresh)).await;
}

#[tokio::test(start_paused = true)]
async fn challenges_do_not_repeat() {
    let yard = suspicious().await;
    let (one, two) = (challenge(&yard, "kim").await, challenge(&yard, "kim").await);
    assert_ne!(one.salt, two.salt);
    assert_ne!(one.challenge, two.challenge);
    yard.clock.advance(HOUR);
    yard.fail(at("kim", 1)).await;
}
