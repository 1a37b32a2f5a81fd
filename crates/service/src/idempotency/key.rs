//! The `Idempotency-Key` header.

use super::{Claim, Once};
use crate::accounts::UserId;
use crate::app::App;
use crate::http::Problem;
use crate::store::handover;
use axum::extract::{FromRequestParts, MatchedPath};
use http::HeaderMap;
use http::request::Parts;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Longest key, in characters.
const LONGEST: usize = 255;

/// The `Idempotency-Key` of a request, if it has one. An extractor; a malformed one is answered 400.
#[derive(Clone, Debug, Default)]
pub struct IdempotencyKey(Option<Box<Given>>);

#[derive(Clone, Debug)]
struct Given {
    key: Box<str>,
    route: Box<str>,
    target: Box<str>,
    keep_ms: i64,
}

impl IdempotencyKey {
    /// Combines it with the user and the body.
    pub fn used_by(self, user: UserId, body: &[u8]) -> Once {
        Once(self.0.map(|given| {
            let Given { key, route, target, keep_ms } = *given;
            // No target contains a NUL, so path and body cannot be confused.
            let digest = Sha256::new().chain_update(&*target).chain_update([0]).chain_update(body);
            let fingerprint = digest.finalize().into();
            Box::new(Claim { user, route, key, fingerprint, keep_ms })
        }))
    }
}

impl FromRequestParts<Arc<App>> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Some(key) = read(&parts.headers)? else { return Ok(Self(None)) };
        handover::note_repeatable();
        app.idempotency.sweep_when_due(&app.store);
        let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str).into();
        let target = parts.uri.path_and_query().map_or("", |target| target.as_str()).into();
        Ok(Self(Some(Box::new(Given { key, route, target, keep_ms: app.idempotency.keep_ms() }))))
    }
}

pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Box<str>>, Problem> {
    let mut lines = headers.get_all("idempotency-key").into_iter();
    let Some(line) = lines.next() else { return Ok(None) };
    let key = if lines.next().is_none() { parse(line.as_bytes()) } else { None };
    key.map(Some).ok_or_else(|| {
        Problem::bad_request(format!(
            "Idempotency-Key: expected one header of 1 to {LONGEST} ASCII characters, without spaces or in double quotes"
        ))
    })
}

/// Parses a string of RFC 9651 (3.3.3), as in the draft, or a bare key, as most clients send it. Both are the same key.
fn parse(line: &[u8]) -> Option<Box<str>> {
    let line = std::str::from_utf8(line).ok()?.trim_matches([' ', '\t']);
    let key: String = match line.strip_prefix('"') {
        Some(quoted) => unquote(quoted)?,
        None if line.bytes().all(|b| b.is_ascii_graphic() && b != b'"') => line.to_owned(),
        None => return None,
    };
    (1..=LONGEST).contains(&key.len()).then(|| key.into())
}

/// Parses a quoted string after its opening quote.
fn unquote(quoted: &str) -> Option<String> {
    let mut key = String::with_capacity(quoted.len());
    let mut rest = quoted.chars();
    loop {
        match rest.next()? {
            '"' => return rest.as_str().is_empty().then_some(key),
            '\\' => key.push(rest.next().filter(|c| matches!(c, '"' | '\\'))?),
            c @ ' '..='~' => key.push(c),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_key_is_read_bare_or_quoted() {
        let key = |line: &str| parse(line.as_bytes()).map(String::from);
        assert_eq!(key("8e03978e-40d5").as_deref(), Some("8e03978e-40d5"));
        assert_eq!(key(" \"8e03978e-40d5\"\t").as_deref(), Some("8e03978e-40d5"));
        assert_eq!(key(r#""a \"b\" \\ c""#).as_deref(), Some(r#"a "b" \ c"#));
        assert_eq!(key(&"x".repeat(255)).map(|k| k.len()), Some(255));
        let long = "x".repeat(256);
        for wrong in [
            "", " ", "\"\"", "\"", "a b", "a\"b", "\"a", "\"a\"b", "\"a\";p=1", "\"a\\b\"", "가",
            &long,
        ] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn two_keys_are_none() {
        let mut headers = HeaderMap::new();
        assert!(read(&headers).unwrap().is_none());
        headers.append("idempotency-key", HeaderValue::from_static("a"));
        assert_eq!(read(&headers).unwrap().as_deref(), Some("a"));
        headers.append("idempotency-key", HeaderValue::from_static("a"));
        assert!(read(&headers).is_err());
    }
}
