//! The client of one virtual user: its kept connections, redirects, timeouts.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connection::{Connection, Progress, RawResponse, Traffic};
use super::timings::Trace;
use super::{Head, RequestError, Resolver, Timings, Url};

/// Kept connections of one virtual user, over all hosts. The oldest goes first.
const MAX_KEPT_CONNECTIONS: usize = 64;

/// Settings that hold for every request of a run.
#[derive(Debug, Clone)]
pub(crate) struct ClientConfig {
    /// The `User-Agent` header unless a request sets its own; empty sends none.
    pub(crate) user_agent: String,
    /// Close the connection after every request.
    pub(crate) no_connection_reuse: bool,
}

/// One request, before redirects.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Rc<str>,
    pub(crate) url: Rc<Url>,
    /// Extra headers, as given. `Host` and `User-Agent` replace the ones the client would send.
    pub(crate) headers: Vec<(Rc<str>, Rc<str>)>,
    pub(crate) body: Option<Rc<[u8]>>,
    /// For all of it: connecting, redirects, the body.
    pub(crate) timeout: Duration,
    pub(crate) max_redirects: u32,
    pub(crate) discard_body: bool,
}

/// What one request on the wire came to; a followed redirect is an exchange of its own.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) method: Rc<str>,
    pub(crate) url: Rc<Url>,
    pub(crate) timings: Timings,
    pub(crate) traffic: Traffic,
    /// When the last byte of the answer (or the error) arrived.
    pub(crate) end: Instant,
    pub(crate) outcome: Result<Answer, RequestError>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

struct Kept {
    authority: Rc<str>,
    connection: Connection,
}

/// Sends requests; keeps connections between them.
pub(crate) struct Client {
    config: Rc<ClientConfig>,
    resolver: Rc<Resolver>,
    kept: Vec<Kept>,
    /// Reused for every head that is written.
    wire: Vec<u8>,
}

impl Client {
    pub(crate) fn new(config: Rc<ClientConfig>, resolver: Rc<Resolver>) -> Self {
        Self { config, resolver, kept: Vec::new(), wire: Vec::new() }
    }

    /// Closes every kept connection.
    pub(crate) fn close_connections(&mut self) {
        self.kept.clear();
    }

    /// Sends `request`, follows redirects, and hands every exchange but the last to `on_redirect`.
    /// Returns the last one.
    pub(crate) async fn send(
        &mut self,
        request: &Request,
        mut on_redirect: impl FnMut(&Exchange),
    ) -> Exchange {
        let deadline = tokio::time::Instant::now() + request.timeout;
        let mut hop = Hop {
            method: request.method.clone(),
            url: request.url.clone(),
            body: request.body.clone(),
            same_host: true,
        };
        let mut followed = 0;
        loop {
            let mut trace = Trace::begin();
            let mut traffic = Traffic::default();
            let attempt = self.attempt(request, &hop, &mut trace, &mut traffic);
            let outcome = match tokio::time::timeout_at(deadline, attempt).await {
                Ok(outcome) => outcome,
                Err(_) => Err(RequestError::Timeout),
            };
            let end = Instant::now();
            let next = match &outcome {
                Ok(answer) if followed < request.max_redirects => hop.after(&answer.head),
                _ => None,
            };
            let Hop { method, url, .. } = hop.clone();
            let exchange =
                Exchange { method, url, timings: trace.finish(end), traffic, end, outcome };
            match next {
                None => return exchange,
                Some(Ok(next)) => {
                    on_redirect(&exchange);
                    hop = next;
                    followed += 1;
                }
                Some(Err(error)) => return Exchange { outcome: Err(error), ..exchange },
            }
        }
    }

