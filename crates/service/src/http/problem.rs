//! Errors as clients see them: `application/problem+json` (RFC 9457).

use crate::ops::quiet_log::OncePerSecond;
use crate::ops::record::Trace;
use crate::store::{ChangeError, StoreError};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::borrow::Cow;

/// A service that sheds load, or whose every request fails, must not drown in saying so, and writing a line
/// may block. The metrics count every answer. Apart: refusals must not hide a fault.
static REFUSALS: OncePerSecond = OncePerSecond::new();
static FAULTS: OncePerSecond = OncePerSecond::new();

/// What is wrong with one field, parameter or header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// Name of the field or parameter.
    pub field: String,
    /// What would be accepted.
    pub detail: String,
}

impl FieldError {
    /// An error of `field`.
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), detail: detail.into() }
    }
}

/// An answer that is an error. What is said to the client and what is logged are apart.
///
/// 429 and 503 cannot be built without a `Retry-After`.
#[derive(Clone, Debug)]
// Boxed: it is the rare outcome of nearly every function that handles a request.
pub struct Problem(Box<Said>);

#[derive(Clone, Debug)]
struct Said {
    status: StatusCode,
    slug: &'static str,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    members: Vec<(&'static str, serde_json::Value)>,
    retry_after_seconds: Option<u32>,
    /// `WWW-Authenticate`, on every 401.
    challenge: Option<&'static str>,
    close: bool,
    log: Option<String>,
}

/// The body of a [`Problem`].
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ProblemBody<'a> {
    /// `urn:madang:problem:` and a word for programs, such as `not-found`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: &'a str,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong with this request.
    pub detail: &'a str,
    /// The request id, also in the `X-Request-Id` header and in the server's log.
    pub instance: &'a str,
    /// The trace that the request belongs to, if it has one (W3C Trace Context).
    #[serde(rename = "traceId", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// One entry for each field that is wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub errors: &'a [FieldError],
    /// Members of this type of problem alone (RFC 9457, 3.2).
    #[serde(flatten, serialize_with = "as_members")]
    #[schema(ignore)]
    pub members: &'a [(&'static str, serde_json::Value)],
}

