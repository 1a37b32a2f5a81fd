//! The client of one virtual user: its kept connections, redirects, timeouts.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use super::connection::{self, Connection, Dialled, Peer, Progress, RawResponse, Traffic};
use super::cookies::{Jar, RequestCookie};
use super::debug::{Debug, HttpDebug};
use super::http2::Http2;
use super::outgoing::OutgoingHead;
use super::pool::{Link, Pool};
use super::timings::Trace;
use super::tls::{Offer, Tls};
use super::{
    Head, NameRules, Proxies, RequestError, Resolver, Result, Stream, Timings, TlsSettings, Url,
    encoding,
};

/// Blocks this thread for an exchange outside of all event loops.
pub(crate) fn block_on<F: Future>(exchange: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // HTTP/2 has a task of its own.
    Ok(runtime.block_on(LocalSet::new().run_until(exchange)))
}

/// Settings that hold for every request of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientConfig {
    /// The `User-Agent` header unless a request sets its own; empty sends none.
    pub(crate) user_agent: String,
    /// Close the connection after every request.
    pub(crate) no_connection_reuse: bool,
    pub(crate) tls: TlsSettings,
    pub(crate) names: NameRules,
    pub(crate) proxies: Proxies,
    /// Whether a body of a success is left unread if only the end of the connection would end it.
    pub(crate) skips_success: bool,
    /// Show what goes over the wire.
    pub(crate) debug: Option<HttpDebug>,
}

/// What the clients of one event loop share.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) config: ClientConfig,
    resolver: Resolver,
    tls: Tls,
    debug: Option<Debug>,
}

impl Network {
    /// `write` gets what `config.debug` wants to be shown, and the id of the request it is about.
    pub(crate) fn new(config: ClientConfig, write: impl Fn(&str, &str) + 'static) -> Self {
        let tls = Tls::new(config.tls.clone());
        let resolver = Resolver::new(config.names.clone());
        let debug = config.debug.map(|shows| Debug { shows, write: Box::new(write) });
        Self { config, resolver, tls, debug }
    }

