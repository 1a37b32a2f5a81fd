//! `POST /v1/articles`.

use super::Draft;
use super::types::ArticleId;
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use crate::idempotency::IdempotencyKey;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An article to be written (documentation of the JSON that [`Draft`] reads).
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[allow(dead_code, reason = "describes the body in the OpenAPI document")]
pub(super) struct NewArticleBody {
    /// Title: 1 to 100 characters on one line.
    #[schema(min_length = 1, max_length = 100)]
    title: String,
    /// Content: 1 to 10,000 characters on any number of lines.
    #[schema(min_length = 1, max_length = 10_000)]
    content: String,
}

/// What was made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct CreatedBody {
    /// Its identifier.
    pub(super) id: i64,
}

/// Writes an article of the caller's own.
#[utoipa::path(post, path = "/v1/articles", tag = "articles", operation_id = "createArticle",
    security(("bearer" = [])),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters: sent again with the same body, the first answer comes back"),
    ),
    request_body = NewArticleBody,
    responses(
        (status = 201, description = "Written; `Location` leads to it", body = CreatedBody),
        (status = 400, description = "The body is no JSON"),
        (status = 401, description = "No valid token"),
        (status = 422, description = "A field has a wrong type or value"),
        (status = 503, description = "Too much is in progress"),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonObject,
) -> Result<Response, Problem> {
    let once = key.of(caller.id, body.bytes());
    let new = Draft::read(body)?.of(caller.id);
    let articles = app.articles.clone();
    let made = app.writes.run(async move { articles.add(new, once).await }).await??;
    Ok(made.answer(created))
}

fn created(id: ArticleId) -> Response {
    let location = [(header::LOCATION, format!("/v1/articles/{id}"))];
    (StatusCode::CREATED, location, axum::Json(CreatedBody { id })).into_response()
}