/// Pairs as members of the object around them.
fn as_members<S: serde::Serializer>(
    members: &[(&'static str, serde_json::Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
}

impl Problem {
    fn new(status: StatusCode, slug: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Said {
            status,
            slug,
            detail: detail.into(),
            errors: Vec::new(),
            members: Vec::new(),
            challenge: None,
            retry_after_seconds: None,
            close: false,
            log: None,
        }))
    }

    /// 400: the request cannot be read.
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    fn challenging(mut self, challenge: &'static str) -> Self {
        self.0.challenge = Some(challenge);
        self
    }

    fn after(mut self, seconds: u32) -> Self {
        self.0.retry_after_seconds = Some(seconds.max(1));
        self
    }

    fn logged(mut self, log: impl Into<String>) -> Self {
        self.0.log = Some(log.into());
        self
    }

    /// 401: no token, or a log-in that failed.
    pub fn unauthorized(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).challenging("Bearer")
    }

    /// 401: a valid token of an account that was deleted.
    pub fn account_gone() -> Self {
        Self::invalid_token("the account of this token no longer exists")
    }

    /// 401: there is a token, and it is not valid (any more): altered, expired or revoked.
    pub fn invalid_token(detail: impl Into<Cow<'static, str>>) -> Self {
        // RFC 6750, 3.1: a request that carried a token is told what is wrong with it.
        Self::new(StatusCode::UNAUTHORIZED, "invalid-token", detail)
            .challenging("Bearer error=\"invalid_token\"")
    }

    /// 403: known, but not allowed.
    pub fn forbidden(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 409 under a word of its own: the request contradicts what there is.
    pub fn conflict(slug: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, slug, detail)
    }

    /// 404: there is no such resource.
    pub fn not_found(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 405: the resource does not know this method.
    pub fn method_not_allowed() -> Self {
        let detail = "this resource does not support the method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
    }

    /// 408: the request's body did not arrive in time. The connection is closed after it.
    pub fn body_timeout() -> Self {
        let detail = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", detail).closing()
    }

    /// 414: path and query are longer than `limit` bytes.
    pub fn target_too_long(limit: usize) -> Self {
        let detail = format!("path and query are longer than {limit} bytes");
        Self::new(StatusCode::URI_TOO_LONG, "target-too-long", detail)
    }

    /// 412: a condition of the request does not hold; nothing was done.
    pub fn precondition_failed() -> Self {
        let detail =
            "the current version does not satisfy If-Match or If-None-Match; fetch it again";
        Self::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", detail)
    }

    /// 413: the body is larger than `limit` bytes. The connection is closed after it.
    pub fn too_large(limit: usize) -> Self {
        let detail = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail).closing()
    }

    /// 503: the bodies of other requests take all the memory there is for bodies. Closes the connection.
    pub fn too_many_bodies() -> Self {
        let detail = "no memory for another request body; try again later";
        Self::unavailable(detail, 1, "no room for another body").closing()
    }

    /// 501: the request asks for something of HTTP that is not done here.
    pub fn not_implemented(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "not-implemented", detail)
    }

    /// The same, and the connection is closed after it: where the next request begins is unknown, or far away.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.0.close = true;
        self
    }

    /// 422: wrong type or value, field by field.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let mut problem =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "some values are invalid");
        problem.0.errors = errors;
        problem
    }

    /// 422: the `Idempotency-Key` came with another request before.
    pub fn key_reused() -> Self {
        let detail =
            "this Idempotency-Key was used with another request; use a new key for a new request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", detail)
    }

    /// 422 for one field.
    pub fn invalid_field(field: &str, detail: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(field, detail)])
    }

    /// 415: the body is in a format or a coding that this resource does not read.
    pub fn unsupported_media_type(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
    }

    /// 429 under a word of its own: this client asks too often.
    pub fn too_many_requests(
        slug: &'static str,
        detail: impl Into<Cow<'static, str>>,
        retry_after_seconds: u32,
    ) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, slug, detail).after(retry_after_seconds)
    }

    /// Adds a member of this type of problem alone (RFC 9457, 3.2). Names of the standard are taken.
    #[must_use]
    pub fn with_member(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        debug_assert!(
            !["type", "title", "status", "detail", "instance", "traceId", "errors"].contains(&name),
            "{name} is a member of every problem"
        );
        self.0.members.push((name, value.into()));
        self
    }

    /// 503: not now. `log` is for the log alone.
    pub fn unavailable(
        detail: &'static str,
        retry_after_seconds: u32,
        log: impl Into<String>,
    ) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            .after(retry_after_seconds)
            .logged(log)
    }

    /// 503: the operator has writes refused. `detail` is what the operator says of it.
    pub fn maintenance(detail: impl Into<Cow<'static, str>>, retry_after_seconds: u32) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "maintenance", detail).after(retry_after_seconds)
    }

    /// 504 in place of a 503: what was asked for may have been done, or may be done yet. Only when the
    /// request may be sent again without doing it twice (`repeatable`) it says when.
    #[must_use]
    pub fn with_unknown_outcome(mut self, repeatable: bool) -> Self {
        self.0.status = StatusCode::GATEWAY_TIMEOUT;
        self.0.slug = "outcome-unknown";
        self.0.detail = if repeatable {
            "the outcome is unknown; repeat the request with the same Idempotency-Key".into()
        } else {
            "the outcome is unknown; check it before you repeat the request".into()
        };
        self.0.retry_after_seconds = self.0.retry_after_seconds.filter(|_| repeatable);
        self
    }

    /// 500: our fault. `log` is for the log alone; the client learns the request id to quote.
    pub fn internal(log: impl Into<String>) -> Self {
        let detail = "internal error; include the instance when you report it";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).logged(log)
    }

    /// What is wrong, field by field.
    pub fn errors(&self) -> &[FieldError] {
        &self.0.errors
    }

    /// The cause as it is logged; the client's detail where nothing else is logged.
    pub(crate) fn cause(&self) -> &str {
        self.0.log.as_deref().unwrap_or(&self.0.detail)
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The answer, with the request's id and trace in it. Logs the cause, once.
    pub(crate) fn into_answer(self, request_id: &str, trace: Option<Trace>) -> Response {
        let trace_id = trace.map(|trace| trace.id.to_string());
        if let Some(cause) = &self.0.log {
            let status = self.0.status.as_u16();
            let trace_id = trace_id.as_deref();
            if self.0.status == StatusCode::INTERNAL_SERVER_ERROR {
                if let Some(unsaid) = FAULTS.admit() {
                    tracing::error!(request_id, trace_id, status, unsaid, "{cause}");
                }
            } else if let Some(unsaid) = REFUSALS.admit() {
                tracing::warn!(request_id, trace_id, status, unsaid, "{cause}");
            }
        }
        let body = ProblemBody {
            kind: format!("urn:madang:problem:{}", self.0.slug),
            title: self.0.status.canonical_reason().unwrap_or("Error"),
            status: self.0.status.as_u16(),
            detail: &self.0.detail,
            instance: request_id,
            trace_id,
            errors: &self.0.errors,
            members: &self.0.members,
        };
        let text = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = (self.0.status, text).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.0.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.0.challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if self.0.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Lets handlers return a [`Problem`]; the edge then writes the body, for only it knows the request id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error == StoreError::KeyReused {
            Problem::key_reused()
        } else if error.is_temporary() {
            Problem::unavailable("the store is unavailable; try again later", 1, error.to_string())
        } else {
            Problem::internal(error.to_string())
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Store(error) => error.into(),
            ChangeError::OverQuota => Problem::conflict(
                "quota-exceeded",
                "your account stores as much of this as it may; delete some first",
            ),
            ChangeError::UnknownUser => Problem::account_gone(),
        }
    }
}
