//! Cross-origin requests (the CORS protocol of <https://fetch.spec.whatwg.org>): which pages of other origins
//! may use the API from a browser. Off unless `server.cors_origins` names some.
//!
//! A token is sent by the page and not by the browser, so nothing here allows credentials: the
//! `madang_device` cookie stays with pages of this origin. What a preflight allows is what the router says of
//! the path: an OPTIONS request that no route takes is answered 405 with the methods that it has.

use crate::config::CorsOrigins;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

/// Headers that requests of the API may have and that a page may not send unasked.
const REQUEST_HEADERS: &str =
    "authorization, content-type, idempotency-key, if-match, if-none-match, x-request-id";
/// Headers of answers that a page may read beyond those that it always may.
const ANSWER_HEADERS: &str =
    "etag, location, retry-after, x-request-id, idempotent-replayed, ratelimit, ratelimit-policy";
/// How long a browser may keep the answer to a preflight; Chromium keeps none for longer.
const MAX_AGE_SECONDS: &str = "7200";

/// What to add to one answer.
pub(super) struct Cross {
    /// The value of `Access-Control-Allow-Origin`.
    origin: Option<HeaderValue>,
    preflight: bool,
    any: bool,
}

/// What this request's answer needs; nothing when no origin is allowed.
pub(super) fn look<B>(origins: &CorsOrigins, request: &Request<B>) -> Option<Cross> {
    if *origins == CorsOrigins::None {
        return None;
    }
    let headers = request.headers();
    let any = *origins == CorsOrigins::Any;
    let asked = headers.get(header::ORIGIN);
    let origin = asked.and_then(|origin| match origins {
        CorsOrigins::None => None,
        CorsOrigins::Any => Some(HeaderValue::from_static("*")),
        CorsOrigins::These(these) => these
            .iter()
            .any(|allowed| allowed.as_bytes() == origin.as_bytes())
            .then(|| origin.clone()),
    });
    let preflight = request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    Some(Cross { preflight: preflight && origin.is_some(), origin, any })
}

impl Cross {
    /// The router's answer; to a preflight for a path that there is, what may be asked of it.
    pub(super) fn answer(&self, mut response: Response) -> Response {
        let Some(methods) =
            response.headers().get(header::ALLOW).filter(|_| self.preflight).cloned()
        else {
            return response;
        };
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.extensions_mut().remove::<super::Problem>();
        *response.body_mut() = axum::body::Body::empty();
        let headers = response.headers_mut();
        headers.clear();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    /// Says who may read this answer, whatever it is.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        if !self.any {
            // Also without an origin: a cache must not give this answer to a page that sends one.
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        let Some(origin) = &self.origin else { return };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if !self.preflight {
            let names = HeaderValue::from_static(ANSWER_HEADERS);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, names);
        }
    }
}
