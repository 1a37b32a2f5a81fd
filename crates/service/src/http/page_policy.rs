//! Security headers of HTML pages.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Adds a page's content security policy, and the headers that all pages share. `location` = it may ask for the
/// user's position.
pub(crate) fn protect(headers: &mut HeaderMap, policy: &'static str, location: bool) {
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
