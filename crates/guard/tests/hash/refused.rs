//! Stored texts that are refused.

use madang_guard::hash::{Scheme, StoredHash, StoredHashError};
use madang_testing::alone;
use proptest::prelude::*;

const SALT: &str = "MDEyMzQ1Njc4OWFiY2RlZg";
const OUTPUT: &str = "gy5SuVm5Z7Vw7keB9se9p87QGcomaseB/S2U1OhTsM0";

fn argon2id(parameters: &str) -> String {
    format!("$argon2id$v=19${parameters}${SALT}${OUTPUT}")
}

fn error(text: &str) -> StoredHashError {
    text.parse::<StoredHash>().expect_err(text)
}

/// In 256 MiB of virtual memory and one second of CPU: computing any of these would end the process.
#[test]
fn hostile_parameters_are_refused_without_memory_or_time() {
    alone(
        "refused::hostile_parameters_are_refused_without_memory_or_time",
        &["sh", "-c", "ulimit -v 262144; ulimit -t 1; exec \"$0\" \"$@\""],
        || {
            let rest = "abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
            let salt = "n79VH.0Q2TMWmt3Oqt9uku$Kq4Noyk3094Y2QlB8NdRT8SvGiI4ft2";
            for text in [
                argon2id("m=4194304,t=1,p=1"),
                argon2id("m=4294967295,t=1,p=1"),
                argon2id("m=262145,t=1,p=1"),
                argon2id("m=19456,t=4294967295,p=1"),
                argon2id("m=8,t=65,p=1"),
                argon2id("m=262144,t=64,p=1"),
                argon2id("m=19456,t=2,p=16777215"),
                argon2id("m=4294967295,t=4294967295,p=4294967295"),
                argon2id("m=19456,t=2,p=0"),
                argon2id("m=7,t=1,p=1"),
                format!("$2b$31${rest}"),
                format!("$2b$15${rest}"),
                format!("$2b$99${rest}"),
                format!("$2b$03${rest}"),
                format!("$bcrypt-sha256$v=2,t=2b,r=31${salt}"),
            ] {
                let error = error(&text);
                let parameters = matches!(error, StoredHashError::Parameters(_));
                assert!(parameters || text.contains("p=0"), "{text}: {error}");
            }
            let long = "A".repeat(100 << 20);
            assert_eq!(error(&long), StoredHashError::Malformed);
        },
    );
}

#[test]
fn the_largest_accepted_parameters_are_those_of_the_limits() {
    let (m, t, p) = (Scheme::MAX_MEMORY_KIB, Scheme::MAX_PASSES, Scheme::MAX_LANES);
    for parameters in [format!("m={m},t=4,p={p}"), format!("m=16384,t={t},p=1")] {
        argon2id(&parameters).parse::<StoredHash>().unwrap();
    }
}

#[test]
fn salts_and_outputs_of_odd_lengths_are_refused() {
    let with = |salt: &str, output: &str| {
        format!("$argon2id$v=19$m=19456,t=2,p=1${salt}${output}").parse::<StoredHash>().is_ok()
    };
    // Base64 without padding: 11 characters are 8 bytes, 64 are 48; 22 are 16 and 86 are 64.
    let of = |characters: usize| "A".repeat(characters);
    assert!(with(&of(11), &of(22)) && with(&of(64), &of(86)));
    for (salt, output) in
        [(10, 43), (66, 43), (0, 43), (22, 20), (22, 21), (22, 87), (22, 0), (22, 4)]
    {
        assert!(!with(&of(salt), &of(output)), "salt {salt}, output {output}");
    }
}

#[test]
fn kinds_that_are_not_verified_are_called_unsupported() {
    let rest = "abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
    for text in [
        "".to_owned(),
        "plain".to_owned(),
        format!("$2x$05${rest}"),
        format!("$2$05${rest}"),
        format!("$argon2i$v=19$m=19456,t=2,p=1${SALT}${OUTPUT}"),
        format!("$argon2d$v=19$m=19456,t=2,p=1${SALT}${OUTPUT}"),
        format!("$argon2id$v=16$m=19456,t=2,p=1${SALT}${OUTPUT}"),
        "$bcrypt-sha256$2a,12$LrmaIX5x4TRtAwEfwJZa1.$2ehnw6LvuIUTM0iz4iz9hTxv21B6KFO".to_owned(),
        "$6$rounds=5000$salt$hash".to_owned(),
        "{SSHA}x".to_owned(),
    ] {
        assert_eq!(error(&text), StoredHashError::Unsupported, "{text}");
    }
}

#[test]
fn texts_that_break_their_form_are_called_malformed() {
    let rest = "abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
    for text in [
        format!("$2b$05${}", &rest[1..]),
        format!("$2b$05${rest}x"),
        format!("$2b$5${rest}"),
        format!("$2b$+5${rest}"),
        format!("$2b$05${rest}$"),
        format!("$2b$05${}é", &rest[2..]),
        format!("$2b$05${}=", &rest[1..]),
        format!("x$2b$05${rest}"),
        argon2id("m=19456,t=2"),
        argon2id("t=2,m=19456,p=1"),
        argon2id("m=019456,t=2,p=1"),
        argon2id("m=19456,t=2,p=1,keyid=AAAA"),
        argon2id("m=19456,m=19456,t=2,p=1"),
        argon2id("m=99999999999999999999,t=2,p=1"),
        format!("{}$x", argon2id("m=19456,t=2,p=1")),
        format!("{}=", argon2id("m=19456,t=2,p=1")),
        format!("$argon2id$v=19$m=19456,t=2,p=1${SALT}"),
        format!("$argon2id$v=19$m=19456,t=2,p=1${SALT}$"),
        "$argon2id$".to_owned(),
        format!("{}{}", argon2id("m=19456,t=2,p=1"), " ".repeat(300)),
    ] {
        assert_eq!(error(&text), StoredHashError::Malformed, "{text}");
    }
}

#[test]
fn an_error_never_quotes_the_stored_text() {
    for text in [argon2id("m=4194304,t=1,p=1"), argon2id("t=1"), format!("$x${SALT}${OUTPUT}")] {
        let error = error(&text);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(SALT) && !shown.contains(OUTPUT), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in ".{0,300}") {
        let _ = text.parse::<StoredHash>();
    }

    #[test]
    fn a_damaged_hash_is_refused_or_reads_as_itself(at in 0..100_usize, byte in 0..128_u8) {
        let mut bytes = argon2id("m=19456,t=2,p=1").into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let text = String::from_utf8(bytes).unwrap();
        if let Ok(stored) = text.parse::<StoredHash>() {
            prop_assert_eq!(stored.to_string(), text);
        }
    }
}
