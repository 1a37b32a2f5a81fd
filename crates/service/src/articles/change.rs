//! `PATCH` and `DELETE /v1/articles/{id}`: for its author alone.

use super::draft::ArticleChangesBody;
use super::represent::ArticleBody;
use super::types::{ArticleId, Owned};
use super::{draft, no_such_article};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;

/// Changes an article. Only its author may.
#[utoipa::path(patch, path = "/v1/articles/{id}", tag = "articles", operation_id = "updateArticle",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the article")),
    request_body = ArticleChangesBody,
    responses(
        (status = 200, description = "The article as it is now", body = ArticleBody),
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such article"),
    ))]
pub(super) async fn patch(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Path<ArticleId>, PathRejection>,
    headers: HeaderMap,
    body: JsonObject,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_article()) };
    let edit = draft::edit(body)?;
    let articles = app.articles.clone();
    let edited = app.writes.run(async move { articles.edit(id, caller.id, edit).await });
    match edited.await?? {
        Owned::Done(edited) => {
            let articles = &app.articles;
            let liked = articles.likes.waiting(id, caller.id).unwrap_or(edited.liked);
            let counts = articles.likes.count_with_waiting(id, edited.counts);
            let body = ArticleBody::new(edited.article, counts, Some(liked));
            Ok(articles.bodies.of_write(body, &headers).await)
        }
        Owned::NotOwner => Err(not_the_author()),
        Owned::Absent => Err(no_such_article()),
    }
}

/// Deletes an article with its comments and likes. Only its author may.
#[utoipa::path(delete, path = "/v1/articles/{id}", tag = "articles", operation_id = "deleteArticle",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the article")),
    responses(
        (status = 204, description = "It is gone, with its comments and likes"),
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such article, or no longer"),
    ))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Path<ArticleId>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_article()) };
    let articles = app.articles.clone();
    match app.writes.run(async move { articles.remove(id, caller.id).await }).await?? {
        Owned::Done(()) => Ok(StatusCode::NO_CONTENT),
        Owned::NotOwner => Err(not_the_author()),
        Owned::Absent => Err(no_such_article()),
    }
}

fn not_the_author() -> Problem {
    Problem::forbidden("only its author may change or delete an article")
}
