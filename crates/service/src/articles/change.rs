//! `PATCH` and `DELETE /v1/articles/{id}`: for its author alone.

use super::detail::members;
use super::draft::ArticleChangesBody;
use super::represent::{ArticleBody, ArticleText};
use super::types::{Article, ArticleId, Owned};
use super::{draft, no_such_article};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::splice::Template;
use crate::http::{By, Conditions, JsonObject, Problem};
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
    conditions: Conditions,
    id: Result<Path<ArticleId>, PathRejection>,
    headers: HeaderMap,
    body: JsonObject,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_article()) };
    let edit = draft::edit(body)?;
    let articles = app.articles.clone();
    let (user, by) = (caller.id, By::new(caller.id, conditions, version));
    let edited = app.writes.run(async move { articles.edit(id, by, edit).await });
    match edited.await?? {
        Owned::Done(edited) => {
            let articles = &app.articles;
            let liked = articles.likes.waiting(id, user).await.unwrap_or(edited.liked);
            let counts = articles.likes.count_with_waiting(id, edited.counts).await;
            let (text, members) = (ArticleText::from(edited.article), members(counts, Some(liked)));
            Ok(articles.bodies.of_write_template(text, &members, &headers).await)
        }
        Owned::Outdated => Err(Problem::precondition_failed()),
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
    conditions: Conditions,
    id: Result<Path<ArticleId>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_article()) };
    let articles = app.articles.clone();
    let by = By::new(caller.id, conditions, version);
    match app.writes.run(async move { articles.remove(id, by).await }).await?? {
        Owned::Done(()) => Ok(StatusCode::NO_CONTENT),
        Owned::Outdated => Err(Problem::precondition_failed()),
        Owned::NotOwner => Err(not_the_author()),
        Owned::Absent => Err(no_such_article()),
    }
}

/// Its text alone: likes and comments come and go without anybody changing the article.
fn version(article: Article) -> Option<Box<str>> {
    Some(Template::version(&ArticleText::from(article)))
}

fn not_the_author() -> Problem {
    Problem::forbidden("only its author may change or delete an article")
}