    /// One exchange; a second try when a kept connection turns out to be closed.
    async fn attempt(
        &mut self,
        request: &Request,
        hop: &Hop,
        trace: &mut Trace,
        traffic: &mut Traffic,
    ) -> Result<Answer, RequestError> {
        let mut wire = std::mem::take(&mut self.wire);
        wire.clear();
        self.write_head(&mut wire, request, hop)?;
        let body = hop.body.as_deref().unwrap_or_default();
        let kept = self.take_kept(&hop.url.authority);
        let reused = kept.is_some();
        let mut result = self.exchange(kept, &wire, body, request, hop, trace, traffic).await;
        // The rule of Go's transport, which k6 uses: what may be repeated safely is, once, when
        // the server had closed the kept connection before it said anything.
        let repeatable = matches!(&*hop.method, "GET" | "HEAD" | "OPTIONS" | "TRACE");
        if let Err(error) = &result
            && reused
            && repeatable
            && error.before_any_response_byte()
        {
            result = self.exchange(None, &wire, body, request, hop, trace, traffic).await;
        }
        self.wire = wire;
        let (connection, response) = result?;
        if response.reusable && !self.config.no_connection_reuse {
            self.keep(hop.url.authority.clone(), connection);
        }
        Ok(Answer { head: response.head, body: response.body })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one private call site; all borrowed parts of one exchange"
    )]
    async fn exchange(
        &self,
        kept: Option<Connection>,
        wire: &[u8],
        body: &[u8],
        request: &Request,
        hop: &Hop,
        trace: &mut Trace,
        traffic: &mut Traffic,
    ) -> Result<(Connection, RawResponse), RequestError> {
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect(&hop.url, trace).await?,
        };
        trace.connected = Some(Instant::now());
        let mut progress = Progress {
            trace,
            traffic,
            to_head_request: &*hop.method == "HEAD",
            discard_body: request.discard_body,
        };
        let response = connection.exchange(wire, body, &mut progress).await?;
        Ok((connection, response))
    }

    async fn connect(&self, url: &Url, trace: &mut Trace) -> Result<Connection, RequestError> {
        let start = Instant::now();
        let (address, looked_up) = self.resolver.resolve(&url.host).await?;
        let resolved = Instant::now();
        if looked_up {
            trace.looking_up = resolved.duration_since(start);
        }
        let connection = Connection::connect(SocketAddr::new(address, url.port)).await?;
        trace.connecting = resolved.elapsed();
        Ok(connection)
    }

    /// A kept connection to `authority` that is still open; closed ones found on the way go.
    fn take_kept(&mut self, authority: &str) -> Option<Connection> {
        while let Some(at) = self.kept.iter().rposition(|kept| &*kept.authority == authority) {
            let kept = self.kept.swap_remove(at);
            if kept.connection.is_idle() {
                return Some(kept.connection);
            }
        }
        None
    }

    fn keep(&mut self, authority: Rc<str>, connection: Connection) {
        if self.kept.len() >= MAX_KEPT_CONNECTIONS {
            self.kept.remove(0);
        }
        self.kept.push(Kept { authority, connection });
    }

    fn write_head(
        &self,
        wire: &mut Vec<u8>,
        request: &Request,
        hop: &Hop,
    ) -> Result<(), RequestError> {
        if hop.method.is_empty() || !hop.method.bytes().all(is_token_byte) {
            return Err(RequestError::InvalidHeader(hop.method.to_string()));
        }
        let given = |name: &str| {
            request.headers.iter().rev().find(|(found, _)| found.eq_ignore_ascii_case(name))
        };
        let mut line = |parts: [&str; 4]| {
            parts.iter().for_each(|part| wire.extend_from_slice(part.as_bytes()));
        };
        line([&hop.method, " ", &hop.url.target, " HTTP/1.1\r\n"]);
        if given("host").is_none() || !hop.same_host {
            line(["Host", ": ", &hop.url.authority, "\r\n"]);
        }
        if given("user-agent").is_none() && !self.config.user_agent.is_empty() {
            line(["User-Agent", ": ", &self.config.user_agent, "\r\n"]);
        }
        let has_body_method = matches!(&*hop.method, "POST" | "PUT" | "PATCH");
        if hop.body.is_some() || has_body_method {
            let length = hop.body.as_ref().map_or(0, |body| body.len()).to_string();
            line(["Content-Length", ": ", &length, "\r\n"]);
        }
        for (name, value) in &request.headers {
            let secret = ["authorization", "cookie", "www-authenticate"];
            let skip = name.eq_ignore_ascii_case("content-length")
                || name.eq_ignore_ascii_case("transfer-encoding")
                || (hop.body.is_none()
                    && request.body.is_some()
                    && name.eq_ignore_ascii_case("content-type"))
                || (!hop.same_host
                    && (name.eq_ignore_ascii_case("host")
                        || secret.iter().any(|secret| name.eq_ignore_ascii_case(secret))));
            if name.is_empty()
                || !name.bytes().all(is_token_byte)
                || value.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f)
            {
                return Err(RequestError::InvalidHeader(name.to_string()));
            }
            if !skip {
                line([name, ": ", value, "\r\n"]);
            }
        }
        if let Some(user_info) = &hop.url.user_info
            && given("authorization").is_none()
        {
            line(["Authorization: Basic ", &base64(user_info.as_bytes()), "\r", "\n"]);
        }
        if self.config.no_connection_reuse && given("connection").is_none() {
            line(["Connection", ": ", "close", "\r\n"]);
        }
        wire.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// Where the next exchange goes.
#[derive(Debug, Clone)]
struct Hop {
    method: Rc<str>,
    url: Rc<Url>,
    body: Option<Rc<[u8]>>,
    /// No redirect has left the first host: credentials may still be sent.
    same_host: bool,
}

impl Hop {
    /// Where a response redirects to, by the rules of Go's client (and of browsers): 301, 302 and
    /// 303 turn everything but HEAD into GET, 307 and 308 repeat the request.
    fn after(&self, head: &Head) -> Option<Result<Self, RequestError>> {
        let repeat = match head.status {
            301..=303 => false,
            307 | 308 => true,
            _ => return None,
        };
        let location = head.values("location").next()?;
        let location = String::from_utf8_lossy(location);
        let url = match self.url.join(&location) {
            Ok(url) => url,
            Err(error) => return Some(Err(error)),
        };
        let same_host = self.same_host && url.authority == self.url.authority;
        let url = Rc::new(url);
        Some(Ok(if repeat {
            Self { url, same_host, ..self.clone() }
        } else {
            let method = if &*self.method == "HEAD" { "HEAD" } else { "GET" };
            Self { method: method.into(), url, body: None, same_host }
        }))
    }
}

/// Bytes of a token (RFC 9110 §5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Standard base64 with padding (RFC 4648 §4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for index in 0..4 {
            if index <= chunk.len() {
                out.push(ALPHABET[(group >> (18 - 6 * index) & 63) as usize] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_examples_of_rfc_4648() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
