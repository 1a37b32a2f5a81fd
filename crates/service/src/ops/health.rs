//! Health: is the process alive, is it ready for requests.

use crate::app::App;
use crate::http::Problem;
use crate::ops::openapi::Api;
use crate::store::{StoreError, now};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, header};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use utoipa_axum::routes;

/// `/health/live` and `/health/ready`.
pub(crate) fn router() -> Api {
    Api::new().routes(routes!(live)).routes(routes!(ready))
}

/// The process answers. Nothing else is checked: a restart would not mend a full disk.
#[utoipa::path(get, path = "/health/live", tag = "operations", responses((status = 200, description = "The process answers")))]
async fn live() -> Response {
    ok("ok\n")
}

/// Requests are welcome: the store reads, writes did not fail the last time, and the server is not draining.
#[utoipa::path(get, path = "/health/ready", tag = "operations", responses(
    (status = 200, description = "Requests are welcome; in maintenance mode, which the body names, reads alone"),
    (status = 503, description = "Draining, or the store is unavailable or cannot write"),
))]
async fn ready(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    if app.draining.load(Ordering::Relaxed) {
        return Err(Problem::unavailable("draining", 5, "asked for readiness while draining"));
    }
    if let Some(error) = app.store.write_failure() {
        return Err(unavailable(&error, "the store cannot write"));
    }
    let reads = match app.store.freshness() {
        // What each request needs first; it waits no longer than those do.
        Some(freshness) => freshness.until_fresh(now()).await,
        None => app.tracks.store().by_length(None, 1).await.map(drop),
    };
    reads.map_err(|error| unavailable(&error, "the store is unavailable"))?;
    // A balancer would take all reads away from a node that is not ready, and answer writes without saying why.
    Ok(ok(match app.maintenance.message() {
        None => "ok\n",
        Some(_) => "ok, but for writes: maintenance mode\n",
    }))
}

/// Says what is missing, so that nobody has to look for it in logs.
fn unavailable(error: &StoreError, otherwise: &'static str) -> Problem {
    let detail = match error {
        StoreError::Unreachable(_) => "the database cannot be reached",
        StoreError::Busy | StoreError::GivenUp(_) => "the store is too busy",
        _ => otherwise,
    };
    Problem::unavailable(detail, 1, error.to_string())
}

fn ok(text: &'static str) -> Response {
    let no_store = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (no_store, text).into_response()
}
