//! `DELETE /v1/articles/{id}/comments/{commentId}`: for its author alone.

use crate::accounts::{Caller, UserId};
use crate::app::App;
use crate::articles::types::{ArticleId, CommentId, Owned};
use crate::articles::{Articles, comments_of};
use crate::bodies::ChangeError;
use crate::http::Problem;
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
    ids: Result<Path<(ArticleId, CommentId)>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let absent = || Problem::not_found("this article has no comment with this id");
    let Ok(Path((article, id))) = ids else { return Err(absent()) };
    let articles = app.articles.clone();
    let removed =
        app.writes.run(async move { articles.remove_comment(article, id, caller.id).await });
    match removed.await?? {
        Owned::Done(()) => Ok(StatusCode::NO_CONTENT),
        Owned::NotOwner => Err(Problem::forbidden("only its author may delete a comment")),
        Owned::Absent => Err(absent()),
    }
}

impl Articles {
    /// Deletes a comment of this user. Done even when the caller goes away.
    ///
    /// # Errors
    /// When the store cannot take it.
    pub async fn remove_comment(
        &self,
        article: ArticleId,
        id: CommentId,
        user: UserId,
    ) -> Result<Owned<()>, ChangeError> {
        let overlay = Arc::clone(self.likes.overlay());
        let cached = self.bodies.ends(move |()| vec![comments_of(article)]);
        let committed = move |now| {
            overlay.stored(article, now);
            cached(&());
        };
        Ok(self.comments.delete(article, id, user, committed).await?)
    }
}
