//! Client of one virtual user: kept connections, redirects, timeouts.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use super::connection::{self, Connection, Dialled, Peer, Progress, Response, Traffic};
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

/// Blocks this thread until an exchange outside of all event loops is over.
pub(crate) fn block_on<F: Future>(exchange: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // An HTTP/2 connection spawns a task.
    Ok(runtime.block_on(LocalSet::new().run_until(exchange)))
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientConfig {
    /// Default of the `User-Agent` header; empty sends none.
    pub(crate) user_agent: String,
    pub(crate) no_connection_reuse: bool,
    pub(crate) tls: TlsSettings,
    pub(crate) names: NameRules,
    pub(crate) proxies: Proxies,
    /// Leave the body of a 2xx response unread when only the end of the connection would end it.
    pub(crate) skips_success: bool,
    pub(crate) debug: Option<HttpDebug>,
}

pub(crate) struct Network {
    pub(crate) config: ClientConfig,
    resolver: Resolver,
    tls: Tls,
    debug: Option<Debug>,
}

impl Network {
    /// `write` receives the messages of `config.debug` with the id of their request.
    pub(crate) fn new(config: ClientConfig, write: impl Fn(&str, &str) + 'static) -> Self {
        let tls = Tls::new(config.tls.clone());
        let resolver = Resolver::new(config.names.clone());
        let debug = config.debug.map(|shows| Debug { shows, write: Box::new(write) });
        Self { config, resolver, tls, debug }
    }

    /// A stream for another protocol, with the same rules for names and TLS. Uses only host, port and scheme of `url`.
    pub(crate) async fn connect(&self, url: &Url, offer: Offer) -> Result<Stream> {
        let (addresses, _) = self.resolver.resolve(&url.host, url.port).await?;
        let trace = &mut Trace::begin();
        let (stream, address) = connection::connect(&addresses, trace).await?;
        let dialled = connection::secure(url, stream, address, &self.tls, offer, trace).await?;
        Ok(dialled.stream)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Rc<str>,
    pub(crate) url: Rc<Url>,
    /// Additional headers; `Host` and `User-Agent` replace those of the client.
    pub(crate) headers: Vec<(Rc<str>, Rc<str>)>,
    pub(crate) body: Option<Rc<[u8]>>,
    /// Limit of the whole exchange: connecting, redirects, the body.
    pub(crate) timeout: Duration,
    pub(crate) max_redirects: u32,
    pub(crate) discard_body: bool,
    pub(crate) cookies: Vec<RequestCookie>,
    pub(crate) jar: Rc<Jar>,
    /// The `Cookie` header sent, before redirects.
    pub(crate) sent_cookies: OnceCell<Rc<str>>,
}

/// One request on the wire with its response or error; each followed redirect is an exchange of its own.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) method: Rc<str>,
    pub(crate) url: Rc<Url>,
    pub(crate) timings: Timings,
    pub(crate) traffic: Traffic,
    /// Arrival of the last byte of the response, or of the error.
    pub(crate) end: Instant,
    pub(crate) outcome: Result<Response>,
    /// `None` when no server was reached.
    pub(crate) peer: Option<Peer>,
}

/// Sends requests, also concurrently, and keeps connections between them.
pub(crate) struct Client {
    network: Rc<Network>,
    pool: Pool,
    wire: RefCell<Vec<u8>>,
}

impl Client {
    pub(crate) fn new(network: Rc<Network>) -> Self {
        Self { network, pool: Pool::default(), wire: RefCell::default() }
    }

    /// Default of the `User-Agent` header; empty for none.
    pub(crate) fn user_agent(&self) -> &str {
        &self.network.config.user_agent
    }

    pub(crate) fn close_connections(&self) {
        self.pool.clear();
    }

    /// Sends `request` and follows redirects. Passes every exchange but the last to `on_redirect` and returns the last.
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
                Err(RequestError::Timeout)
            } else {
                let attempt = self.attempt(request, &hop, &mut track);
                let attempted = tokio::time::timeout_at(deadline, attempt).await;
                attempted.unwrap_or(Err(RequestError::Timeout))
            };
            let end = Instant::now();
            if let Ok(response) = &outcome {
                request.jar.store(&hop.url, &response.head);
            }
            let next = match &outcome {
                Ok(response) if followed < request.max_redirects => {
                    hop.after(&response.head, &request.url)
                }
                _ => Ok(None),
            };
            let Hop { method, url, .. } = hop.clone();
            let Track { trace, traffic, peer } = track;
            let timings = trace.finish(end);
            let exchange = Exchange { method, url, timings, traffic, end, outcome, peer };
            match next {
                Ok(None) => return decoded(exchange),
                Ok(Some(next)) => {
                    on_redirect(&exchange);
                    hop = next;
                    followed += 1;
                }
                Err(error) => return Exchange { outcome: Err(error), ..exchange },
            }
        }
    }

    /// One exchange, with the retries of Go's transport, which k6 uses: one when a kept connection turns out to be
    /// closed and the method is idempotent; several when an HTTP/2 server reports that it has not processed the
    /// request.
    async fn attempt(&self, request: &Request, hop: &Hop, track: &mut Track) -> Result<Response> {
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
                // Boxed, like every rare future here: its state would enlarge every frame below, and a page of a stack
                // that was touched once stays with the virtual user.
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
                    return Ok(response);
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
                && error.may_be_idle_close()
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
    ) -> Result<Response> {
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
                // Taken, not borrowed: another request of a batch may use it meanwhile.
                let mut wire = self.wire.take();
                wire.clear();
                head.write_http1(&mut wire);
                let result = connection.exchange(&wire, head.http1_body(body), &mut progress).await;
                self.wire.replace(wire);
                result
            }
            // Boxed: HTTP/1.1 does not need the space.
            Link::Shared(connection) => {
                Box::pin(connection.exchange(head, body, &mut progress)).await
            }
        }
    }

    /// A new connection. Concurrent requests share one of HTTP/2: as in Go each dials, the first connection is used,
    /// and the others are closed.
    async fn connect(&self, url: &Url, track: &mut Track) -> Result<Link> {
        let trace = &mut track.trace;
        let Dialled { stream, peer, http2 } = self.dial(url, Offer::Http2, trace).await?;
        if !http2 {
            return Ok(Link::Alone(Connection::new(stream, peer)));
        }
        if let Some(shared) = self.pool.take(url) {
            trace.timings.connecting = Duration::ZERO;
            trace.timings.tls_handshaking = Duration::ZERO;
            track.traffic.add(stream.counter().take());
            return Ok(shared);
        }
        let connection = Http2::start(stream, peer).await?;
        if !self.network.config.no_connection_reuse {
            self.pool.keep(url, Link::Shared(connection.clone()));
        }
        Ok(Link::Shared(connection))
    }

    pub(super) async fn dial(&self, url: &Url, offer: Offer, trace: &mut Trace) -> Result<Dialled> {
        let start = Instant::now();
        let Network { config, resolver, tls, .. } = &*self.network;
        let proxy = config.proxies.for_url(url)?;
        let (host, port) = proxy.map_or((&*url.host, url.port), |proxy| (&*proxy.host, proxy.port));
        let (addresses, looked_up) = resolver.resolve(host, port).await?;
        if looked_up {
            trace.timings.looking_up = start.elapsed();
        }
        let (stream, address) = connection::connect(&addresses, trace).await?;
        // An upgrade needs a tunnel, also without TLS.
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

/// Retries of a request that the server reports as not processed; Go's number.
const MAX_RETRIES: u32 = 7;

/// The backoff of Go: none before the first retry, then 1 s, doubled each time, with up to 10 % of jitter.
fn pause_before(retries: u32) -> Duration {
    let seconds = retries.checked_sub(1).map_or(0, |exponent| 1 << exponent);
    Duration::from_secs(seconds).mul_f64(1.0 + 0.1 * fastrand::f64())
}

struct Track {
    trace: Trace,
    traffic: Traffic,
    peer: Option<Peer>,
}

#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub(super) method: Rc<str>,
    pub(super) url: Rc<Url>,
    pub(super) body: Option<Rc<[u8]>>,
    /// No redirect has left the first host's domain: credentials may be sent.
    pub(super) same_domain: bool,
    /// No redirect has named a host: a `Host` header of the script still applies.
    pub(super) keeps_host: bool,
    pub(super) is_first: bool,
    pub(super) referer: Option<Rc<str>>,
}

