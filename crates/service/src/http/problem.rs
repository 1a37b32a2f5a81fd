//! Error responses: `application/problem+json` (RFC 9457).

use crate::ops::quiet_log::QuietLog;
use crate::ops::record::Trace;
use crate::store::{ChangeError, StoreError};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::borrow::Cow;

/// A server that sheds load, or fails every request, must not be slowed further by its log. The metrics count every
/// response. Two, so that refusals do not hide a fault.
static REFUSALS: QuietLog = QuietLog::every_seconds(1);
static FAULTS: QuietLog = QuietLog::every_seconds(1);

type Text = Cow<'static, str>;

/// Error of one field, parameter or header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct FieldError {
    /// Name of the field or parameter.
    pub(crate) field: String,
    /// Accepted values.
    pub(crate) detail: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), detail: detail.into() }
    }
}

/// An error response, with separate messages for the client and for the log. 429 and 503 always have a `Retry-After`.
#[derive(Clone, Debug)]
// Boxed: it is the rare result of nearly every function that handles a request.
pub struct Problem(Box<Content>);

#[derive(Clone, Debug, Default)]
struct Content {
    status: StatusCode,
    slug: &'static str,
    detail: Text,
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
pub(crate) struct ProblemBody<'a> {
    /// `urn:madang:problem:` and a word for programs, such as `not-found`.
    #[serde(rename = "type")]
    kind: String,
    /// The status in words.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// Description of the error.
    detail: &'a str,
    /// The request id, also in the `X-Request-Id` header and in the server's log.
    instance: &'a str,
    /// The trace that the request belongs to, if it has one (W3C Trace Context).
    #[serde(rename = "traceId", skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    /// One entry for each field that is wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    /// Members of this type of problem alone (RFC 9457, 3.2).
    #[serde(flatten, serialize_with = "as_members")]
    #[schema(ignore)]
    members: &'a [(&'static str, serde_json::Value)],
}

