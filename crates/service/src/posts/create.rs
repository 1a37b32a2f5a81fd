//! `POST /v1/posts`.

use super::{Draft, PostId};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use crate::idempotency::IdempotencyKey;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A post to be made (documentation of the JSON that [`Draft`] reads).
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes the body in the OpenAPI document")]
pub(super) struct NewPostBody {
    /// 1 to 100 characters on one line. No text of a post may have the overrides of direction U+202D and U+202E
    /// in it.
    #[schema(min_length = 1, max_length = 100)]
    title: String,
    /// What is said about it: 1 to 10,000 characters.
    #[schema(min_length = 1, max_length = 10_000)]
    content: String,
    /// What is sold: 1 to 100 characters on one line.
    #[schema(min_length = 1, max_length = 100)]
    item_name: String,
    /// Price in won, a whole number.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    price: i64,
    /// How many there are.
    #[schema(minimum = 0, maximum = 1_000_000)]
    stock: i64,
    /// The `slug` of one of `GET /v1/categories`.
    #[schema(example = "digital")]
    category: String,
    /// Province, in Korean or English.
    #[schema(example = "서울특별시")]
    state: String,
    /// A municipality of it, or a district of one, in Korean or English.
    #[schema(example = "마포구")]
    city: String,
    /// 읍, 면 or 동: 1 to 40 characters on one line.
    #[schema(example = "망원동", min_length = 1, max_length = 40)]
    town: String,
    /// selling (default), reserved or sold.
    status: Option<String>,
}

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
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters: sent again with the same body, the first answer comes back"),
    ),
    request_body = NewPostBody,
    responses(
        (status = 201, description = "Made; `Location` leads to it", body = CreatedPost),
        (status = 400, description = "The body is no JSON"),
        (status = 401, description = "No valid token, or the account is gone"),
        (status = 413, description = "The body is too large"),
        (status = 415, description = "The body does not say that it is JSON"),
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
    let new = Draft::read(body, app.posts.names(&app.accounts))?.of(caller.id);
    let posts = app.posts.clone();
    let made = app.writes.run(async move { posts.add(new, once).await }).await??;
    Ok(made.answer(created))
}

fn created(id: PostId) -> Response {
    let location = [(header::LOCATION, format!("/v1/posts/{id}"))];
    (StatusCode::CREATED, location, axum::Json(CreatedPost { id })).into_response()
}
