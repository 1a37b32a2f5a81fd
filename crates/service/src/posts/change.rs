//! `PATCH /v1/posts/{id}` and `DELETE /v1/posts/{id}`: owners only.

use super::one::{no_such_post, not_the_owner};
use super::represent::PostBody;
use super::types::Change;
use super::{Changes, PostId};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use std::sync::Arc;

/// What a post is to be changed to (documentation of the JSON that [`Changes`] reads). What is missing or
/// null stays as it is.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes the body in the OpenAPI document")]
pub(super) struct ChangesBody {
    /// 1 to 100 characters on one line.
    #[schema(min_length = 1, max_length = 100)]
    title: Option<String>,
    /// 1 to 10,000 characters.
    #[schema(min_length = 1, max_length = 10_000)]
    content: Option<String>,
    /// 1 to 100 characters on one line.
    #[schema(min_length = 1, max_length = 100)]
    item_name: Option<String>,
    /// Price in won, a whole number.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    price: Option<i64>,
    /// How many there are.
    #[schema(minimum = 0, maximum = 1_000_000)]
    stock: Option<i64>,
    /// The `slug` of one of `GET /v1/categories`.
    category: Option<String>,
    /// Province; with `city` and `town`.
    state: Option<String>,
    /// Municipality or district of it; with `state` and `town`.
    city: Option<String>,
    /// 읍, 면 or 동; alone it is one of the same city.
    #[schema(min_length = 1, max_length = 40)]
    town: Option<String>,
    /// selling, reserved or sold.
    status: Option<String>,
}

/// Changes a post.
#[utoipa::path(patch, path = "/v1/posts/{id}", tag = "posts", operation_id = "changePost",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the post")),
    request_body = ChangesBody,
    responses(
        (status = 200, description = "The post as it is now", body = PostBody),
        (status = 400, description = "The body is no JSON"),
        (status = 401, description = "No valid token, or the account is gone"),
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such post, or no longer"),
        (status = 413, description = "The body is too large"),
        (status = 415, description = "The body does not say that it is JSON"),
        (status = 422, description = "A field has a wrong type or value"),
        (status = 503, description = "Too much is in progress"),
    ))]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Path<PostId>, PathRejection>,
    headers: HeaderMap,
    body: JsonObject,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_post()) };
    let changes = Changes::read(body, app.posts.names(&app.accounts))?;
    let posts = app.posts.clone();
    let changed = app.writes.run(async move { posts.change(id, caller.id, changes).await });
    match changed.await?? {
        Change::Done(post) => {
            let body = PostBody::new(post, app.posts.names(&app.accounts));
            Ok(app.posts.bodies.of_write(body, &headers).await)
        }
        Change::NotOwner => Err(not_the_owner()),
        Change::Absent => Err(no_such_post()),
    }
}

/// Removes a post: nobody sees it any more.
#[utoipa::path(delete, path = "/v1/posts/{id}", tag = "posts", operation_id = "deletePost",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the post")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 401, description = "No valid token, or the account is gone"),
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such post, or no longer"),
        (status = 503, description = "Too much is in progress"),
    ))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Path<PostId>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_post()) };
    let posts = app.posts.clone();
    match app.writes.run(async move { posts.remove(id, caller.id).await }).await?? {
        Change::Done(()) => Ok(StatusCode::NO_CONTENT),
        Change::NotOwner => Err(not_the_owner()),
        Change::Absent => Err(no_such_post()),
    }
}
