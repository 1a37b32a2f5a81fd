//! `POST /v1/posts`.

use super::Draft;
use super::draft::NewPostBody;
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use crate::idempotency::IdempotencyKey;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

/// The post that was made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedPost {
    /// Its identifier.
    id: i64,
}

/// Makes a post of the caller's own.
#[utoipa::path(post, path = "/v1/posts", tag = "posts", operation_id = "createPost",
    security(("bearer" = [])),
    params(
        ("Idempotency-Key" = Option<String>, Header),
    ),
    request_body = NewPostBody,
    responses(
        (status = 201, description = "Made; `Location` leads to it", body = CreatedPost),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonObject,
) -> Result<Response, Problem> {
    let once = key.used_by(caller.id, body.bytes());
    let new = Draft::read(body, app.posts.names(&app.accounts))?.owned_by(caller.id);
    let posts = app.posts.store().clone();
    let made = app.writes.run(async move { posts.create(new, once).await }).await??;
    Ok(made.answer(|id| crate::http::created(format!("/v1/posts/{id}"), CreatedPost { id })))
}