    /// A stream for a protocol that others speak, by the same rules of names and settings of TLS. Of the address only
    /// the host, the port and whether it is secure count.
    pub(crate) async fn connect(&self, url: &Url, offer: Offer) -> Result<Stream> {
        let (addresses, _) = self.resolver.resolve(&url.host, url.port).await?;
        let trace = &mut Trace::begin();
        let (stream, address) = connection::connect(&addresses, trace).await?;
        let dialled = connection::secure(url, stream, address, &self.tls, offer, trace).await?;
        Ok(dialled.stream)
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
    /// The header `Cookie` that was sent, before redirects.
    pub(crate) sent_cookies: OnceCell<Rc<str>>,
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
    pub(crate) outcome: Result<Answer>,
    /// The server that answered; `None` when none could be reached.
    pub(crate) peer: Option<Peer>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

/// Sends requests, several at a time if need be; keeps connections between them.
pub(crate) struct Client {
    network: Rc<Network>,
    pool: Pool,
    /// Reused for every head that is written.
    wire: RefCell<Vec<u8>>,
}

impl Client {
    pub(crate) fn new(network: Rc<Network>) -> Self {
        Self { network, pool: Pool::default(), wire: RefCell::default() }
    }

    /// The `User-Agent` header of requests without one; empty for none.
    pub(crate) fn user_agent(&self) -> &str {
        &self.network.config.user_agent
    }

    pub(crate) fn close_connections(&self) {
        self.pool.clear();
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
            let mut track =
                Track { trace: Trace::begin(), traffic: Traffic::default(), peer: None };
            let outcome = if request.timeout.is_zero() {
                // Nothing may be sent.
                Err(RequestError::Timeout)
            } else {
                let attempt = self.attempt(request, &hop, &mut track);
                let attempted = tokio::time::timeout_at(deadline, attempt).await;
                attempted.unwrap_or(Err(RequestError::Timeout))
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
            let Track { trace, traffic, peer } = track;
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

    /// One exchange, and more where the transport of Go, which k6 uses, tries again: once when a kept connection
    /// turns out to be closed and the request may be repeated safely; several times when an HTTP/2 server says
    /// that it has not looked at the request.
    async fn attempt(&self, request: &Request, hop: &Hop, track: &mut Track) -> Result<Answer> {
        let head = OutgoingHead::new(request, hop, &self.network.config)?;
        let debug = self.network.debug.as_ref();
        let body = head.http1_body(hop.body.as_deref().unwrap_or_default());
        let id = debug.map(|debug| debug.request(&head, body));
        let repeatable = matches!(&*hop.method, "GET" | "HEAD" | "OPTIONS" | "TRACE");
        let mut kept = self.pool.take(&hop.url);
        let mut retries = 0;
        loop {
            let reused = kept.is_some();
            let mut link = match kept {
                Some(link) => link,
                // In a box, as all that is seldom done here: its state would be part of every frame below, and the
                // pages of a stack that were touched once stay with the virtual user.
                None => Box::pin(self.connect(&hop.url, track)).await?,
            };
            let error = match self.exchange(&mut link, &head, request, hop, track).await {
                Ok(response) => {
                    if response.reusable && !self.network.config.no_connection_reuse {
                        self.pool.keep(&hop.url, link);
                    }
                    if let (Some(debug), Some(id)) = (debug, id) {
                        debug.response(&response.head, &response.body, &id);
                    }
                    return Ok(Answer { head: response.head, body: response.body });
                }
                Err(error) => error,
            };
            let unanswered = track.trace.first_byte.is_none();
            if unanswered && error.is_unprocessed() && retries < MAX_RETRIES {
                Box::pin(tokio::time::sleep(pause_before(retries))).await;
                kept = self.pool.take(&hop.url);
            } else if unanswered
                && repeatable
                && reused
                && retries == 0
                && error.is_of_a_closed_connection()
                && matches!(link, Link::Alone(_))
            {
                kept = None;
            } else {
                return Err(error);
            }
            retries += 1;
        }
    }

    async fn exchange(
        &self,
        link: &mut Link,
        head: &OutgoingHead<'_>,
        request: &Request,
        hop: &Hop,
        track: &mut Track,
    ) -> Result<RawResponse> {
        track.peer = Some(link.peer());
        track.trace.connected = Some(Instant::now());
        let body = hop.body.as_deref().unwrap_or_default();
        let mut progress = Progress {
            trace: &mut track.trace,
            traffic: &mut track.traffic,
            to_head_request: &*hop.method == "HEAD",
            discard_body: request.discard_body,
            skips_success: self.network.config.skips_success,
        };
        match link {
            Link::Alone(connection) => {
                // Taken, not borrowed: another request of a batch may need one meanwhile.
                let mut wire = self.wire.take();
                wire.clear();
                head.write_http1(&mut wire);
                let result = connection.exchange(&wire, head.http1_body(body), &mut progress).await;
                self.wire.replace(wire);
                result
            }
            // In a box: users of HTTP/1.1 need no room for it.
            Link::Shared(connection) => {
                Box::pin(connection.exchange(head, body, &mut progress)).await
            }
        }
    }

    /// A new connection. With HTTP/2 the requests that run at the same time share one: as in Go each has dialled,
    /// the first to get through is used, and the others are closed.
    async fn connect(&self, url: &Url, track: &mut Track) -> Result<Link> {
        let trace = &mut track.trace;
        let Dialled { stream, peer, http2 } = self.dial(url, Offer::Http2, trace).await?;
        if !http2 {
            return Ok(Link::Alone(Connection::new(stream, peer)));
        }
        if let Some(shared) = self.pool.take(url) {
            trace.connecting = Duration::ZERO;
            trace.tls_handshaking = Duration::ZERO;
            track.traffic.add(stream.counter().take());
            return Ok(shared);
        }
        let connection = Http2::start(stream, peer).await?;
        if !self.network.config.no_connection_reuse {
            self.pool.keep(url, Link::Shared(connection.clone()));
        }
        Ok(Link::Shared(connection))
    }

    /// A new stream to the server of `url`.
    pub(super) async fn dial(&self, url: &Url, offer: Offer, trace: &mut Trace) -> Result<Dialled> {
        let start = Instant::now();
        let Network { config, resolver, tls, .. } = &*self.network;
        let proxy = config.proxies.for_url(url)?;
        let (host, port) = proxy.map_or((&*url.host, url.port), |proxy| (&*proxy.host, proxy.port));
        let (addresses, looked_up) = resolver.resolve(host, port).await?;
        if looked_up {
            trace.looking_up = start.elapsed();
        }
        let (stream, address) = connection::connect(&addresses, trace).await?;
        // What is to become another protocol needs a connection of its own, also without TLS.
        let (stream, tunnel) = match proxy.filter(|_| url.secure || offer == Offer::Http1) {
            Some(proxy) => proxy.tunnel(stream, address, url, self.user_agent()).await?,
            None => (stream, Traffic::default()),
        };
        let dialled = connection::secure(url, stream, address, tls, offer, trace).await?;
        let counter = dialled.stream.counter();
        let mut traffic = counter.get();
        traffic.add(tunnel);
        counter.set(traffic);
        Ok(dialled)
    }
}

/// Tries beyond the first of a request that the server reports as not processed; Go's number.
const MAX_RETRIES: u32 = 7;

/// The pause before another try: none before the first, then 1 s, twice as long each time, and up to a tenth more;
/// Go's times.
fn pause_before(retries: u32) -> Duration {
    let seconds = retries.checked_sub(1).map_or(0, |exponent| 1 << exponent);
    Duration::from_secs(seconds).mul_f64(1.0 + 0.1 * fastrand::f64())
}

/// What is noted while a request is on its way.
struct Track {
    trace: Trace,
    traffic: Traffic,
    /// The server that answers; `None` when none could be reached.
    peer: Option<Peer>,
}

/// Where the next exchange goes.
#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub(super) method: Rc<str>,
    pub(super) url: Rc<Url>,
    pub(super) body: Option<Rc<[u8]>>,
    /// No redirect has left the domain of the first host: credentials may still be sent.
    pub(super) same_domain: bool,
    /// No redirect has named a server: a `Host` header of the script still holds.
    pub(super) keeps_host: bool,
    /// No redirect has been followed.
    pub(super) is_first: bool,
    /// The address that led here, for the header of that name.
    pub(super) referer: Option<Rc<str>>,
}

impl Hop {
    /// Where a response redirects to, by the rules of Go's client (and of browsers): 301, 302 and
    /// 303 turn everything but HEAD into GET, 307 and 308 repeat the request.
    fn after(&self, head: &Head, first: &Url) -> Option<Result<Self>> {
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
        // An address on a TLS server is not sent over plain HTTP (RFC 9110 §10.1.3).
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

/// Undoes the codings of a body. Not for redirects, whose bodies are not shown, and not part of the
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

#[cfg(test)]
mod tests {
    /// That of an HTTP/2 connection is one of these.
    #[test]
    fn tasks_run_while_their_thread_is_blocked_for_an_exchange() {
        let exchange = async { tokio::task::spawn_local(async { 7 }).await.unwrap() };
        assert_eq!(super::block_on(exchange).unwrap(), 7);
    }
}
