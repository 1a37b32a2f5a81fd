//! `GET /v1/posts/{id}`.

use super::represent::PostBody;
use super::{PostId, one_post};
use crate::app::App;
use crate::bodies::Wanted;
use crate::http::Problem;
use crate::http::body::respond;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use std::sync::Arc;

/// One post.
#[utoipa::path(get, path = "/v1/posts/{id}", tag = "posts", operation_id = "getPost",
    params(("id" = i64, Path, description = "Id of the post")),
    responses(
        (status = 200, description = "The post", body = PostBody),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "There is no such post, or no longer"),
    ))]
pub(super) async fn one(
    State(app): State<Arc<App>>,
    id: Result<Path<PostId>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_post()) };
    let posts = &app.posts;
    let key = id.to_string();
    let wanted = Wanted { key: &key, stamps: &[one_post(id)], kept: true };
    let this = Arc::clone(&app);
    let make = move || async move {
        let found = this.posts.store().find(id).await?;
        Ok(found.map(|post| PostBody::new(post, this.posts.names(&this.accounts))))
    };
    match posts.bodies.get(&posts.details, wanted, &headers, make).await? {
        Some(value) => Ok(respond(&value, &headers)),
        None => Err(no_such_post()),
    }
}

pub(super) fn no_such_post() -> Problem {
    Problem::not_found("there is no post with this id")
}

pub(super) fn not_the_owner() -> Problem {
    Problem::forbidden("only its owner may change or delete a post")
}
