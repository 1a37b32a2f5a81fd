//! Bearer tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA-256, and nothing else.
//!
//! Implemented with `hmac` and `sha2` instead of a JWT crate: a general verifier first reads the sender's header to
//! learn how to verify, which is the origin of most JWT vulnerabilities (`alg: none`, another algorithm with the same
//! key, `jwk`, `crit`). This one compares the header with the only one it ever writes, byte for byte, then the
//! signature, and parses nothing before both are right. Any JWT library can read the tokens.

use super::UserId;
use super::key::TokenKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `{"alg":"HS256","typ":"JWT"}`, encoded.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
/// Issuer and audience: another service with the same key makes no tokens for this one.
const PARTY: &str = "madang";
/// Longest text that is verified; the longest token issued has 279 bytes.
const LONGEST: usize = 512;
/// Seconds by which a token may have been issued in the future: clocks of nodes differ a little. Beyond that the clock
/// was set back, and cannot be trusted about expiry.
pub(super) const SKEW_SECONDS: i64 = 60;

/// Identifier of a token for revocation: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenId(pub(crate) [u8; 16]);

/// Content of a token. Times in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    pub(crate) id: TokenId,
    pub(crate) user: UserId,
    pub(crate) issued_at: i64,
    pub(crate) expires_at: i64,
}

/// Reason for refusing a token; responses do not reveal it.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenError {
    /// Not a token of this service: another form, header, key or content.
    #[error("not a token of this service")]
    Foreign,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// Issued in the future: the clock was set back since, or that of the issuing node is ahead.
    #[error("the token was issued in the future; was the clock set back?")]
    Early,
}

/// The claims in JSON. Each must be present once, without any other.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    iss: &'a str,
    aud: &'a str,
    /// A string (RFC 7519).
    sub: &'a str,
    jti: &'a str,
    iat: i64,
    exp: i64,
}

/// Issues and verifies tokens of one key.
#[derive(Clone)]
pub struct Tokens {
    /// Keyed once; each signature starts with a clone.
    keyed: Hmac<Sha256>,
    ttl_seconds: i64,
}

crate::opaque_debug!(Tokens);

impl Tokens {
    /// Tokens signed with `key` that are valid for `ttl`.
    pub fn new(key: &TokenKey, ttl: Duration) -> Self {
        let keyed =
            Hmac::<Sha256>::new_from_slice(key.bytes()).expect("HMAC takes keys of any length");
        // The settings allow a century at most.
        Self { keyed, ttl_seconds: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX / 2) }
    }

    /// Issues a token of `user`; `now` in seconds since 1970.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn issue(&self, user: UserId, now: i64) -> Result<(String, Claims), getrandom::Error> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)?;
        let claims = Claims { id: TokenId(id), user, issued_at: now, expires_at: self.expiry(now) };
        Ok((self.sign(&claims), claims))
    }

    /// Expiry of a token issued at `now`, both in seconds since 1970.
    pub(super) fn expiry(&self, now: i64) -> i64 {
        now.saturating_add(self.ttl_seconds)
    }

    fn sign(&self, claims: &Claims) -> String {
        let written = Written {
            iss: PARTY,
            aud: PARTY,
            sub: &claims.user.to_string(),
            jti: &URL_SAFE_NO_PAD.encode(claims.id.0),
            iat: claims.issued_at,
            exp: claims.expires_at,
        };
        let payload = serde_json::to_vec(&written).expect("strings and numbers serialize");
        let mut token = String::with_capacity(LONGEST);
        token.push_str(HEADER);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(payload, &mut token);
        let signature = self.keyed.clone().chain_update(&token).finalize().into_bytes();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// The claims of a token that this key signed and that is valid at `now` (seconds since 1970). Does not check
    /// revocation.
    ///
    /// # Errors
    /// The token is foreign, expired or issued in the future.
    pub fn verify(&self, token: &str, now: i64) -> Result<Claims, TokenError> {
        if token.len() > LONGEST {
            return Err(TokenError::Foreign);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Foreign)?;
        let payload = signed
            .strip_prefix(HEADER)
            .and_then(|rest| rest.strip_prefix('.'))
            .ok_or(TokenError::Foreign)?;
        let mut given = [0; 33];
        let length =
            URL_SAFE_NO_PAD.decode_slice(signature, &mut given).map_err(|_| TokenError::Foreign)?;
        let mac = self.keyed.clone().chain_update(signed);
        mac.verify_slice(&given[..length]).map_err(|_| TokenError::Foreign)?;
        let claims = read(payload).ok_or(TokenError::Foreign)?;
        if claims.expires_at <= now {
            return Err(TokenError::Expired);
        }
        if claims.issued_at > now.saturating_add(SKEW_SECONDS) {
            return Err(TokenError::Early);
        }
        Ok(claims)
    }
}

/// Claims of a payload with a right signature. It may still come from another program with the same key.
fn read(payload: &str) -> Option<Claims> {
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let written: Written<'_> = serde_json::from_slice(&payload).ok()?;
    let id: [u8; 16] = URL_SAFE_NO_PAD.decode(written.jti).ok()?.try_into().ok()?;
    let user = written.sub.parse().ok()?;
    (written.iss == PARTY && written.aud == PARTY).then_some(Claims {
        id: TokenId(id),
        user,
        issued_at: written.iat,
        expires_at: written.exp,
    })
}

