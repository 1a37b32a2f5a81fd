//! `PATCH /v1/posts/{id}` and `DELETE /v1/posts/{id}`: owners only.

use super::draft::PostChangesBody;
use super::one::{no_such_post, not_the_owner};
use super::represent::PostBody;
use super::types::{Change, Post};
use super::{Changes, PostId};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{By, Conditions, JsonObject, Problem, body};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;

/// Changes a post.
#[utoipa::path(patch, path = "/v1/posts/{id}", tag = "posts", operation_id = "changePost",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the post")),
    request_body = PostChangesBody,
    responses(
        (status = 200, description = "The post as it is now", body = PostBody),
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such post, or no longer"),
    ))]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    conditions: Conditions,
    id: Result<Path<PostId>, PathRejection>,
    headers: HeaderMap,
    body: JsonObject,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_post()) };
    let changes = Changes::read(body, app.posts.names(&app.accounts))?;
    let posts = app.posts.clone();
    let by = by(&app, &caller, conditions);
    let changed = app.writes.run(async move { posts.change(id, by, changes).await });
    match changed.await?? {
        Change::Done(post) => {
            let body = PostBody::new(post, app.posts.names(&app.accounts));
            Ok(app.posts.bodies.of_write(body, &headers).await)
        }
        Change::Outdated => Err(Problem::precondition_failed()),
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
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such post, or no longer"),
    ))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    conditions: Conditions,
    id: Result<Path<PostId>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_post()) };
    let posts = app.posts.clone();
    let by = by(&app, &caller, conditions);
    match app.writes.run(async move { posts.remove(id, by).await }).await?? {
        Change::Done(()) => Ok(StatusCode::NO_CONTENT),
        Change::Outdated => Err(Problem::precondition_failed()),
        Change::NotOwner => Err(not_the_owner()),
        Change::Absent => Err(no_such_post()),
    }
}

/// The caller, if the conditions hold for the post as it is answered.
fn by(app: &Arc<App>, caller: &Caller, conditions: Conditions) -> By<Post> {
    let app = Arc::clone(app);
    By::new(caller.id, conditions, move |post| {
        Some(body::version(&PostBody::new(post, app.posts.names(&app.accounts))))
    })
}
