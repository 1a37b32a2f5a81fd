//! The client of one virtual user: its kept connections, redirects, timeouts.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::connection::{Connection, Peer, Progress, RawResponse, Traffic};
use super::cookies::{Jar, RequestCookie, cookie_header, unix_now};
use super::encoding;
use super::timings::Trace;
use super::tls::Tls;
use super::{Head, NameRules, RequestError, Resolver, Timings, TlsSettings, Url, canonical};

/// Kept connections of one virtual user, over all hosts. The oldest goes first.
const MAX_KEPT_CONNECTIONS: usize = 64;

/// Settings that hold for every request of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientConfig {
    /// The `User-Agent` header unless a request sets its own; empty sends none.
    pub(crate) user_agent: String,
    /// Close the connection after every request.
    pub(crate) no_connection_reuse: bool,
    pub(crate) tls: TlsSettings,
    pub(crate) names: NameRules,
}

/// What the clients of one event loop share.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) config: ClientConfig,
    resolver: Resolver,
    tls: Tls,
}

impl Network {
    pub(crate) fn new(config: ClientConfig) -> Self {
        let tls = Tls::new(config.tls);
        let resolver = Resolver::new(config.names.clone());
        Self { config, resolver, tls }
    }
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
    /// Cookies for this request and its redirects.
    pub(crate) cookies: Vec<RequestCookie>,
    /// Where cookies come from and go to.
    pub(crate) jar: Rc<Jar>,
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
    /// Who answered; `None` when nobody could be reached.
    pub(crate) peer: Option<Peer>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

struct Kept {
    authority: Rc<str>,
    secure: bool,
    connection: Connection,
}

/// Sends requests, several at a time if need be; keeps connections between them.
pub(crate) struct Client {
    network: Rc<Network>,
    kept: RefCell<Vec<Kept>>,
    /// Reused for every head that is written.
    wire: RefCell<Vec<u8>>,
}

impl Client {
    pub(crate) fn new(network: Rc<Network>) -> Self {
        Self { network, kept: RefCell::default(), wire: RefCell::default() }
    }

    /// The `User-Agent` header of requests without one; empty for none.
    pub(crate) fn user_agent(&self) -> &str {
        &self.network.config.user_agent
    }

    /// Closes every kept connection.
    pub(crate) fn close_connections(&self) {
        self.kept.borrow_mut().clear();
    }

