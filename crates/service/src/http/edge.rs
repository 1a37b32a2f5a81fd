//! The edge: what every request passes, from the outside in.
//!
//! Request id; the head as a whole; body, bounded in size and time; the router, bounded in time, panics
//! caught; problems get their body; request id, metrics and log.

use super::body_room::{BodyRooms, Held, ReadError, SMALL_BODY};
use super::client::Peer;
use super::connection::ConnState;
use super::label::RouteLabel;
use super::limits::LimitHeaders;
use super::request_id::X_REQUEST_ID;
use super::server::Routes;
use super::sharers::Sharers;
use super::{AnswerRoom, Problem, Proxies, RequestId, cors, head};
use crate::admin::Maintenance;
use crate::config::{CorsOrigins, Settings};
use crate::current::Current;
use crate::ops::last_errors::LastErrors;
use crate::ops::metrics::{RouteMetrics, ServerMetrics};
use crate::ops::record::{Part, Recorder, Seen, Spent, Trace};
use crate::store::{Freshness, Handover, now};
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use madang_positions::Moment;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::Service as _;

/// How many bytes the body of a request may have, by its head. Asked only for a body that may have more
/// than 64 KiB, which everybody may send; a problem refuses it before it is read.
pub type LargestBody = Arc<dyn Fn(&Parts) -> Result<usize, Problem> + Send + Sync>;

/// Limits and counters that every request passes.
pub(super) struct Edge {
    max_body: usize,
    body_timeout: Duration,
    request_timeout: Duration,
    metrics: Arc<ServerMetrics>,
    draining: Arc<AtomicBool>,
    largest_body: LargestBody,
    body_rooms: BodyRooms,
    answers: AnswerRoom,
    cors: CorsOrigins,
    proxies: Proxies,
    sharers: Sharers,
    recorder: Option<Arc<Recorder>>,
    errors: Option<Arc<LastErrors>>,
    maintenance: Maintenance,
    freshness: Option<Arc<Freshness>>,
}

impl Edge {
    pub(super) fn new(settings: &Settings, routes: &Routes, draining: Arc<AtomicBool>) -> Self {
        let server = &settings.server;
        Self {
            max_body: server.max_body,
            body_timeout: server.body_timeout,
            request_timeout: server.request_timeout,
            metrics: Arc::clone(&routes.metrics),
            draining,
            largest_body: Arc::clone(&routes.largest_body),
            body_rooms: BodyRooms::new(server.max_body, &routes.metrics),
            answers: routes.app.answers.clone(),
            cors: server.cors_origins.clone(),
            proxies: Proxies::new(&server.trusted_proxies),
            sharers: Sharers::new(settings),
            recorder: routes.recorder.clone(),
            errors: routes.errors.clone(),
            maintenance: routes.app.maintenance.clone(),
            freshness: routes.app.store.freshness(),
        }
    }
}

#[derive(Clone)]
pub(super) struct ConnService {
    pub(super) router: Router,
    pub(super) shared: Arc<Edge>,
    pub(super) state: Arc<ConnState>,
    pub(super) peer: Peer,
}

impl hyper::service::Service<Request<Incoming>> for ConnService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.state.request_begins();
        let mut this = self.clone();
        Box::pin(async move {
            let response = this.handle(request).await;
            this.state.request_ends();
            Ok(response)
        })
    }
}

