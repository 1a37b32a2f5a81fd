//! Tokens as a hostile client sends them, and the key that signs them.

use super::accounts::{is_refused, log_out, me, start};
use crate::harness::{Madang, Server, Setup};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const KEY: &str = "6d6164616e672d746f6b656e2d6b65792d666f722d74657374732d6f6e6c7921";

/// A token of this header and these claims, signed with [`KEY`].
fn forged(header: &str, claims: &str) -> String {
    let text = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
    let mac = Hmac::<Sha256>::new_from_slice(b"madang-token-key-for-tests-only!").unwrap();
    let signature = mac.chain_update(&text).finalize().into_bytes();
    format!("{text}.{}", BASE64.encode(signature))
}

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// Claims of user 1, valid now, with some changed or left out (null).
fn claims(changes: &[(&str, Value)]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({
        "iss": "madang", "aud": "madang", "sub": "1", "jti": "AAAAAAAAAAAAAAAAAAAAAA",
        "iat": now, "exp": now + 600,
    });
    for (name, value) in changes {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(*name)),
            value => claims[*name] = value.clone(),
        }
    }
    claims.to_string()
}

fn with_key() -> Server {
    Setup::new().cheap_hash().set("accounts.token_key", KEY).start()
}

#[test]
fn a_token_is_good_only_with_our_header_our_claims_and_our_signature() {
    let server = with_key();
    server.somebody("mina");
    assert_eq!(me(&server, &forged(HEADER, &claims(&[]))).status, 200, "the forge works");
    for header in [
        r#"{"alg":"none","typ":"JWT"}"#,
        r#"{"alg":"RS256","typ":"JWT"}"#,
        r#"{"alg":"HS512","typ":"JWT"}"#,
        r#"{"alg":"HS256","typ":"JWT","kid":"../../dev/null"}"#,
        r#"{"alg":"HS256","typ":"JWT","jwk":{"kty":"oct","k":"AAAA"}}"#,
        r#"{"alg":"HS256","alg":"none","typ":"JWT"}"#,
        "{}",
    ] {
        is_refused(&me(&server, &forged(header, &claims(&[]))));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for change in [
        ("exp", json!(now - 1)),
        ("exp", Value::Null),
        ("exp", json!("9999999999")),
        ("exp", json!(1e300)),
        ("iat", json!(now + 3600)),
        ("iat", Value::Null),
        ("iss", json!("elsewhere")),
        ("aud", json!("elsewhere")),
        ("sub", json!(1)),
        ("sub", json!("1 OR 1=1")),
        ("sub", json!("2")),
        ("jti", Value::Null),
        ("jti", json!("")),
        ("admin", json!(true)),
    ] {
        is_refused(&me(&server, &forged(HEADER, &claims(std::slice::from_ref(&change)))));
    }
    let twice = claims(&[]).replacen('{', r#"{"sub":"2","#, 1);
    is_refused(&me(&server, &forged(HEADER, &twice)));
}

#[test]
fn altered_unsigned_and_foreign_tokens_are_refused() {
    let server = start();
    let mina = server.somebody("mina");
    let elsewhere = start().somebody("mina").token;
    let parts: Vec<&str> = mina.token.split('.').collect();
    let none = BASE64.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let other_user = BASE64.encode(claims(&[("sub", json!("2"))]));
    for token in [
        "".to_owned(),
        "x".to_owned(),
        "..".to_owned(),
        elsewhere,
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{none}.{}.", parts[1]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{}.{other_user}.{}", parts[0], parts[2]),
        format!("{}.{}.{}", parts[0], parts[1], "A".repeat(43)),
        format!("{}x", mina.token),
        mina.token.to_uppercase(),
        "A".repeat(7000),
    ] {
        is_refused(&me(&server, &token));
    }
    for value in ["Bearer", "Bearer ", "bearer x", "Bearer 가", "Bearer \u{80}"] {
        is_refused(&server.get_with("/v1/users/me", &[("Authorization", value)]));
    }
    let bearer = mina.bearer();
    let twice = [("Authorization", bearer.as_str()), ("Authorization", bearer.as_str())];
    is_refused(&server.get_with("/v1/users/me", &twice));
    for scheme in ["bearer", "BEARER"] {
        let value = format!("{scheme} {}", mina.token);
        assert_eq!(server.get_with("/v1/users/me", &[("Authorization", &value)]).status, 200);
    }
}

#[test]
fn a_token_ends_when_it_says() {
    let server = Setup::new().cheap_hash().set("accounts.token_ttl", "1s").start();
    let mina = server.somebody("mina");
    crate::harness::eventually("the token expires", || {
        (me(&server, &mina.token).status == 401).then_some(())
    });
    is_refused(&me(&server, &mina.token));
}

#[test]
fn nodes_with_one_key_accept_each_others_tokens() {
    let (one, two) = (with_key(), with_key());
    let mina = one.somebody("mina");
    two.somebody("somebody-else");
    assert_eq!(me(&two, &mina.token).json()["nickname"], "somebody-else", "user 1 of that store");
    assert_eq!(log_out(&two, &mina).status, 204);
}

#[test]
fn the_key_is_made_once_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let mina = server.somebody("mina");
    server.stop();
    let path = dir.path().join("token.key");
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    assert_eq!(me(&server, &mina.token).status, 200);
    server.stop();
    std::fs::remove_file(&path).unwrap();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    is_refused(&me(&server, &mina.token));
}

#[test]
fn a_key_that_others_can_read_or_that_is_none_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    Setup::new().data(dir.path()).start().stop();
    let path = dir.path().join("token.key");
    let key = std::fs::read_to_string(&path).unwrap();
    let serve = |dir: &Path| {
        Madang::new(["serve", "--listen", "127.0.0.1:0", "--data", dir.to_str().unwrap()])
    };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    serve(dir.path()).fails_with(6).is_calm().complains(&["token.key", "644", "chmod 600"]);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, &key[..20]).unwrap();
    let output = serve(dir.path()).fails_with(6);
    output.is_calm().complains(&["token.key", "not a key"]);
    assert!(!output.stderr.contains(&key[..20]), "{}", output.stderr);
}

#[test]
fn a_given_key_is_shown_nowhere() {
    let output = Madang::new(["config", "--set", &format!("accounts.token_key={KEY}")]).succeeds();
    assert!(!output.stdout.contains(KEY) && output.stdout.contains("token_key = (hidden)"));
    let copy: toml::Table = output.stdout.parse().unwrap();
    assert!(copy["accounts"].get("token_key").is_none());
    let changed = ["config", "--changed"];
    let output = Madang::new(changed).env("MADANG_ACCOUNTS_TOKEN_KEY", KEY).succeeds();
    assert!(!output.stdout.contains(KEY) && output.stdout.contains("MADANG_ACCOUNTS_TOKEN_KEY"));

    let short = "secret-but-too-short";
    let output = Madang::new(["serve"]).env("MADANG_ACCOUNTS_TOKEN_KEY", short).fails_with(2);
    output.complains(&["accounts.token_key", "at least 32 bytes", "MADANG_ACCOUNTS_TOKEN_KEY"]);
    assert!(!output.stderr.contains(short), "{}", output.stderr);
    let broken = format!("[accounts]\ntoken_key = \"{KEY}\n");
    let output = Madang::new(["config"]).file("madang.toml", &broken).fails_with(2);
    assert!(!output.stderr.contains(KEY), "{}", output.stderr);
    assert!(output.stderr.contains("line 2"), "{}", output.stderr);
}
