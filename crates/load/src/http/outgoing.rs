//! The head of a request, for either protocol.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::uri::PathAndQuery;

use super::client::{ClientConfig, Hop, Request};
use super::cookies::{cookie_header, unix_now};
use super::proxy::Proxy;
use super::{RequestError, Result, canonical};

/// Name and value.
type Header<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The head of a request: where it goes, and its headers in the order they are sent.
#[derive(Debug)]
pub(super) struct OutgoingHead<'a> {
    method: &'a str,
    host: &'a str,
    target: &'a str,
    /// Empty sends none.
    user_agent: &'a str,
    /// Bytes of the body; `None` when nothing is said about it.
    content_length: Option<usize>,
    /// A body without a byte: Go does not know that before it has sent the headers.
    is_chunked: bool,
    /// The others, by their canonical names.
    headers: Vec<Header<'a>>,
    /// A proxy reads it, and has to know the server.
    proxy: Option<&'a Proxy>,
    /// The connection is closed after this request, and HTTP/1.1 has to say so.
    closes: bool,
}

/// Path and query; where `http` refuses them, with what it refuses in a query percent-encoded. Go sends that as it is.
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
    /// Puts together what the script, the redirects and the cookies want to be sent.
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
            None => has_body_method(&hop.method).then_some(0),
            Some(body) => Some(body.len()).filter(|length| *length > 0),
        };
        // The others in the order and with the capitals of Go, which keeps them in a map and writes them by name.
        let mut headers = headers(request, hop)?;
        headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self {
            method: &hop.method,
            host: match given("host").filter(|_| hop.keeps_host) {
                // As in Go nothing is said in place of what cannot be a host.
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

    /// Writes the head as HTTP/1.1 has it (RFC 9112 §3, §5).
    pub(super) fn write_http1(&self, wire: &mut Vec<u8>) {
        let mut line = |parts: [&str; 4]| {
            parts.iter().for_each(|part| wire.extend_from_slice(part.as_bytes()));
        };
        let server = if self.proxy.is_some() { ["http://", self.host] } else { ["", ""] };
        line([self.method, " ", server[0], server[1]]);
        line([self.target, " HTTP/1.1", "\r\n", ""]);
        line(["Host", ": ", self.host, "\r\n"]);
        if !self.user_agent.is_empty() {
            line(["User-Agent", ": ", trimmed(self.user_agent), "\r\n"]);
        }
        if let Some(length) = self.content_length {
            line(["Content-Length", ": ", &length.to_string(), "\r\n"]);
        }
        if self.is_chunked {
            line(["Transfer-Encoding", ": ", "chunked", "\r\n"]);
        }
        for (name, value) in &self.headers {
            line([name, ": ", trimmed(value), "\r\n"]);
        }
        if let Some(authorization) = self.proxy.and_then(|proxy| proxy.authorization.as_deref()) {
            line(["Proxy-Authorization", ": ", authorization, "\r\n"]);
        }
        if self.closes {
            line(["Connection", ": ", "close", "\r\n"]);
        }
        wire.extend_from_slice(b"\r\n");
    }

    /// What follows the head as HTTP/1.1 has it.
    pub(super) fn http1_body<'b>(&self, body: &'b [u8]) -> &'b [u8] {
        if self.is_chunked { b"0\r\n\r\n" } else { body }
    }

    /// The head as HTTP/2 has it (RFC 9113 §8.3), with what Go leaves out left out.
    pub(super) fn to_http2(&self) -> Result<http::Request<()>> {
        let invalid = |_| RequestError::InvalidHeader("Host".to_owned());
        let uri = http::Uri::builder()
            .scheme("https")
            .authority(self.host)
            .path_and_query(path_and_query(self.target).map_err(invalid)?)
            .build()
            .map_err(invalid)?;
        let mut fields = Fields(http::HeaderMap::with_capacity(self.headers.len() + 2));
        if !self.user_agent.is_empty() {
            fields.add("user-agent", self.user_agent)?;
        }
        for (name, value) in &self.headers {
            match &**name {
                "Cookie" => value.split("; ").try_for_each(|one| fields.add("cookie", one))?,
                _ if is_of_connection(name, value)? => {}
                _ => fields.add(name, value)?,
            }
        }
        if let Some(length) = self.content_length {
            fields.add("content-length", &length.to_string())?;
        }
        let mut request = http::Request::new(());
        *request.method_mut() = http::Method::from_bytes(self.method.as_bytes())
            .map_err(|_| RequestError::InvalidHeader(self.method.to_owned()))?;
        *request.uri_mut() = uri;
        *request.headers_mut() = fields.0;
        Ok(request)
    }

    /// The script wants the connection to be closed after this request.
    pub(super) fn wants_close(&self) -> bool {
        self.headers
            .iter()
            .any(|(name, value)| &**name == "Connection" && value.eq_ignore_ascii_case("close"))
    }
}

