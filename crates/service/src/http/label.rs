//! The label that each route puts on its responses, for the edge.

use crate::ops::metrics::{RouteMetrics, ServerMetrics};
use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::response::Response;
use http::Request;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The route of a response, passed from the router to the edge.
#[derive(Clone, Copy)]
pub(super) struct RouteLabel(pub(super) &'static RouteMetrics);

/// Labels the responses of every route.
pub fn label_routes(router: Router, metrics: &Arc<ServerMetrics>) -> Router {
    let routes = metrics.routes();
    router.layer(tower::layer::layer_fn(move |inner| Label { inner, routes: Arc::clone(&routes) }))
}

#[derive(Clone)]
struct Label<S> {
    inner: S,
    /// Few: comparing them in turn is faster than hashing.
    routes: Arc<[&'static RouteMetrics]>,
}

impl<S> tower::Service<Request<Body>> for Label<S>
where
    S: tower::Service<Request<Body>, Response = Response, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Labelled<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let matched = request.extensions().get::<MatchedPath>();
        let route = matched
            .and_then(|path| self.routes.iter().copied().find(|r| r.template == path.as_str()));
        Labelled { future: self.inner.call(request), route }
    }
}

struct Labelled<F> {
    future: F,
    route: Option<&'static RouteMetrics>,
}

impl<F: Future<Output = Result<Response, Infallible>> + Unpin> Future for Labelled<F> {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let route = self.route;
        Pin::new(&mut self.future).poll(cx).map_ok(|mut response| {
            if let Some(route) = route {
                response.extensions_mut().insert(RouteLabel(route));
            }
            response
        })
    }
}