fn as_members<S: serde::Serializer>(
    members: &[(&'static str, serde_json::Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
}

impl Problem {
    fn new(status: StatusCode, slug: &'static str, detail: impl Into<Text>) -> Self {
        let detail = detail.into();
        Self(Box::new(Content { status, slug, detail, ..Content::default() }))
    }

    /// 400: the request cannot be read.
    pub(crate) fn bad_request(detail: impl Into<Text>) -> Self {
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

    /// 401: no token, or a failed log-in.
    pub(crate) fn unauthorized(detail: impl Into<Text>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).challenging("Bearer")
    }

    /// 401: the account of the token was deleted.
    pub(crate) fn account_gone() -> Self {
        Self::invalid_token("the account of this token no longer exists")
    }

    /// 401: the token was altered, or has expired or been revoked.
    pub(crate) fn invalid_token(detail: impl Into<Text>) -> Self {
        // RFC 6750, 3.1: the challenge names the error of the token.
        Self::new(StatusCode::UNAUTHORIZED, "invalid-token", detail)
            .challenging("Bearer error=\"invalid_token\"")
    }

    pub(crate) fn forbidden(detail: impl Into<Text>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 409: the request contradicts the current state.
    pub(crate) fn conflict(slug: &'static str, detail: impl Into<Text>) -> Self {
        Self::new(StatusCode::CONFLICT, slug, detail)
    }

    pub(crate) fn not_found(detail: impl Into<Text>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        let detail = "this resource does not support the method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
    }

    /// 408: the body did not arrive in time. Closes the connection.
    pub(crate) fn body_timeout() -> Self {
        let detail = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", detail).closing()
    }

    /// 414: path and query are longer than `limit` bytes.
    pub(crate) fn target_too_long(limit: usize) -> Self {
        let detail = format!("path and query are longer than {limit} bytes");
        Self::new(StatusCode::URI_TOO_LONG, "target-too-long", detail)
    }

    /// 412: a condition of the request does not hold; nothing was done.
    pub(crate) fn precondition_failed() -> Self {
        let detail =
            "the current version does not satisfy If-Match or If-None-Match; fetch it again";
        Self::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", detail)
    }

    /// 413: the body is larger than `limit` bytes. Closes the connection.
    pub(crate) fn too_large(limit: usize) -> Self {
        let detail = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail).closing()
    }

    /// 503: no memory is left for request bodies. Closes the connection.
    pub(crate) fn too_many_bodies() -> Self {
        let detail = "no memory for another request body; try again later";
        Self::unavailable(detail, 1, "no room for another body").closing()
    }

    /// 501: the request uses an unsupported part of HTTP.
    pub(crate) fn not_implemented(detail: impl Into<Text>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "not-implemented", detail)
    }

    /// Closes the connection after the response: the start of the next request is unknown, or far away.
    #[must_use]
    pub(crate) fn closing(mut self) -> Self {
        self.0.close = true;
        self
    }

    /// 422: wrong type or value, field by field.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let mut problem =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "some values are invalid");
        problem.0.errors = errors;
        problem
    }

    /// 422: the `Idempotency-Key` was used with another request.
    pub(crate) fn key_reused() -> Self {
        let detail =
            "this Idempotency-Key was used with another request; use a new key for a new request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", detail)
    }

    /// 422 for one field.
    pub(crate) fn invalid_field(field: &str, detail: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(field, detail)])
    }

    /// 415: the format or coding of the body is not supported.
    pub(crate) fn unsupported_media_type(detail: impl Into<Text>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
    }

    /// 429: the client exceeds a rate.
    pub(crate) fn too_many_requests(
        slug: &'static str,
        detail: impl Into<Text>,
        retry_after_seconds: u32,
    ) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, slug, detail).after(retry_after_seconds)
    }

    /// Adds a member of this type of problem (RFC 9457, 3.2), with a name that the standard does not define.
    #[must_use]
    pub(crate) fn with_member(
        mut self,
        name: &'static str,
        value: impl Into<serde_json::Value>,
    ) -> Self {
        debug_assert!(
            !["type", "title", "status", "detail", "instance", "traceId", "errors"].contains(&name),
            "{name} is a member of every problem"
        );
        self.0.members.push((name, value.into()));
        self
    }

    /// 503. Only the log shows `log`.
    pub(crate) fn unavailable(
        detail: &'static str,
        retry_after_seconds: u32,
        log: impl Into<String>,
    ) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            .after(retry_after_seconds)
            .logged(log)
    }

    /// 503: maintenance mode refuses writes. `detail` is the operator's message.
    pub(crate) fn maintenance(detail: impl Into<Text>, retry_after_seconds: u32) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "maintenance", detail).after(retry_after_seconds)
    }

    /// 504 in place of a 503: the request may have been, or may yet be, carried out. `Retry-After` stays only if the
    /// request is `repeatable`, so that it can be sent again without a second effect.
    #[must_use]
    pub(crate) fn with_unknown_outcome(mut self, repeatable: bool) -> Self {
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

    /// 500. Only the log shows `log`; the client can quote the request id.
    pub(crate) fn internal(log: impl Into<String>) -> Self {
        let detail = "internal error; include the instance when you report it";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).logged(log)
    }

    #[cfg(test)]
    pub(crate) fn errors(&self) -> &[FieldError] {
        &self.0.errors
    }

    /// The cause in the log, else the client's detail.
    pub(crate) fn cause(&self) -> &str {
        self.0.log.as_deref().unwrap_or(&self.0.detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The response with the request's id and trace. Logs the cause.
    pub(crate) fn into_answer(self, request_id: &str, trace: Option<Trace>) -> Response {
        let trace_id = trace.map(|trace| trace.id_text());
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

/// Lets handlers return a [`Problem`]; the edge, which knows the request id, writes the body.
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
