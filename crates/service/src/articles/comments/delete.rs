//! `DELETE /v1/articles/{id}/comments/{commentId}`: for its author alone.

use crate::accounts::Caller;
use crate::app::App;
use crate::articles::Articles;
use crate::articles::types::{ArticleId, CommentId, Owned};
use crate::bodies::ChangeError;
use crate::http::{By, Conditions, Problem, Remover};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::StatusCode;
use std::sync::Arc;

/// Deletes a comment. Only its author may.
#[utoipa::path(delete, path = "/v1/articles/{id}/comments/{commentId}", tag = "articles", operation_id = "deleteComment",
    security(("bearer" = [])),
    params(
        ("id" = i64, Path, description = "Id of the article"),
        ("commentId" = i64, Path, description = "Id of the comment"),
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such comment on this article, or no longer"),
    ))]
pub(in super::super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    conditions: Conditions,
    ids: Result<Path<(ArticleId, CommentId)>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let absent = || Problem::not_found("this article has no comment with this id");
    let Ok(Path((article, id))) = ids else { return Err(absent()) };
    let articles = app.articles.clone();
    // A comment has no answer of its own, so no tag.
    let by = By::new(caller.id, conditions, |()| None);
    let removed = app.writes.run(async move { articles.remove_comment(article, id, by).await });
    match removed.await?? {
        Owned::Outdated => Err(Problem::precondition_failed()),
        Owned::Done(()) => Ok(StatusCode::NO_CONTENT),
        Owned::NotOwner => Err(Problem::forbidden("only its author may delete a comment")),
        Owned::Absent => Err(absent()),
    }
}

impl Articles {
    /// Deletes a comment, for its author or the operator. Done even when the caller goes away.
    ///
    /// # Errors
    /// When the store cannot take it.
    pub async fn remove_comment(
        &self,
        article: ArticleId,
        id: CommentId,
        by: impl Into<Remover<()>>,
    ) -> Result<Owned<()>, ChangeError> {
        Ok(self.comments.delete(article, id, by).await?)
    }
}
