//! Request heads of HTTP/1.1 and HTTP/2.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::uri::PathAndQuery;

use super::client::{ClientConfig, Hop, Request};
use super::cookies::{cookie_header, unix_now};
use super::proxy::Proxy;
use super::{RequestError, Result, canonical};

type Header<'a> = (Cow<'a, str>, Cow<'a, str>);

#[derive(Debug)]
pub(super) struct OutgoingHead<'a> {
    method: &'a str,
    host: &'a str,
    target: &'a str,
    /// Empty sends none.
    user_agent: &'a str,
    /// Bytes of the body; `None` sends no `Content-Length`.
    content_length: Option<usize>,
    /// The body is empty, which Go detects only after sending the headers.
    is_chunked: bool,
    /// The other headers by their canonical names.
    headers: Vec<Header<'a>>,
    /// The proxy that reads this head; the request line then names the server.
    proxy: Option<&'a Proxy>,
    closes: bool,
}

/// Path and query; percent-encodes what the `http` crate rejects in a query. Go sends that unchanged.
fn path_and_query(target: &str) -> std::result::Result<PathAndQuery, http::Error> {
    PathAndQuery::try_from(target).or_else(|_| {
        let mut encoded = String::with_capacity(target.len() + 8);
        for c in target.chars() {
            match c {
                ' ' | '"' | '<' | '>' => _ = write!(encoded, "%{:02X}", u32::from(c)),
                _ => encoded.push(c),
            }
        }
        Ok(PathAndQuery::try_from(encoded)?)
    })
}

impl<'a> OutgoingHead<'a> {
    pub(super) fn new(
        request: &'a Request,
        hop: &'a Hop,
        config: &'a ClientConfig,
    ) -> Result<Self> {
        if hop.method.is_empty() || !hop.method.bytes().all(is_token_byte) {
            return Err(RequestError::InvalidHeader(hop.method.to_string()));
        }
        let given = |name: &str| given(request, name);
        let length = match &hop.body {
            None => matches!(&*hop.method, "POST" | "PUT" | "PATCH").then_some(0),
            Some(body) => Some(body.len()).filter(|length| *length > 0),
        };
        // Go keeps them in a map and writes them by name.
        let mut headers = headers(request, hop)?;
        headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self {
            method: &hop.method,
            host: match given("host").filter(|_| hop.keeps_host) {
                // As in Go an invalid host is sent as an empty one.
                Some(host) if !host.bytes().all(is_host_byte) => "",
                Some(host) => host,
                None => &hop.url.authority,
            },
            target: &hop.url.target,
            user_agent: given("user-agent").unwrap_or(&config.user_agent),
            content_length: length,
            is_chunked: hop.body.as_ref().is_some_and(|body| body.is_empty())
                && !usually_lacks_body(&hop.method),
            headers,
            proxy: config.proxies.for_url(&hop.url)?.filter(|_| !hop.url.secure),
            closes: config.no_connection_reuse && given("connection").is_none(),
        })
    }

    /// Writes the head in the form of HTTP/1.1 (RFC 9112 §3, §5).
    pub(super) fn write_http1(&self, wire: &mut Vec<u8>) {
        let mut push = |parts: &[&str]| {
            parts.iter().for_each(|part| wire.extend_from_slice(part.as_bytes()));
        };
        push(&[self.method, " "]);
        if self.proxy.is_some() {
            push(&["http://", self.host]);
        }
        push(&[self.target, " HTTP/1.1\r\nHost: ", self.host, "\r\n"]);
        if !self.user_agent.is_empty() {
            push(&["User-Agent: ", trimmed(self.user_agent), "\r\n"]);
        }
        if let Some(length) = self.content_length {
            push(&["Content-Length: ", &length.to_string(), "\r\n"]);
        }
        if self.is_chunked {
            push(&["Transfer-Encoding: chunked\r\n"]);
        }
        for (name, value) in &self.headers {
            push(&[name, ": ", trimmed(value), "\r\n"]);
        }
        if let Some(authorization) = self.proxy.and_then(|proxy| proxy.authorization.as_deref()) {
            push(&["Proxy-Authorization: ", authorization, "\r\n"]);
        }
        if self.closes {
            push(&["Connection: close\r\n"]);
        }
        push(&["\r\n"]);
    }

    pub(super) fn http1_body<'b>(&self, body: &'b [u8]) -> &'b [u8] {
        if self.is_chunked { b"0\r\n\r\n" } else { body }
    }

    /// The head in the form of HTTP/2 (RFC 9113 §8.3), without the headers that Go leaves out.
    pub(super) fn to_http2(&self) -> Result<http::Request<()>> {
        let invalid = |_| RequestError::InvalidHeader("Host".to_owned());
        let uri = http::Uri::builder()
            .scheme("https")
            .authority(self.host)
            .path_and_query(path_and_query(self.target).map_err(invalid)?)
            .build()
            .map_err(invalid)?;
        let mut fields = http::HeaderMap::with_capacity(self.headers.len() + 2);
        let mut add = |name: &str, value: &str| -> Result<()> {
            let invalid = || RequestError::InvalidHeader(name.to_owned());
            let field = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            let value = http::HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?;
            fields.append(field, value);
            Ok(())
        };
        if !self.user_agent.is_empty() {
            add("user-agent", self.user_agent)?;
        }
        for (name, value) in &self.headers {
            match &**name {
                "Cookie" => value.split("; ").try_for_each(|one| add("cookie", one))?,
                _ if is_of_connection(name, value)? => {}
                _ => add(name, value)?,
            }
        }
        if let Some(length) = self.content_length {
            add("content-length", &length.to_string())?;
        }
        let mut request = http::Request::new(());
        *request.method_mut() = http::Method::from_bytes(self.method.as_bytes())
            .map_err(|_| RequestError::InvalidHeader(self.method.to_owned()))?;
        *request.uri_mut() = uri;
        *request.headers_mut() = fields;
        Ok(request)
    }

    pub(super) fn wants_close(&self) -> bool {
        let mut headers = self.headers.iter();
        headers.any(|(name, value)| name == "Connection" && value.eq_ignore_ascii_case("close"))
    }
}

