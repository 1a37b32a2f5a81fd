//! JSON bodies, read strictly and answered completely.
//!
//! What is no JSON is 400; JSON of a wrong shape is 422 and names *every* field that is wrong, so that
//! a client learns in one round trip what a form has to show. Fields that are not asked for are
//! ignored: scripts written for the documented system send some, and a client newer than this server
//! must still work with it.
//!
//! Why not `serde_json::from_slice` into a struct per body: it stops at the first error, keeps the last
//! of two fields of one name (a proxy or a log in front may have looked at the first), and its messages
//! repeat values, which may be passwords. Why not a tree of values: it takes many times the body's
//! size. Here one pass finds where each field's text is, and only the fields that are asked for are
//! decoded.
//!
//! What is accepted as JSON is RFC 8259 with the strictness of I-JSON (RFC 7493): UTF-8, no two members
//! of one name in an object, no lone surrogates, no number beyond the range of a double; not more than
//! 127 levels of nesting, and 256 fields.

mod fields;
mod syntax;
pub mod table;

pub use fields::{AllRead, Secret, one_line, what_a_line_is};

use super::problem::{FieldError, Problem};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;

/// Largest body that is read as an object of fields, in bytes. Reading it takes a worker's event loop
/// about a millisecond; what may be larger is read from a [`JsonBody`] on other threads.
pub const LARGEST_OBJECT: usize = 256 * 1024;

/// A body that says it is JSON, not looked at yet. As an extractor it answers 415 when it does not.
#[derive(Clone)]
pub struct JsonBody(Bytes);

impl JsonBody {
    /// Whether a request's head says that its body is JSON: `application/json`, with `charset=utf-8` at most, and not
    /// compressed.
    ///
    /// `application/…+json` is refused: the suffix promises the syntax of JSON, not the meaning of these
    /// bodies. Nothing is guessed for a body without a type: a form of a foreign page can send that, or
    /// `text/plain`, without asking first, but not `application/json`.
    ///
    /// # Errors
    /// 415 when it does not.
    pub fn check(headers: &HeaderMap) -> Result<(), Problem> {
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

    /// Reads it as an object of fields.
    ///
    /// # Errors
    /// 400 when it is no JSON, 413 when it is larger than `most_bytes`, 422 when it is no object.
    pub fn object(self, most_bytes: usize) -> Result<JsonObject, Problem> {
        if self.0.len() > most_bytes {
            return Err(Problem::too_large(most_bytes));
        }
        syntax::read(self.0)
    }
}

/// The fields of a JSON object. As an extractor it answers 415, 413, 400 or 422 when the body is none.
///
/// Readers such as [`text`](Self::text) answer `None` for a field that is missing or wrong and note
/// why; [`finish`](Self::finish) gives what was read, or one problem with everything noted.
///
/// ```
/// # use madang_service::http::{JsonObject, Problem};
/// # fn create(mut body: JsonObject) -> Result<(), Problem> {
/// let title = body.text("title", 1..=100);
/// let place = body.whole("locationId", 1..);
/// let start = body.time("startAt");
/// let end = body.time("endAt");
/// if let (Some(start), Some(end)) = (start, end) && end <= start {
///     body.refuse("endAt", "a time after startAt");
/// }
/// let (title, place, start, end) = body.finish((title, place, start, end))?;
/// # Ok(()) }
/// ```
pub struct JsonObject {
    bytes: Bytes,
    fields: Vec<Field>,
    errors: Vec<FieldError>,
}

/// A name, and where in the body the text of its value is.
struct Field {
    name: Box<str>,
    start: usize,
    end: usize,
}

impl JsonObject {
    /// The body as it came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Notes that `field` is wrong. The detail says what would be accepted.
    pub fn refuse(&mut self, field: &'static str, detail: impl Into<String>) {
        self.errors.push(FieldError::new(field, detail));
    }

    /// What was read, when all of it was and nothing was noted: `body.finish((title, place))?`.
    ///
    /// # Errors
    /// 422 with everything that was noted.
    pub fn finish<T: AllRead>(&mut self, fields: T) -> Result<T::Read, Problem> {
        match fields.all_read() {
            Some(read) if self.errors.is_empty() => Ok(read),
            _ => Err(Problem::invalid(std::mem::take(&mut self.errors))),
        }
    }
}

/// A body whose type was looked at already.
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
        // Whole already: the edge hands over no body that is still coming.
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
            // RFC 8259 defines no parameter; what others say changes nothing.
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