fn has_body_method(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

/// Methods with which Go looks first whether a body has a byte, and has none if not.
fn usually_lacks_body(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS" | "PROPFIND" | "SEARCH" | "CONNECT")
}

struct Fields(http::HeaderMap);

impl Fields {
    fn add(&mut self, name: &str, value: &str) -> Result<()> {
        let invalid = || RequestError::InvalidHeader(name.to_owned());
        let field = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let value = http::HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?;
        self.0.append(field, value);
        Ok(())
    }
}

/// Whether a header is one of HTTP/1.1's connections, which HTTP/2 does not have (RFC 9113 §8.2.2).
/// Go leaves those out that say nothing, and refuses the others.
fn is_of_connection(name: &str, value: &str) -> Result<bool> {
    let harmless = match name {
        "Connection" => {
            ["", "close", "keep-alive"].iter().any(|one| value.eq_ignore_ascii_case(one))
        }
        "Upgrade" => matches!(value, "" | "chunked"),
        "Te" => {
            return if value == "trailers" { Ok(false) } else { Err(not_for_http2("TE", value)) };
        }
        _ => return Ok(matches!(name, "Proxy-Connection" | "Keep-Alive")),
    };
    if harmless { Ok(true) } else { Err(not_for_http2(name, value)) }
}

fn not_for_http2(name: &str, value: &str) -> RequestError {
    RequestError::NotForHttp2 { name: name.to_owned(), value: value.to_owned() }
}

/// A header's value as Go writes it to HTTP/1.1.
pub(crate) fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// What the script set for a header; the last one counts.
fn given<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let mut headers = request.headers.iter().rev();
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
}

/// Headers that are written apart from the others.
const OURS: [&str; 5] = ["content-length", "host", "user-agent", "cookie", "transfer-encoding"];

/// Headers whose names may have any order, by their canonical names: the script's, and those of redirects, users and
/// cookies.
fn headers<'a>(request: &'a Request, hop: &'a Hop) -> Result<Vec<Header<'a>>> {
    let given = |name: &str| given(request, name);
    let mut headers: Vec<Header<'a>> = Vec::new();
    for (name, value) in &request.headers {
        let skip = is_one_of(name, &OURS)
            || (hop.body.is_none()
                && request.body.is_some()
                && name.eq_ignore_ascii_case("content-type"))
            || (!hop.same_domain && is_secret(name));
        if !is_valid_header(name, value) {
            return Err(RequestError::InvalidHeader(name.to_string()));
        }
        if skip {
            continue;
        }
        let name = canonical(name);
        // As in a map: the last one of a name counts.
        headers.retain(|(known, _)| *known != name);
        headers.push((name.into(), (&**value).into()));
    }
    if let Some(referer) = hop.referer.as_ref().filter(|_| given("referer").is_none()) {
        headers.push(("Referer".into(), (&**referer).into()));
    }
    if let Some(user_info) = &hop.url.user_info
        && given("authorization").filter(|_| hop.same_domain).is_none()
    {
        // Also without a password.
        let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
        headers.push(("Authorization".into(), basic(&format!("{user}:{password}")).into()));
    }
    // As in k6, a header the script wrote itself ends at the first redirect.
    let given_cookies = given("cookie").filter(|_| hop.is_first);
    if given_cookies.is_some() || !request.cookies.is_empty() || !request.jar.is_empty() {
        let kept = request.jar.matching(&hop.url, unix_now());
        let cookies = cookie_header(given_cookies, &kept, &request.cookies);
        if !cookies.is_empty() {
            if hop.is_first {
                // Of two tries the first.
                let _ = request.sent_cookies.set(cookies.as_str().into());
            }
            headers.push(("Cookie".into(), cookies.into()));
        }
    }
    Ok(headers)
}

/// The authorization of a user, `name:password`.
pub(crate) fn basic(user: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(user))
}

/// Headers that only the domain they were meant for may see; Go's list.
fn is_secret(name: &str) -> bool {
    let secret = ["authorization", "www-authenticate", "proxy-authorization", "proxy-authenticate"];
    is_one_of(name, &secret)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Whether the name is a token and the value has no control characters.
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
