//! The edge, which every request passes: request id; checks of the head; body, bounded in size and time; the router,
//! bounded in time, panics caught; bodies of problems; request id, metrics and log.

use super::body_room::{BodyRooms, Held, ReadError, SMALL_BODY};
use super::client::Peer;
use super::connection::ConnState;
use super::connection_slots::Sharers;
use super::limits::LimitHeaders;
use super::request_id::X_REQUEST_ID;
use super::server::Routes;
use super::{Problem, RequestId, cors, head};
use crate::config::{ServerSettings, Settings};
use crate::current::{self, Current};
use crate::ops::metrics::{RouteMetrics, ServerMetrics};
use crate::ops::record::{OpenRecord, Part, Spent, Trace};
use crate::store::{Freshness, Handover, now};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use madang_positions::Moment;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};
use tower::Service as _;
use tower::util::MapRequestLayer;

/// Maximum size of a request's body in bytes, by its head; a problem refuses the request before its body is read.
/// Called only for a body that may exceed [`SMALL_BODY`].
pub(crate) type LargestBody = Arc<dyn Fn(&Parts) -> Result<usize, Problem> + Send + Sync>;

/// Notes the route that each request matches.
pub(crate) fn label_routes(router: Router, metrics: &ServerMetrics) -> Router {
    let routes = metrics.routes();
    router.layer(MapRequestLayer::new(move |request: Request<Body>| {
        let path = request.extensions().get::<MatchedPath>();
        // Few: comparing them in turn is faster than hashing.
        let find = |path: &MatchedPath| routes.iter().find(|r| r.template == path.as_str());
        if let Some(route) = path.and_then(find) {
            current::note_route(route);
        }
        request
    }))
}

/// State shared by all connections.
pub(super) struct Edge {
    pub(super) routes: Routes,
    server: ServerSettings,
    body_rooms: BodyRooms,
    sharers: Sharers,
    freshness: Option<Arc<Freshness>>,
}

