//! Cross-origin requests (the CORS protocol of <https://fetch.spec.whatwg.org>): the origins whose pages may use the
//! API from a browser. Off unless `server.cors_origins` is set.
//!
//! The page sends the token, not the browser, so credentials are not allowed: the `madang_device` cookie stays with
//! pages of this origin. A preflight is answered from the router: an OPTIONS request without a route gets 405 with
//! the methods of its path.

use crate::config::CorsOrigins;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

/// Request headers that need a preflight.
const REQUEST_HEADERS: &str =
    "authorization, content-type, idempotency-key, if-match, if-none-match, x-request-id";
/// Response headers that a page may read besides the safelisted ones.
const ANSWER_HEADERS: &str =
    "etag, location, retry-after, x-request-id, idempotent-replayed, ratelimit, ratelimit-policy";
/// Lifetime of a preflight's response in a browser; Chromium's maximum.
const MAX_AGE_SECONDS: &str = "7200";

/// CORS of one response.
pub(super) struct Cors {
    /// Value of `Access-Control-Allow-Origin`.
    origin: Option<HeaderValue>,
    preflight: bool,
    any: bool,
}

/// CORS of this request's response; `None` when no origin is allowed.
pub(super) fn plan<B>(origins: &CorsOrigins, request: &Request<B>) -> Option<Cors> {
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
    Some(Cors { preflight: preflight && origin.is_some(), origin, any })
}

impl Cors {
    /// The router's response; for a preflight of an existing path, the allowed methods and headers.
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

    /// Adds the headers for the origin to any response.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        if !self.any {
            // Even without an origin: a cache must not serve this response to a page that sends one.
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