impl Hop {
    /// The hop after a redirect, as in Go and browsers: 301, 302 and 303 turn all methods but HEAD into GET, 307 and
    /// 308 repeat the request. `None` for other responses.
    fn after(&self, head: &Head, first: &Url) -> Result<Option<Self>> {
        let repeat = match head.status {
            301..=303 => false,
            307 | 308 => true,
            _ => return Ok(None),
        };
        let Some(location) = head.values("location").next() else { return Ok(None) };
        let location = String::from_utf8_lossy(location);
        let url = self.url.join(&location)?;
        let same_domain = self.same_domain && url.is_within_domain_of(first);
        let keeps_host = self.keeps_host && Url::is_relative(&location);
        let url = Rc::new(url);
        let is_first = false;
        // The address of a TLS server is not sent over plain HTTP (RFC 9110 §10.1.3).
        let may_refer = !self.url.secure || url.secure;
        let referer = may_refer.then(|| self.url.text.split('#').next().unwrap_or_default().into());
        Ok(Some(if repeat {
            Self { url, same_domain, keeps_host, is_first, referer, ..self.clone() }
        } else {
            let method = if &*self.method == "HEAD" { "HEAD" } else { "GET" };
            let (method, body) = (method.into(), None);
            Self { method, url, body, same_domain, keeps_host, is_first, referer }
        }))
    }
}

/// Decodes the body by its `Content-Encoding`. Not for redirects, whose bodies are not shown, and not part of the
/// timings, which end with the last byte from the network.
fn decoded(mut exchange: Exchange) -> Exchange {
    exchange.outcome = exchange.outcome.and_then(|mut response| {
        if let Some(codings) = response.head.values("content-encoding").next()
            && !response.body.is_empty()
        {
            let codings = String::from_utf8_lossy(codings);
            response.body = encoding::decode(&codings, response.body)?;
        }
        Ok(response)
    });
    exchange
}

#[cfg(test)]
mod tests {
    /// Such as that of an HTTP/2 connection.
    #[test]
    fn tasks_run_while_their_thread_is_blocked_for_an_exchange() {
        let exchange = async { tokio::task::spawn_local(async { 7 }).await.unwrap() };
        assert_eq!(super::block_on(exchange).unwrap(), 7);
    }
}