/// Methods for which Go checks first whether the body is empty, and then sends none.
fn usually_lacks_body(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS" | "PROPFIND" | "SEARCH" | "CONNECT")
}

/// True if a header is connection-specific (RFC 9113 §8.2.2) and left out. Go leaves out those without effect in HTTP/2
/// and rejects the others.
fn is_of_connection(name: &str, value: &str) -> Result<bool> {
    let (name, is_valid, left_out) = match name {
        "Connection" => (name, is_one_of(value, &["", "close", "keep-alive"]), true),
        "Upgrade" => (name, matches!(value, "" | "chunked"), true),
        "Te" => ("TE", value == "trailers", false),
        _ => (name, true, matches!(name, "Proxy-Connection" | "Keep-Alive")),
    };
    if is_valid {
        return Ok(left_out);
    }
    Err(RequestError::NotForHttp2 { name: name.to_owned(), value: value.to_owned() })
}

/// A header value as Go writes it in HTTP/1.1.
pub(crate) fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

fn given<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let mut headers = request.headers.iter().rev();
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
}

const OURS: [&str; 5] = ["content-length", "host", "user-agent", "cookie", "transfer-encoding"];

/// The other headers by their canonical names: those of the script, redirects, credentials and cookies.
fn headers<'a>(request: &'a Request, hop: &'a Hop) -> Result<Vec<Header<'a>>> {
    let given = |name: &str| given(request, name);
    let mut headers: Vec<Header<'a>> = Vec::new();
    for (name, value) in &request.headers {
        let skip = is_one_of(name, &OURS)
            || (hop.body.is_none()
                && request.body.is_some()
                && name.eq_ignore_ascii_case("content-type"))
            || (!hop.same_domain && is_one_of(name, &SECRETS));
        if !is_valid_header(name, value) {
            return Err(RequestError::InvalidHeader(name.to_string()));
        }
        if skip {
            continue;
        }
        let name = canonical(name);
        // As in Go's map the last value counts.
        headers.retain(|(known, _)| *known != name);
        headers.push((name.into(), (&**value).into()));
    }
    if let Some(referer) = hop.referer.as_ref().filter(|_| given("referer").is_none()) {
        headers.push(("Referer".into(), (&**referer).into()));
    }
    if let Some(user_info) = &hop.url.user_info
        && given("authorization").filter(|_| hop.same_domain).is_none()
    {
        headers.push(("Authorization".into(), basic(user_info).into()));
    }
    // As in k6 a `Cookie` header of the script is not sent after a redirect.
    let given_cookies = given("cookie").filter(|_| hop.is_first);
    if given_cookies.is_some() || !request.cookies.is_empty() || !request.jar.is_empty() {
        let kept = request.jar.matching(&hop.url, unix_now());
        let cookies = cookie_header(given_cookies, &kept, &request.cookies);
        if !cookies.is_empty() {
            if hop.is_first {
                // Set once; a retry keeps it.
                let _ = request.sent_cookies.set(cookies.as_str().into());
            }
            headers.push(("Cookie".into(), cookies.into()));
        }
    }
    Ok(headers)
}

/// The `Authorization` header of `name:password`, or of a name without a password.
pub(crate) fn basic(user_info: &str) -> String {
    let colon = if user_info.contains(':') { "" } else { ":" };
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user_info}{colon}")))
}

/// Headers that are not sent to another domain; Go's list.
const SECRETS: [&str; 4] =
    ["authorization", "www-authenticate", "proxy-authorization", "proxy-authenticate"];

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// True if the name is a token and the value has no control characters.
pub(crate) fn is_valid_header(name: &str, value: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(is_token_byte)
        && !value.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f)
}

/// Bytes that a host and a port may have (RFC 3986 §3.2.2).
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;='[]_~".contains(&byte)
}

/// Bytes of a token (RFC 9110 §5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_http_refuses_in_a_query_is_encoded_and_nothing_else() {
        for (target, sent) in [
            ("/a?q=hello world <b>&x=%20", "/a?q=hello%20world%20%3Cb%3E&x=%20"),
            ("/a?q= ", "/a?q=%20"),
            ("/%20?a|b^{}", "/%20?a|b^{}"),
        ] {
            assert_eq!(path_and_query(target).unwrap().as_str(), sent);
        }
    }
}
