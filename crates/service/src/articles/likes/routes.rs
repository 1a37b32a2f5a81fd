//! `POST`, `PUT` and `DELETE /v1/articles/{id}/like`.

use super::{Change, Like, LikeError, Liked};
use crate::articles::no_such_article;
use crate::articles::types::ArticleId;
use crate::http::{Answer, PathId, Problem, Write, not_stored};
use serde::Serialize;

/// The caller's like after the change.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct LikeBody {
    /// Whether the caller likes the article.
    liked: bool,
    /// Number of likes.
    like_count: u64,
}

/// Likes an article, or takes the like back.
///
/// A toggle that is sent again inverts itself: a client that may have to repeat a request should use
/// `PUT` or `DELETE`.
#[utoipa::path(post, path = "/v1/articles/{id}/like", tag = "articles", operation_id = "toggleLike",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the article")),
    responses(
        (status = 200, description = "Whether the caller likes it now, and how many do", body = LikeBody),
        (status = 404, description = "There is no such article"),
    ))]
pub(in super::super) async fn toggle(id: PathId<ArticleId>, write: Write) -> Answer {
    change(id.or(no_such_article)?, &write, Change::Toggle).await
}

/// Likes an article. Sent again, it changes nothing.
#[utoipa::path(put, path = "/v1/articles/{id}/like", tag = "articles", operation_id = "like",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the article")),
    responses(
        (status = 200, description = "The caller likes it; how many do", body = LikeBody),
        (status = 404, description = "There is no such article"),
    ))]
pub(in super::super) async fn like(id: PathId<ArticleId>, write: Write) -> Answer {
    change(id.or(no_such_article)?, &write, Change::On).await
}

/// Takes a like back. Sent again, it changes nothing.
#[utoipa::path(delete, path = "/v1/articles/{id}/like", tag = "articles", operation_id = "unlike",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the article")),
    responses(
        (status = 200, description = "The caller does not like it; how many do", body = LikeBody),
        (status = 404, description = "There is no such article"),
    ))]
pub(in super::super) async fn unlike(id: PathId<ArticleId>, write: Write) -> Answer {
    let article = id.or(no_such_article)?;
    // A like has no answer to a GET, so no tag that could match.
    if !write.conditions.hold(None) {
        return Err(Problem::precondition_failed());
    }
    change(article, &write, Change::Off).await
}

async fn change(article: ArticleId, by: &Write, change: Change) -> Answer {
    let Write { app, caller, .. } = by;
    let turn = app.writes.enter().await?;
    let like = Like { article, user: caller.id, change };
    let Liked { liked, count } = app.articles.likes.apply(like, turn).await?;
    Ok(not_stored(LikeBody { liked, like_count: count }))
}

impl From<LikeError> for Problem {
    fn from(error: LikeError) -> Self {
        let detail = match error {
            LikeError::NoArticle => return no_such_article(),
            LikeError::NoUser => return Problem::account_gone(),
            LikeError::Store(error) => return error.into(),
            LikeError::Full => "too many likes are waiting; try again later",
            LikeError::Away(_) => "likes cannot be taken at the moment; try again later",
        };
        Problem::unavailable(detail, 1, error.to_string())
    }
}
