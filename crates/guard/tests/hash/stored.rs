//! Hashes of this crate.

use madang_guard::hash::{Password, Scheme, StoredHash};
use proptest::prelude::*;

const WEAK: [&str; 2] = ["argon2id:m=16,t=1,p=1", "bcrypt:4"];

fn scheme(text: &str) -> Scheme {
    text.parse().unwrap()
}

fn hash(text: &str, password: &[u8]) -> StoredHash {
    let scheme = scheme(text);
    let stored = scheme.hash(&Password::new(password.to_vec())).unwrap();
    assert_eq!(stored.scheme(), scheme);
    // As it comes back from a store.
    stored.to_string().parse().unwrap()
}

fn verify(stored: &StoredHash, password: &[u8]) -> bool {
    stored.verify(&Password::new(password.to_vec())).unwrap()
}

#[test]
fn a_hash_at_owasp_parameters_verifies_its_password_only() {
    for text in ["argon2id:m=19456,t=2,p=1", "bcrypt:10"] {
        let stored = hash(text, b"correct horse battery staple");
        assert!(verify(&stored, b"correct horse battery staple"));
        assert!(!verify(&stored, b"correct horse battery stable"));
        assert!(!stored.scheme().is_unsafe());
    }
}

#[test]
fn the_text_is_the_standard_one() {
    let argon2id = hash("argon2id:m=16,t=1,p=1", b"x").to_string();
    assert!(argon2id.starts_with("$argon2id$v=19$m=16,t=1,p=1$"), "{argon2id}");
    assert_eq!(argon2id.len(), "$argon2id$v=19$m=16,t=1,p=1$".len() + 22 + 1 + 43);
    let bcrypt = hash("bcrypt:4", b"x").to_string();
    assert!(bcrypt.starts_with("$2b$04$"), "{bcrypt}");
    assert_eq!(bcrypt.len(), 60);
    let prehashed = hash("bcrypt:4", &[b'x'; 72]).to_string();
    assert!(prehashed.starts_with("$bcrypt-sha256$v=2,t=2b,r=4$"), "{prehashed}");
}

#[test]
fn two_hashes_of_one_password_differ() {
    for scheme in WEAK {
        assert_ne!(hash(scheme, b"same").as_str(), hash(scheme, b"same").as_str());
    }
}

#[test]
fn every_byte_of_a_long_password_counts() {
    for scheme in WEAK {
        for length in [1, 55, 70, 71, 72, 73, 127, 128, 255, 256, 1024, 4096] {
            let password = vec![b'p'; length];
            let stored = hash(scheme, &password);
            assert!(verify(&stored, &password), "{scheme} at {length}");
            let longer = [&password[..], b"p"].concat();
            assert!(!verify(&stored, &longer), "{scheme}: {length} and one more");
            assert!(!verify(&stored, &password[..length - 1]), "{scheme}: {length} and one less");
            let mut other = password;
            other[length - 1] ^= 1;
            assert!(!verify(&stored, &other), "{scheme}: last of {length}");
        }
    }
}

#[test]
fn nul_bytes_count() {
    for scheme in WEAK {
        let stored = hash(scheme, b"a\0a");
        assert!(verify(&stored, b"a\0a"));
        // bcrypt repeats its key with a NUL after each turn: by its plain rule these are one password.
        for other in [&b"a"[..], b"a\0", b"a\0b", b"a\0a\0a"] {
            assert!(!verify(&stored, other), "{scheme}: {other:?}");
        }
        assert!(verify(&hash(scheme, b""), b""));
    }
}

#[test]
fn a_hash_is_upgraded_when_scheme_or_cost_differ() {
    let weak_salt =
        "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHApl8ArZWb2GRPPc";
    let short_output =
        "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg";
    let bcrypt_12 = "$2y$12$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a";
    let bcrypt_4 = "$2a$04$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a";
    let argon2id = "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$gy5SuVm5Z7Vw7keB9se9p87QGcomaseB/S2U1OhTsM0";
    for (stored, current, upgrade) in [
        (argon2id, "argon2id:m=19456,t=2,p=1", false),
        (argon2id, "argon2id:m=12288,t=3,p=1", true),
        (argon2id, "argon2id:m=65536,t=3,p=1", true),
        (argon2id, "argon2id:m=19456,t=2,p=2", true),
        (argon2id, "bcrypt:12", true),
        (weak_salt, "argon2id:m=19456,t=2,p=1", true),
        (short_output, "argon2id:m=19456,t=2,p=1", true),
        (bcrypt_12, "argon2id:m=19456,t=2,p=1", true),
        (bcrypt_12, "bcrypt:12", false),
        (bcrypt_12, "bcrypt:11", true),
        (bcrypt_4, "bcrypt:12", true),
        // An unsafe scheme replaces only unsafe hashes.
        (argon2id, "bcrypt:4", false),
        (argon2id, "argon2id:m=16,t=1,p=1", false),
        (bcrypt_12, "bcrypt:4", false),
        (bcrypt_4, "bcrypt:5", true),
    ] {
        let stored: StoredHash = stored.parse().unwrap();
        assert_eq!(stored.needs_upgrade(&scheme(current)), upgrade, "{stored} with {current}");
    }
}

#[test]
fn neither_password_nor_hash_appear_in_debug_output() {
    let password = Password::from("hunter2");
    assert_eq!(format!("{password:?}"), "Password(…)");
    let stored = scheme("bcrypt:4").hash(&password).unwrap();
    let (salt_and_output, debug) = (&stored.as_str()[7..], format!("{stored:?}"));
    assert!(!debug.contains(salt_and_output) && debug.contains("Bcrypt"), "{debug}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_password_verifies_against_its_hash_and_no_other_does(
        password in proptest::collection::vec(any::<u8>(), 0..200),
        other in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        for scheme in WEAK {
            let stored = hash(scheme, &password);
            prop_assert!(verify(&stored, &password));
            prop_assert_eq!(verify(&stored, &other), password == other);
        }
    }
}
