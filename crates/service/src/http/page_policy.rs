//! Headers of pages that a browser shows: what it may do with them.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Puts a page's content security policy on an answer, and what is the same for all pages. `location` says
/// whether it may ask where the user is.
pub fn protect(headers: &mut HeaderMap, policy: &'static str, location: bool) {
    let permissions = if location {
        "geolocation=(self), camera=(), microphone=()"
    } else {
        "geolocation=(), camera=(), microphone=()"
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("permissions-policy"), permissions),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
