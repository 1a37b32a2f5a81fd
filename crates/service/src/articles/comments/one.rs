//! `DELETE /v1/articles/{id}/comments/{commentId}`: for its author alone. There is no other way to one comment.

use crate::accounts::Caller;
use crate::app::App;
use crate::articles::types::{ArticleId, CommentId};
use crate::http::{By, Conditions, PathId, Problem};
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
    ids: PathId<(ArticleId, CommentId)>,
) -> Result<StatusCode, Problem> {
    let absent = || Problem::not_found("this article has no comment with this id");
    let Ok(Path((article, id))) = ids else { return Err(absent()) };
    let comments = app.articles.comments().clone();
    // A comment has no answer of its own, so no tag.
    let by = By::new(caller.id, conditions, |()| None);
    let removed = app.writes.run(async move { comments.delete(article, id, by).await });
    let not_the_author = || Problem::forbidden("only its author may delete a comment");
    removed.await??.map_err(|refusal| refusal.answer(not_the_author, absent))?;
    Ok(StatusCode::NO_CONTENT)
}
