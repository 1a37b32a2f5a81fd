//! JSON bodies, read strictly, with complete errors (docs/decisions/0011-field-tables.md).
//!
//! Invalid JSON is 400; JSON of a wrong shape is 422 and names *every* wrong field. Unknown fields are ignored:
//! scripts for the documented system send some, and newer clients must still work. Messages never repeat values,
//! which may be passwords; those of serde would.
//!
//! Accepted is RFC 8259 with the strictness of I-JSON (RFC 7493): UTF-8, no two members of one name in an object, no
//! lone surrogates, no number beyond the range of a double; at most 127 levels of nesting, and 256 fields.

mod fields;
mod syntax;
pub(crate) mod table;

pub(crate) use fields::{AllRead, Secret, one_line, what_a_line_is};

use super::problem::{FieldError, Problem};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;

/// Maximum size in bytes of a body read as an object of fields. Reading it takes about a millisecond of an event
/// loop; a larger one is read from a [`JsonBody`] on other threads.
pub(crate) const LARGEST_OBJECT: usize = 256 * 1024;

/// A body declared as JSON, not parsed yet. As an extractor it rejects any other body with 415.
#[derive(Clone)]
pub(crate) struct JsonBody(Bytes);

impl JsonBody {
    /// Checks that the body is declared as `application/json`, with `charset=utf-8` at most, and not compressed.
    ///
    /// `application/…+json` is refused: the suffix names the syntax of JSON, not the meaning of these bodies. So is a body
    /// without a type: a form of a foreign page can send that, or `text/plain`, without a preflight, but not
    /// `application/json`.
    ///
    /// # Errors
    /// 415.
    pub(crate) fn check(headers: &HeaderMap) -> Result<(), Problem> {
        let mut types = headers.get_all(header::CONTENT_TYPE).into_iter();
        let (given, another) = (types.next().and_then(|value| value.to_str().ok()), types.next());
        if !given.is_some_and(is_json) || another.is_some() {
            return Err(Problem::unsupported_media_type(
                "send JSON in UTF-8, with Content-Type: application/json",
            ));
        }
        let coded = |value: &http::HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
        if headers.get_all(header::CONTENT_ENCODING).into_iter().any(coded) {
            return Err(Problem::unsupported_media_type("send the body without Content-Encoding"));
        }
        Ok(())
    }

    /// Parses it as an object of fields.
    ///
    /// # Errors
    /// 400 for invalid JSON, 413 for more than `most_bytes`, 422 for any other JSON.
    pub(crate) fn object(self, most_bytes: usize) -> Result<JsonObject, Problem> {
        if self.0.len() > most_bytes {
            return Err(Problem::too_large(most_bytes));
        }
        syntax::read(self.0)
    }
}

/// The fields of a JSON object. As an extractor it rejects any other body with 415, 413, 400 or 422.
///
/// The kinds of a [`table`] read its fields: each returns `None` for a missing or wrong field and notes the error;
/// [`finish`](Self::finish) returns all that was read, or one problem with all errors.
pub struct JsonObject {
    bytes: Bytes,
    fields: Vec<Field>,
    errors: Vec<FieldError>,
}

/// Name and position of a field's value in the body.
struct Field {
    name: Box<str>,
    start: usize,
    end: usize,
}

impl JsonObject {
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Notes that `field` is wrong. The detail says what would be accepted.
    pub(crate) fn refuse(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.errors.push(FieldError::new(field, detail));
    }

    /// The values that were read, if no error was noted: `body.finish((title, place))?`.
    ///
    /// # Errors
    /// 422 with all errors.
    pub(crate) fn finish<T: AllRead>(&mut self, fields: T) -> Result<T::Read, Problem> {
        match fields.all_read() {
            Some(read) if self.errors.is_empty() => Ok(read),
            _ => Err(Problem::invalid(std::mem::take(&mut self.errors))),
        }
    }
}

/// A body whose type was checked.
impl From<Bytes> for JsonBody {
    fn from(body: Bytes) -> Self {
        JsonBody(body)
    }
}

// Bodies hold passwords.
crate::opaque_debug!(JsonBody);
crate::opaque_debug!(JsonObject);

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, _state: &S) -> Result<Self, Problem> {
        Self::check(request.headers())?;
        // Complete: the edge passes no body that is still arriving.
        let collected = request.into_body().collect().await;
        let body = collected.map_err(|e| Problem::bad_request(e.to_string()).closing())?;
        Ok(JsonBody(body.to_bytes()))
    }
}

impl<S: Sync> FromRequest<S> for JsonObject {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Problem> {
        JsonBody::from_request(request, state).await?.object(LARGEST_OBJECT)
    }
}

fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
                let value = value.trim_matches('"');
                value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
            }
            // RFC 8259 defines no parameters; others change nothing.
            _ => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf_8_is_taken_for_json() {
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json; charset=utf8; x=y",
            "application/json;",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "",
            "json",
            "text/json",
            "text/plain",
            "application/jsonl",
            "application/geo+json",
            "application/merge-patch+json",
            "application/x-www-form-urlencoded",
            "application/json, text/plain",
            "application/json; charset=euc-kr",
            "application/json; charset=utf-16",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }
}
