//! `GET`, `PATCH` and `DELETE /v1/posts/{id}`; the last two only for its owner.

use super::draft::PostChangesBody;
use super::represent::PostBody;
use super::{Changes, Post, PostId, one_post};
use crate::http::body::version;
use crate::http::{Answer, By, JsonObject, PathId, Problem, Read, Write};
use crate::response_cache::Wanted;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;

/// One post.
#[utoipa::path(get, path = "/v1/posts/{id}", tag = "posts", operation_id = "getPost",
    params(("id" = i64, Path, description = "Id of the post")),
    responses(
        (status = 200, description = "The post", body = PostBody),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "There is no such post, or no longer"),
    ))]
pub(super) async fn one(id: PathId<PostId>, Read { app, headers, .. }: Read) -> Answer {
    let id = id.or(no_such_post)?;
    let posts = &app.posts;
    let key = id.to_string();
    let wanted = Wanted { key: &key, stamps: &[one_post(id)], kept: true };
    let this = Arc::clone(&app);
    let make = move || async move {
        let found = this.posts.store().find(id).await?;
        Ok(found.map(|post| PostBody::new(post, this.posts.names(&this.accounts))))
    };
    posts.responses.answer(&posts.details, wanted, &headers, make, no_such_post).await
}

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
    id: PathId<PostId>,
    write: Write,
    headers: HeaderMap,
    body: JsonObject,
) -> Answer {
    let id = id.or(no_such_post)?;
    let app = Arc::clone(&write.app);
    let changes = Changes::read(body, app.posts.names(&app.accounts))?;
    let posts = app.posts.store().clone();
    let by = by(write);
    let changed = app.writes.run(async move { posts.change(id, by, changes).await });
    let post = changed.await??.map_err(|refusal| refusal.answer(not_the_owner, no_such_post))?;
    let body = PostBody::new(post, app.posts.names(&app.accounts));
    Ok(app.posts.responses.of_write(body, &headers).await)
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
pub(super) async fn delete(id: PathId<PostId>, write: Write) -> Answer<StatusCode> {
    let id = id.or(no_such_post)?;
    let app = Arc::clone(&write.app);
    let (posts, by) = (app.posts.store().clone(), by(write));
    let removed = app.writes.run(async move { posts.remove(id, by).await });
    removed.await??.map_err(|refusal| refusal.answer(not_the_owner, no_such_post))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The caller with the conditions of the request, which apply to the body of the post.
fn by(Write { app, caller, conditions }: Write) -> By<Post> {
    By::new(caller.id, conditions, move |post| {
        Some(version(&PostBody::new(post, app.posts.names(&app.accounts))))
    })
}

fn no_such_post() -> Problem {
    Problem::not_found("there is no post with this id")
}

fn not_the_owner() -> Problem {
    Problem::forbidden("only its owner may change or delete a post")
}