impl ConnService {
    async fn handle(&mut self, request: Request<Incoming>) -> Response {
        let shared = Arc::clone(&self.shared);
        let mut running = Running {
            metrics: &shared.metrics,
            route: None,
            method: request.method().clone(),
            started: Instant::now(),
            recorder: shared.recorder.as_deref(),
            seen: None,
            finished: false,
        };
        shared.metrics.in_flight.inc();
        // After the head: a stall before it does no harm then, and one after it makes the request wait longer.
        let at = now();
        let id = RequestId::of(request.headers());
        let mut trace = Trace::of(request.headers());
        if let Some(recorder) = running.recorder {
            let client = shared.proxies.last_hop(self.peer.0, request.headers());
            let seen = recorder.begin(&request, &id, client, trace);
            trace = seen.trace();
            running.seen = Some(seen);
        }
        let spent = running.seen.as_ref().map(|seen| Arc::clone(&seen.spent));
        let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let cross = cors::look(&shared.cors, &request);
        let arrival = Arrival { at, chunked, spent };
        let Some(mut response) = self.answer(request, arrival).await else {
            // Nobody will read it; `running`, dropped unfinished, counts the client as gone.
            return Problem::bad_request("the body ended early").into_response();
        };
        if let Some(cross) = &cross {
            response = cross.answer(response);
        }
        running.route = response.extensions_mut().remove::<RouteLabel>().map(|label| label.0);
        let limit = response.extensions_mut().remove::<LimitHeaders>();
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            if let Some(errors) = &shared.errors
                && problem.status().is_server_error()
            {
                let route = running.route.unwrap_or(shared.metrics.unmatched);
                errors.add(&running.method, route.template, id.as_str(), &problem);
            }
            let allow = response.headers_mut().remove(header::ALLOW);
            response = problem.into_answer(id.as_str(), trace);
            if let Some(allow) = allow {
                response.headers_mut().insert(header::ALLOW, allow);
            }
        }
        let headers = response.headers_mut();
        if let Some(limit) = limit {
            limit.add_to(headers);
        }
        headers.insert(&X_REQUEST_ID, id.0.clone());
        // Nothing here is to be taken by a browser for anything but what it says it is.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(cross) = &cross {
            cross.mark(headers);
        }
        // A length beside the chunks may be an attempt to smuggle a request past a proxy; the parser
        // has dropped it by now, so no chunked request leaves its connection open (RFC 9112, 6.1).
        if chunked || shared.draining.load(Ordering::Relaxed) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        running.finish(&response, &id);
        response
    }

    /// The router's answer, or a problem of the edge itself; nothing when the client has left.
    async fn answer(&mut self, request: Request<Incoming>, arrival: Arrival) -> Option<Response> {
        let (mut parts, incoming) = request.into_parts();
        if let Err(problem) = head::check(&parts, arrival.chunked) {
            // Of a body that is not read only its end would tell where the next request begins.
            let unread = !incoming.is_end_stream();
            self.state.body_ends(unread);
            return Some(if unread { problem.closing() } else { problem }.into_response());
        }
        parts.extensions.insert(self.peer);
        // The room is held until the handler has answered: as long as the body may be in memory.
        let (body, _room) = match self.body(&parts, incoming, arrival.spent.as_ref()).await {
            Ok(body) => body,
            Err(Unread::Left) => return None,
            Err(Unread::Refused(problem)) => return Some(problem.into_response()),
        };
        let client = self.shared.proxies.last_hop(self.peer.0, &parts.headers);
        let is_large = body.len() > SMALL_BODY;
        let body = if body.is_empty() { Body::empty() } else { Body::from(body) };
        let mut request = Request::from_parts(parts, body);
        if is_large {
            // Its size was looked at here; axum's own limit is one of 2 MB.
            DefaultBodyLimit::disable().apply(&mut request);
        }
        Some(self.route(request, client, arrival).await)
    }

    /// The router's answer, as far as there is room for it and it is true.
    async fn route(
        &mut self,
        request: Request<Body>,
        client: IpAddr,
        arrival: Arrival,
    ) -> Response {
        let shared = Arc::clone(&self.shared);
        let Arrival { at, spent, .. } = arrival;
        let time = |part| spent.as_ref().map(|spent| spent.time(part));
        if let Some(refused) = shared.maintenance.refuses(request.method()) {
            return refused.into_response();
        }
        // Who a token belongs to is remembered as well as bodies are. What is not the API remembers nothing.
        if let Some(freshness) = &shared.freshness
            && request.uri().path().starts_with("/v1/")
        {
            let _time = time(Part::Cluster);
            if let Err(error) = freshness.until_fresh(at).await {
                return Problem::from(error).into_response();
            }
        }
        let handover = (!request.method().is_safe()).then(Handover::default);
        let share = shared.sharers.counted(client);
        let current = Current {
            client: Some(madang_guard::net::counted(client)),
            handover: handover.clone(),
            limited: share.is_some(),
            spent: spent.clone(),
            ..Current::default()
        };
        let mut work = std::pin::pin!(current.run(self.in_time(request)));
        let mut response = work.as_mut().await;
        let limit = work.take_value().and_then(|current| current.limit.take());
        if let Some(limit) = limit {
            response.extensions_mut().insert(limit);
        }
        if let Some(known) = handover.as_ref().and_then(Handover::not_before) {
            let _time = time(Part::Cluster);
            tokio::time::sleep_until(known.into()).await;
        }
        let written = handover.filter(Handover::may_have_written);
        let committed = written.is_some() && response.status().is_success();
        let mut response = shared.answers.hold(response, share, committed).await;
        if let Some(handover) = written
            && let Some(problem) = response.extensions_mut().get_mut::<Problem>()
            && problem.status() == StatusCode::SERVICE_UNAVAILABLE
        {
            // 503 says that nothing was done, which cannot be said here.
            *problem = problem.clone().with_unknown_outcome(handover.is_repeatable());
        }
        response
    }

    /// The router's answer, in time and whatever panics.
    async fn in_time(&mut self, request: Request<Body>) -> Response {
        let call = self.router.call(request);
        let guarded = CatchPanic { future: std::pin::pin!(call) };
        match tokio::time::timeout(self.shared.request_timeout, guarded).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(panic)) => {
                self.shared.metrics.panics.inc();
                let panic = crate::store::panic_text(&*panic);
                Problem::internal(format!("handler panicked: {panic}")).into_response()
            }
            Err(_) => {
                Problem::unavailable("this took too long and was given up", 1, "request timeout")
                    .into_response()
            }
        }
    }

    /// The request's body, whole: handlers never wait for a slow client.
    async fn body(
        &self,
        parts: &Parts,
        incoming: Incoming,
        spent: Option<&Arc<Spent>>,
    ) -> Result<(Bytes, Option<Held>), Unread> {
        if incoming.is_end_stream() {
            return Ok((Bytes::new(), None));
        }
        let _time = spent.map(|spent| spent.time(Part::Body));
        self.state.body_begins();
        // Boxed, or every request without a body would carry the room that reading one needs.
        let read = Box::pin(self.read_body(parts, incoming)).await;
        self.state.body_ends(read.is_err());
        read
    }

    async fn read_body(
        &self,
        parts: &Parts,
        incoming: Incoming,
    ) -> Result<(Bytes, Option<Held>), Unread> {
        let shared = &*self.shared;
        let announced = parts.headers.get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
        let check = |most| match announced {
            Some(length) if length > most => Err(Problem::too_large(most)),
            _ => Ok(()),
        };
        check(shared.max_body)?;
        let most = match announced {
            Some(length) if length <= SMALL_BODY => length,
            _ => (shared.largest_body)(parts).map_err(Problem::closing)?.min(shared.max_body),
        };
        check(most)?;
        let client =
            || shared.sharers.counted(shared.proxies.last_hop(self.peer.0, &parts.headers));
        let read = shared.body_rooms.read(incoming, most, announced, client);
        match tokio::time::timeout(shared.body_timeout, read).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(ReadError::NoRoom)) => Err(Problem::too_many_bodies().into()),
            Ok(Err(ReadError::TooLarge)) => Err(Problem::too_large(most).into()),
            Ok(Err(ReadError::Body(error))) if has_left(&*error) => Err(Unread::Left),
            Ok(Err(ReadError::Body(error))) => {
                let detail = format!("the body cannot be read: {error}");
                Err(Problem::bad_request(detail).closing().into())
            }
            Err(_) => Err(Problem::body_timeout().into()),
        }
    }
}

