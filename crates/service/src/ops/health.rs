//! Health of the process, and its readiness for requests.

use crate::app::App;
use crate::http::Problem;
use crate::ops::openapi::Api;
use crate::store::{StoreError, now};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use utoipa_axum::routes;

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
        // Every request waits for this, and no longer.
        Some(freshness) => freshness.until_fresh(now()).await,
        None => app.tracks.store().by_length(None, 1).await.map(drop),
    };
    reads.map_err(|error| unavailable(&error, "the store is unavailable"))?;
    // Ready in maintenance mode too: a balancer would take the reads of an unready node away with its writes.
    Ok(ok(match app.maintenance.message() {
        None => "ok\n",
        Some(_) => "ok, but for writes: maintenance mode\n",
    }))
}

/// Names the cause, so that nobody has to look for it in the log.
fn unavailable(error: &StoreError, otherwise: &'static str) -> Problem {
    let detail = match error {
        StoreError::Unreachable(_) => "the database cannot be reached",
        StoreError::Busy | StoreError::GivenUp(_) => "the store is too busy",
        _ => otherwise,
    };
    Problem::unavailable(detail, 1, error.to_string())
}

fn ok(text: &'static str) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], text).into_response()
}
