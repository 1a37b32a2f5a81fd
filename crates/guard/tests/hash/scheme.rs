//! Schemes of settings.

use madang_guard::hash::{Scheme, SchemeError};

#[test]
fn a_scheme_prints_what_it_is_read_from() {
    for text in [
        "bcrypt:4", "bcrypt:10", "bcrypt:14", "argon2id:m=19456,t=2,p=1", "argon2id:m=8,t=1,p=1",
        "argon2id:m=128,t=64,p=16", "argon2id:m=262144,t=4,p=4",
    ] {
        assert_eq!(text.parse::<Scheme>().unwrap().to_string(), text);
    }
    assert_eq!("argon2id".parse(), Ok(Scheme::default()));
    assert_eq!(Scheme::default().to_string(), "argon2id:m=19456,t=2,p=1");
}

#[test]
fn what_is_no_scheme_is_refused_with_a_reason() {
    for text in [
        "",
        "bcrypt",
        "bcrypt:",
        "bcrypt:+10",
        "bcrypt:010",
        "bcrypt:10 ",
        "BCRYPT:10",
        "argon2i",
        "argon2id:",
        "argon2id:m=19456",
        "argon2id:t=2,m=19456,p=1",
        "argon2id:m=19456,t=2,p=1,x=1",
        "argon2id:m=99999999999,t=2,p=1",
        "argon2id:m=-1,t=2,p=1",
        "md5:1",
        "scrypt:n=1",
    ] {
        let error = text.parse::<Scheme>().unwrap_err();
        assert!(matches!(error, SchemeError::Unknown { .. }), "{text}: {error}");
    }
}

#[test]
fn a_scheme_beyond_a_limit_is_refused_and_the_limit_named() {
    for (text, named) in [
        ("bcrypt:3", "4..=14"),
        ("bcrypt:15", "4..=14"),
        ("bcrypt:4294967295", "4..=14"),
        ("argon2id:m=262145,t=1,p=1", "8..=262144"),
        ("argon2id:m=7,t=1,p=1", "8..=262144"),
        ("argon2id:m=31,t=1,p=4", "32..=262144"),
        ("argon2id:m=4294967295,t=1,p=1", "8..=262144"),
        ("argon2id:m=8,t=65,p=1", "1..=64"),
        ("argon2id:m=8192,t=1,p=17", "1..=16"),
        ("argon2id:m=8192,t=1,p=536870912", "1..=16"),
        ("argon2id:m=262144,t=5,p=1", "1048576"),
    ] {
        let error = text.parse::<Scheme>().unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn a_long_wrong_setting_is_not_repeated_whole() {
    let error = "x".repeat(10_000).parse::<Scheme>().unwrap_err();
    assert!(error.to_string().len() < 200);
}

#[test]
fn unsafe_is_what_owasp_calls_too_weak() {
    for (text, is_unsafe) in [
        ("bcrypt:4", true),
        ("bcrypt:9", true),
        ("bcrypt:10", false),
        ("bcrypt:12", false),
        ("argon2id:m=47104,t=1,p=1", false),
        ("argon2id:m=47103,t=1,p=1", true),
        ("argon2id:m=19456,t=2,p=1", false),
        ("argon2id:m=19455,t=2,p=1", true),
        ("argon2id:m=19456,t=1,p=1", true),
        ("argon2id:m=12288,t=3,p=1", false),
        ("argon2id:m=12288,t=2,p=1", true),
        ("argon2id:m=9216,t=4,p=1", false),
        ("argon2id:m=9215,t=4,p=1", true),
        ("argon2id:m=7168,t=5,p=1", false),
        ("argon2id:m=7168,t=4,p=1", true),
        ("argon2id:m=7167,t=64,p=1", true),
        ("argon2id:m=65536,t=3,p=4", false),
    ] {
        assert_eq!(text.parse::<Scheme>().unwrap().is_unsafe(), is_unsafe, "{text}");
    }
    assert!(!Scheme::default().is_unsafe());
}