    /// Sends `request`, follows redirects, and hands every exchange but the last to `on_redirect`.
    /// Returns the last one.
    pub(crate) async fn send(
        &self,
        request: &Request,
        mut on_redirect: impl FnMut(&Exchange),
    ) -> Exchange {
        let deadline = tokio::time::Instant::now() + request.timeout;
        let mut hop = Hop {
            method: request.method.clone(),
            url: request.url.clone(),
            body: request.body.clone(),
            same_domain: true,
            keeps_host: true,
            is_first: true,
            referer: None,
        };
        let mut followed = 0;
        loop {
            let mut trace = Trace::begin();
            let mut traffic = Traffic::default();
            let mut peer = None;
            let attempt = self.attempt(request, &hop, &mut trace, &mut traffic, &mut peer);
            let outcome = match tokio::time::timeout_at(deadline, attempt).await {
                Ok(outcome) => outcome,
                Err(_) => Err(RequestError::Timeout),
            };
            let end = Instant::now();
            if let Ok(answer) = &outcome {
                request.jar.store(&hop.url, &answer.head);
            }
            let next = match &outcome {
                Ok(answer) if followed < request.max_redirects => {
                    hop.after(&answer.head, &request.url)
                }
                _ => None,
            };
            let Hop { method, url, .. } = hop.clone();
            let timings = trace.finish(end);
            let exchange = Exchange { method, url, timings, traffic, end, outcome, peer };
            match next {
                None => return decoded(exchange),
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
        &self,
        request: &Request,
        hop: &Hop,
        trace: &mut Trace,
        traffic: &mut Traffic,
        peer: &mut Option<Peer>,
    ) -> Result<Answer, RequestError> {
        // Taken, not borrowed: another request of a batch may need one meanwhile.
        let mut wire = self.wire.take();
        wire.clear();
        self.write_head(&mut wire, request, hop)?;
        let body = hop.body.as_deref().unwrap_or_default();
        let kept = self.take_kept(&hop.url);
        let reused = kept.is_some();
        let mut result = self.exchange(kept, &wire, body, request, hop, trace, traffic, peer).await;
        // The rule of Go's transport, which k6 uses: what may be repeated safely is, once, when
        // the server had closed the kept connection before it said anything.
        let repeatable = matches!(&*hop.method, "GET" | "HEAD" | "OPTIONS" | "TRACE");
        if let Err(error) = &result
            && reused
            && repeatable
            && trace.first_byte.is_none()
            && error.is_of_a_closed_connection()
        {
            let again = self.exchange(None, &wire, body, request, hop, trace, traffic, peer);
            result = Box::pin(again).await;
        }
        self.wire.replace(wire);
        let (connection, response) = result?;
        if response.reusable && !self.network.config.no_connection_reuse {
            self.keep(&hop.url, connection);
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
        peer: &mut Option<Peer>,
    ) -> Result<(Connection, RawResponse), RequestError> {
        let mut connection = match kept {
            Some(connection) => connection,
            // In a box, as all that is seldom done here: its state would be part of every frame below, and the
            // pages of a stack that were touched once stay with the virtual user.
            None => Box::pin(self.connect(&hop.url, trace)).await?,
        };
        *peer = Some(connection.peer);
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

    pub(super) async fn connect(
        &self,
        url: &Url,
        trace: &mut Trace,
    ) -> Result<Connection, RequestError> {
        let start = Instant::now();
        let (address, looked_up) = self.network.resolver.resolve(&url.host, url.port).await?;
        if looked_up {
            trace.looking_up = start.elapsed();
        }
        Connection::connect(url, address, &self.network.tls, trace).await
    }

    /// A kept connection to the host of `url` that is still open; closed ones found on the way go.
    fn take_kept(&self, url: &Url) -> Option<Connection> {
        let kept = &mut *self.kept.borrow_mut();
        let same = |kept: &Kept| kept.authority == url.authority && kept.secure == url.secure;
        while let Some(at) = kept.iter().rposition(same) {
            let mut found = kept.swap_remove(at);
            if found.connection.is_idle() {
                return Some(found.connection);
            }
        }
        None
    }

    fn keep(&self, url: &Url, connection: Connection) {
        let kept = &mut *self.kept.borrow_mut();
        if kept.len() >= MAX_KEPT_CONNECTIONS {
            kept.remove(0);
        }
        kept.push(Kept { authority: url.authority.clone(), secure: url.secure, connection });
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
        let host =
            given("host").filter(|_| hop.keeps_host).map_or(&hop.url.authority, |(_, own)| own);
        line(["Host", ": ", host, "\r\n"]);
        let user_agent =
            given("user-agent").map_or(&*self.network.config.user_agent, |(_, own)| own);
        if !user_agent.is_empty() {
            line(["User-Agent", ": ", user_agent, "\r\n"]);
        }
        let has_body_method = matches!(&*hop.method, "POST" | "PUT" | "PATCH");
        if hop.body.is_some() || has_body_method {
            let length = hop.body.as_ref().map_or(0, |body| body.len()).to_string();
            line(["Content-Length", ": ", &length, "\r\n"]);
        }
        // The others in the order and with the capitals of Go, which keeps them in a map and writes them by name.
        let mut headers = self.headers(request, hop)?;
        headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, value) in &headers {
            line([name, ": ", value, "\r\n"]);
        }
        if self.network.config.no_connection_reuse && given("connection").is_none() {
            line(["Connection", ": ", "close", "\r\n"]);
        }
        wire.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Headers whose names may have any order, by their canonical names: the script's, and those of redirects, users and
    /// cookies.
    fn headers<'a>(
        &self,
        request: &'a Request,
        hop: &'a Hop,
    ) -> Result<Vec<Header<'a>>, RequestError> {
        let given = |name: &str| {
            request.headers.iter().rev().find(|(found, _)| found.eq_ignore_ascii_case(name))
        };
        let mut headers: Vec<Header<'a>> = Vec::new();
        for (name, value) in &request.headers {
            let skip = name.eq_ignore_ascii_case("content-length")
                || name.eq_ignore_ascii_case("host")
                || name.eq_ignore_ascii_case("user-agent")
                || name.eq_ignore_ascii_case("cookie")
                || name.eq_ignore_ascii_case("transfer-encoding")
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
            let basic = format!("Basic {}", BASE64_STANDARD.encode(&**user_info));
            headers.push(("Authorization".into(), basic.into()));
        }
        // As in k6, a header the script wrote itself ends at the first redirect.
        let given_cookies = given("cookie").filter(|_| hop.is_first).map(|(_, value)| &**value);
        if given_cookies.is_some() || !request.cookies.is_empty() || !request.jar.is_empty() {
            let kept = request.jar.matching(&hop.url, unix_now());
            let cookies = cookie_header(given_cookies, &kept, &request.cookies);
            if !cookies.is_empty() {
                headers.push(("Cookie".into(), cookies.into()));
            }
        }
        Ok(headers)
    }
}

/// Name and value.
type Header<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Where the next exchange goes.
#[derive(Debug, Clone)]
struct Hop {
    method: Rc<str>,
    url: Rc<Url>,
    body: Option<Rc<[u8]>>,
    /// No redirect has left the domain of the first host: credentials may still be sent.
    same_domain: bool,
    /// No redirect has named a server: a `Host` header of the script still holds.
    keeps_host: bool,
    /// No redirect has been followed.
    is_first: bool,
    /// The address that led here, for the header of that name.
    referer: Option<Rc<str>>,
}

impl Hop {
    /// Where a response redirects to, by the rules of Go's client (and of browsers): 301, 302 and
    /// 303 turn everything but HEAD into GET, 307 and 308 repeat the request.
    fn after(&self, head: &Head, first: &Url) -> Option<Result<Self, RequestError>> {
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
        let same_domain = self.same_domain && url.is_within_domain_of(first);
        let keeps_host = self.keeps_host && Url::is_relative(&location);
        let url = Rc::new(url);
        let is_first = false;
        // Nobody is told over plain HTTP where on a TLS server somebody was (RFC 9110 §10.1.3).
        let told = !self.url.secure || url.secure;
        let referer = told.then(|| self.url.text.split('#').next().unwrap_or_default().into());
        Some(Ok(if repeat {
            Self { url, same_domain, keeps_host, is_first, referer, ..self.clone() }
        } else {
            let method = if &*self.method == "HEAD" { "HEAD" } else { "GET" };
            let (method, body) = (method.into(), None);
            Self { method, url, body, same_domain, keeps_host, is_first, referer }
        }))
    }
}

/// Headers that only the domain they were meant for may see; Go's list.
fn is_secret(name: &str) -> bool {
    let secret = ["authorization", "www-authenticate", "proxy-authorization", "proxy-authenticate"];
    secret.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Undoes the codings of a body. Not for redirects, whose bodies nobody sees, and not part of the
/// timings: they end with the last byte from the network.
fn decoded(mut exchange: Exchange) -> Exchange {
    exchange.outcome = exchange.outcome.and_then(|answer| {
        let Answer { head, body } = answer;
        let codings = head.values("content-encoding").next().filter(|_| !body.is_empty());
        let body = match codings.map(String::from_utf8_lossy) {
            Some(codings) => encoding::decode(&codings, body)?,
            None => body,
        };
        Ok(Answer { head, body })
    });
    exchange
}

/// Whether the name is a token and the value has no control characters.
pub(crate) fn is_valid_header(name: &str, value: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(is_token_byte)
        && !value.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f)
}

/// Bytes of a token (RFC 9110 §5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
