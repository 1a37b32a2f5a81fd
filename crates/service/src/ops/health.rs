//! Health: is the process alive, is it ready for requests.

use crate::app::App;
use crate::http::Problem;
use crate::ops::openapi::Api;
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
    ok()
}

/// Requests are welcome: the store reads, writes did not fail the last time, and the server is not draining.
#[utoipa::path(get, path = "/health/ready", tag = "operations", responses(
    (status = 200, description = "Requests are welcome"),
    (status = 503, description = "Draining, or the store is unavailable or cannot write"),
))]
async fn ready(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    if app.draining.load(Ordering::Relaxed) {
        return Err(Problem::unavailable("draining", 5, "asked for readiness while draining"));
    }
    app.tracks
        .store()
        .by_length(None, 1)
        .await
        .map_err(|e| Problem::unavailable("the store is unavailable", 1, e.to_string()))?;
    if let Some(error) = app.store.write_failure() {
        let log = format!("writes fail: {error}");
        return Err(Problem::unavailable("the store cannot write", 1, log));
    }
    Ok(ok())
}

fn ok() -> Response {
    let no_store = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (no_store, "ok\n").into_response()
}