impl Edge {
    pub(super) fn new(settings: &Settings, routes: Routes) -> Self {
        Self {
            server: settings.server.clone(),
            body_rooms: BodyRooms::new(settings.server.max_body, &routes.metrics),
            sharers: Sharers::new(settings),
            freshness: routes.app.store.freshness(),
            routes,
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
        let routes = &shared.routes;
        let mut running = Running {
            routes,
            method: request.method().clone(),
            started: Instant::now(),
            at: now(),
            chunked: request.headers().contains_key(header::TRANSFER_ENCODING),
            route: None,
            limit: None,
            record: None,
            finished: false,
        };
        routes.metrics.in_flight.inc();
        let id = RequestId::of(request.headers());
        let mut trace = Trace::of(request.headers());
        if let Some(recorder) = &routes.recorder {
            let client = routes.app.proxies.last_hop(self.peer.0, request.headers());
            let record = recorder.begin(&request, &id, client, trace);
            trace = record.trace();
            running.record = Some(record);
        }
        let cors_plan = cors::plan(&shared.server.cors_origins, &request);
        let Some(mut response) = self.answer(request, &mut running).await else {
            // The client has left; dropping `running` unfinished counts it.
            return Problem::bad_request("the body ended early").into_response();
        };
        if let Some(cors_plan) = &cors_plan {
            response = cors_plan.answer(response);
        }
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            if let Some(errors) = &routes.errors
                && problem.status().is_server_error()
            {
                errors.add(&running.method, running.route().template, id.as_str(), &problem);
            }
            let allow = response.headers_mut().remove(header::ALLOW);
            response = problem.into_answer(id.as_str(), trace);
            if let Some(allow) = allow {
                response.headers_mut().insert(header::ALLOW, allow);
            }
        }
        let headers = response.headers_mut();
        if let Some(limit) = running.limit.take() {
            limit.add_to(headers);
        }
        headers.insert(&X_REQUEST_ID, id.0.clone());
        // Browsers must not guess another content type.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(cors_plan) = &cors_plan {
            cors_plan.mark(headers);
        }
        // A length beside the chunks may be an attempt to smuggle a request past a proxy; the parser has dropped it
        // by now, so every chunked request closes its connection (RFC 9112, 6.1).
        if running.chunked || routes.app.draining.load(Ordering::Relaxed) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        running.finish(&response, &id);
        response
    }

    /// The router's response, or a problem of the edge itself; `None` when the client has left.
    async fn answer(
        &mut self,
        request: Request<Incoming>,
        running: &mut Running<'_>,
    ) -> Option<Response> {
        let (mut parts, incoming) = request.into_parts();
        if let Err(problem) = head::check(&parts, running.chunked) {
            // The start of the next request is unknown while a body is unread.
            let unread = !incoming.is_end_stream();
            self.state.body_ends(unread);
            return Some(if unread { problem.closing() } else { problem }.into_response());
        }
        parts.extensions.insert(self.peer);
        // The room is held until the response is made, as long as the body may be in memory.
        let (body, _room) = match self.body(&parts, incoming, running.spent()).await {
            Ok(body) => body,
            Err(Unread::Left) => return None,
            Err(Unread::Refused(problem)) => return Some(problem.into_response()),
        };
        let client = self.shared.routes.app.proxies.last_hop(self.peer.0, &parts.headers);
        let is_large = body.len() > SMALL_BODY;
        let body = if body.is_empty() { Body::empty() } else { Body::from(body) };
        let mut request = Request::from_parts(parts, body);
        if is_large {
            // Its size was checked above; axum's own limit is 2 MB.
            DefaultBodyLimit::disable().apply(&mut request);
        }
        Some(self.route(request, client, running).await)
    }

    /// The router's response, if maintenance mode, the cluster and the memory for responses admit it.
    async fn route(
        &mut self,
        request: Request<Body>,
        client: IpAddr,
        running: &mut Running<'_>,
    ) -> Response {
        let shared = Arc::clone(&self.shared);
        let app = &shared.routes.app;
        let spent = running.spent().cloned();
        let time = |part| spent.as_ref().map(|spent| spent.time(part));
        if let Some(refused) = app.maintenance.refuses(request.method()) {
            return refused.into_response();
        }
        // Tokens are cached as well as bodies. Only the API caches anything.
        if let Some(freshness) = &shared.freshness
            && request.uri().path().starts_with("/v1/")
        {
            let _time = time(Part::Cluster);
            if let Err(error) = freshness.until_fresh(running.at).await {
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
        let response = work.as_mut().await;
        if let Some(current) = work.take_value() {
            (running.route, running.limit) = (current.route.get(), current.limit.take());
        }
        if let Some(known) = handover.as_ref().and_then(Handover::not_before) {
            let _time = time(Part::Cluster);
            tokio::time::sleep_until(known.into()).await;
        }
        let written = handover.filter(Handover::may_have_written);
        let committed = written.is_some() && response.status().is_success();
        let mut response = app.answers.hold(response, share, committed).await;
        if let Some(handover) = written
            && let Some(problem) = response.extensions_mut().get_mut::<Problem>()
            && problem.status() == StatusCode::SERVICE_UNAVAILABLE
        {
            // 503 would mean that nothing was done.
            *problem = problem.clone().with_unknown_outcome(handover.is_repeatable());
        }
        response
    }

    /// The router's response, within the request timeout; a panic becomes a problem.
    async fn in_time(&mut self, request: Request<Body>) -> Response {
        let mut call = std::pin::pin!(self.router.call(request));
        // A panic ends one request, not the connection's task.
        let guarded =
            poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            });
        match tokio::time::timeout(self.shared.server.request_timeout, guarded).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(panic)) => {
                self.shared.routes.metrics.panics.inc();
                let panic = crate::store::panic_text(&*panic);
                Problem::internal(format!("handler panicked: {panic}")).into_response()
            }
            Err(_) => {
                Problem::unavailable("this took too long and was given up", 1, "request timeout")
                    .into_response()
            }
        }
    }

    /// The complete body: handlers never wait for a slow client.
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
        // Boxed, or every request without a body would carry the state of reading one.
        let read = Box::pin(self.read_body(parts, incoming)).await;
        self.state.body_ends(read.is_err());
        read
    }

    async fn read_body(
        &self,
        parts: &Parts,
        incoming: Incoming,
    ) -> Result<(Bytes, Option<Held>), Unread> {
        let Edge { server, routes, .. } = &*self.shared;
        let announced = parts.headers.get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
        let check = |most| match announced {
            Some(length) if length > most => Err(Problem::too_large(most)),
            _ => Ok(()),
        };
        check(server.max_body)?;
        let most = match announced {
            Some(length) if length <= SMALL_BODY => length,
            _ => (routes.largest_body)(parts).map_err(Problem::closing)?.min(server.max_body),
        };
        check(most)?;
        let last_hop = || routes.app.proxies.last_hop(self.peer.0, &parts.headers);
        let client = || self.shared.sharers.counted(last_hop());
        let read = self.shared.body_rooms.read(incoming, most, announced, client);
        match tokio::time::timeout(server.body_timeout, read).await {
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

/// Error of reading a body.
enum Unread {
    /// The client closed its connection before the end.
    Left,
    /// The request breaks a rule or a limit.
    Refused(Problem),
}

impl From<Problem> for Unread {
    fn from(problem: Problem) -> Self {
        Unread::Refused(problem)
    }
}

/// True if a read error means that the client has left, rather than sent invalid data.
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

/// A request in progress; if it is dropped unfinished, its client has left.
struct Running<'a> {
    routes: &'a Routes,
    method: http::Method,
    started: Instant,
    /// After the head: a stall before it is harmless, and one after it makes the request wait longer.
    at: Moment,
    /// True if it has a `Transfer-Encoding`.
    chunked: bool,
    route: Option<&'static RouteMetrics>,
    limit: Option<LimitHeaders>,
    record: Option<Box<OpenRecord>>,
    finished: bool,
}

impl Running<'_> {
    fn spent(&self) -> Option<&Arc<Spent>> {
        self.record.as_ref().map(|record| &record.spent)
    }

    fn route(&self) -> &'static RouteMetrics {
        self.route.unwrap_or(self.routes.metrics.unmatched)
    }

    fn finish(&mut self, response: &Response, id: &RequestId) {
        self.finished = true;
        let route = self.route();
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

    /// `answer` is the status and the length of the body.
    fn end(&mut self, route: &'static str, answer: (Option<u16>, Option<u64>), took: Duration) {
        self.routes.metrics.in_flight.dec();
        if let Some((recorder, record)) = self.routes.recorder.as_ref().zip(self.record.take()) {
            recorder.end(record, route, answer, took);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.routes.metrics.client_left.inc();
            self.end("unknown", (None, None), self.started.elapsed());
            tracing::debug!(method = %self.method, "the client left before its answer");
        }
    }
}
