//! `POST /v1/articles`.

use super::Draft;
use super::draft::NewArticleBody;
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use crate::idempotency::IdempotencyKey;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

/// What was made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Created {
    /// Its identifier.
    pub(super) id: i64,
}

/// Writes an article of the caller's own.
#[utoipa::path(post, path = "/v1/articles", tag = "articles", operation_id = "createArticle",
    security(("bearer" = [])),
    params(
        ("Idempotency-Key" = Option<String>, Header),
    ),
    request_body = NewArticleBody,
    responses(
        (status = 201, description = "Written; `Location` leads to it", body = Created),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonObject,
) -> Result<Response, Problem> {
    let once = key.used_by(caller.id, body.bytes());
    let new = Draft::read(body)?.owned_by(caller.id);
    let articles = app.articles.store().clone();
    let made = app.writes.run(async move { articles.create(new, once).await }).await??;
    Ok(made.answer(|id| crate::http::created(format!("/v1/articles/{id}"), Created { id })))
}