/// What is known of a request from its head.
struct Arrival {
    /// When its head was complete.
    at: Moment,
    /// Whether it has a `Transfer-Encoding`.
    chunked: bool,
    /// Where its time goes, if that is recorded.
    spent: Option<Arc<Spent>>,
}

/// Why a request's body did not become whole.
enum Unread {
    /// The client closed its connection before the end.
    Left,
    /// It breaks a rule or a limit.
    Refused(Problem),
}

impl From<Problem> for Unread {
    fn from(problem: Problem) -> Self {
        Unread::Refused(problem)
    }
}

/// Whether an error of reading says that the other side has gone, as opposed to sent nonsense.
fn has_left(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind as Kind;
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return matches!(
                io.kind(),
                Kind::UnexpectedEof | Kind::ConnectionReset | Kind::ConnectionAborted
            );
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A request from its head to its answer; dropped unfinished, its client has left.
struct Running<'a> {
    metrics: &'a ServerMetrics,
    route: Option<&'static RouteMetrics>,
    method: http::Method,
    started: Instant,
    recorder: Option<&'a Recorder>,
    seen: Option<Box<Seen>>,
    finished: bool,
}

impl Running<'_> {
    fn finish(&mut self, response: &Response, id: &RequestId) {
        self.finished = true;
        let route = self.route.unwrap_or(self.metrics.unmatched);
        let bytes = response.body().size_hint().exact();
        let took = self.started.elapsed();
        route.record(&self.method, response.status(), took);
        self.end(route.template, (Some(response.status().as_u16()), bytes), took);
        tracing::debug!(
            request_id = id.as_str(),
            method = %self.method,
            route = route.template,
            status = response.status().as_u16(),
            micros = took.as_micros(),
            "request"
        );
    }

    /// With the status of the answer and the length of its body.
    fn end(&mut self, route: &'static str, answer: (Option<u16>, Option<u64>), took: Duration) {
        self.metrics.in_flight.dec();
        if let Some((recorder, seen)) = self.recorder.zip(self.seen.take()) {
            recorder.end(seen, route, answer, took);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.metrics.client_left.inc();
            // Its route would be known from its answer.
            self.end("unknown", (None, None), self.started.elapsed());
            tracing::debug!(method = %self.method, "the client left before its answer");
        }
    }
}

/// A panic in one handler ends one request, not the connection's task.
struct CatchPanic<'a, F> {
    future: Pin<&'a mut F>,
}

impl<F: Future> Future for CatchPanic<'_, F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.future.as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