/// The wall clock in seconds since 1970; negative before.
pub(super) fn now() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_800_000_000;

    fn tokens(byte: u8) -> Tokens {
        Tokens::new(&TokenKey::from_bytes(vec![byte; 32]), Duration::from_secs(3600))
    }

    /// A token with any header and payload, signed with the right key.
    fn signed(header: &str, payload: &str) -> String {
        let text =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        let mac = tokens(1).keyed.chain_update(&text).finalize().into_bytes();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(mac))
    }

    const GOOD_HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

    fn payload(change: impl Fn(String) -> String) -> String {
        change(format!(
            r#"{{"iss":"madang","aud":"madang","sub":"7","jti":"AAAAAAAAAAAAAAAAAAAAAA","iat":{NOW},"exp":{}}}"#,
            NOW + 60
        ))
    }

    #[test]
    fn a_token_says_what_was_put_into_it_and_expires_on_the_second() {
        let (token, claims) = tokens(1).issue(i64::MAX, NOW).unwrap();
        assert_eq!(tokens(1).verify(&token, NOW), Ok(claims));
        assert_eq!((claims.user, claims.expires_at), (i64::MAX, NOW + 3600));
        assert_eq!(tokens(1).verify(&token, NOW + 3599), Ok(claims));
        assert_eq!(tokens(1).verify(&token, NOW + 3600), Err(TokenError::Expired));
        assert!(token.len() < LONGEST, "{}", token.len());
        let (other, _) = tokens(1).issue(i64::MAX, NOW).unwrap();
        assert_ne!(token, other, "each can be revoked alone");
    }

    #[test]
    fn a_clock_set_back_refuses_what_it_would_revive() {
        let (token, _) = tokens(1).issue(7, NOW).unwrap();
        assert!(tokens(1).verify(&token, NOW - 60).is_ok(), "nodes differ by seconds");
        assert_eq!(tokens(1).verify(&token, NOW - 61), Err(TokenError::Early));
    }

    #[test]
    fn another_key_signs_nothing_here() {
        let (token, _) = tokens(2).issue(7, NOW).unwrap();
        assert_eq!(tokens(1).verify(&token, NOW), Err(TokenError::Foreign));
    }

    #[test]
    fn only_our_own_header_is_accepted_even_with_a_right_signature() {
        assert!(tokens(1).verify(&signed(GOOD_HEADER, &payload(|p| p)), NOW).is_ok());
        for header in [
            r#"{"alg":"none","typ":"JWT"}"#,
            r#"{"alg":"None","typ":"JWT"}"#,
            r#"{"alg":"HS384","typ":"JWT"}"#,
            r#"{"alg":"RS256","typ":"JWT"}"#,
            r#"{"typ":"JWT","alg":"HS256"}"#,
            r#"{"alg":"HS256","typ":"JWT","crit":["x"]}"#,
            r#"{"alg":"HS256","alg":"none","typ":"JWT"}"#,
            r#"{"alg":"HS256"}"#,
            r"{}",
            "",
        ] {
            let token = signed(header, &payload(|p| p));
            assert_eq!(tokens(1).verify(&token, NOW), Err(TokenError::Foreign), "{header}");
        }
    }

    #[test]
    fn only_our_own_claims_are_accepted_even_with_a_right_signature() {
        let changes: [fn(String) -> String; 15] = [
            |p| p.replace(r#""iss":"madang""#, r#""iss":"other""#),
            |p| p.replace(r#""aud":"madang""#, r#""aud":"other""#),
            |p| p.replace(r#""aud":"madang""#, r#""aud":["madang"]"#),
            |p| p.replace(r#","aud":"madang""#, ""),
            |p| p.replace(r#""sub":"7""#, r#""sub":7"#),
            |p| p.replace(r#""sub":"7""#, r#""sub":"seven""#),
            |p| p.replace(r#""sub":"7""#, r#""sub":"99999999999999999999""#),
            |p| p.replace(r#""sub":"7""#, r#""sub":"7","sub":"8""#),
            |p| p.replace(r#""exp":"#, r#""exp":9999999999,"exp":"#),
            |p| p.replace(r#""iat":"#, r#""admin":true,"iat":"#),
            |p| p.replace("AAAAAA\"", "AAAA\""),
            |p| p.replace(r#""exp":18"#, r#""exp":18.5,"x":18"#),
            |p| p.replace('}', ""),
            |p| format!("{p}{p}"),
            |_| String::new(),
        ];
        for (i, change) in changes.iter().enumerate() {
            assert_ne!(payload(change), payload(|p| p), "change {i} changes nothing");
            let token = signed(GOOD_HEADER, &payload(change));
            assert_eq!(tokens(1).verify(&token, NOW), Err(TokenError::Foreign), "change {i}");
        }
    }

    #[test]
    fn unsigned_cut_and_huge_texts_are_refused() {
        let (token, _) = tokens(1).issue(7, NOW).unwrap();
        let unsigned = token.rsplit_once('.').unwrap().0;
        let padded = format!("{token}=");
        let long = format!("{token}{}", "A".repeat(100_000));
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let none = format!("{none}.{}.", URL_SAFE_NO_PAD.encode(payload(|p| p)));
        let dotted = format!("{unsigned}.");
        for text in
            ["", ".", "..", "...", unsigned, &dotted, &padded, &long, &none, "한글.한글.한글"]
        {
            assert_eq!(tokens(1).verify(text, NOW), Err(TokenError::Foreign));
        }
    }

    proptest! {
        #[test]
        fn a_token_altered_in_one_place_is_refused(user in any::<i64>(), at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]") {
            let (token, claims) = tokens(1).issue(user, NOW).unwrap();
            prop_assert_eq!(tokens(1).verify(&token, NOW), Ok(claims));
            let at = at.index(token.len());
            let mut altered = token.clone();
            altered.replace_range(at..=at, &to);
            prop_assert_eq!(tokens(1).verify(&altered, NOW).is_ok(), altered == token);
        }

        #[test]
        fn any_text_is_answered_without_a_panic(text in "\\PC{0,600}") {
            prop_assert!(tokens(1).verify(&text, NOW).is_err());
        }
    }
}
