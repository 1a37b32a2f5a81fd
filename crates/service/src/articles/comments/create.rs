//! `POST /v1/articles/{id}/comments`.

use crate::accounts::Caller;
use crate::app::App;
use crate::articles::create::Created;
use crate::articles::draft::NewCommentBody;
use crate::articles::types::ArticleId;
use crate::articles::{draft, no_such_article};
use crate::http::{JsonObject, PathId, Problem};
use crate::idempotency::IdempotencyKey;
use axum::extract::{Path, State};
use axum::response::Response;
use std::sync::Arc;

/// Writes a comment on an article.
#[utoipa::path(post, path = "/v1/articles/{id}/comments", tag = "articles", operation_id = "createComment",
    security(("bearer" = [])),
    params(
        ("id" = i64, Path, description = "Id of the article"),
        ("Idempotency-Key" = Option<String>, Header),
    ),
    request_body = NewCommentBody,
    responses(
        (status = 201, description = "Written; `Location` leads to the comments", body = Created),
        (status = 404, description = "There is no such article"),
    ))]
pub(in super::super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: PathId<ArticleId>,
    key: IdempotencyKey,
    body: JsonObject,
) -> Result<Response, Problem> {
    let Ok(Path(article)) = id else { return Err(no_such_article()) };
    let once = key.used_by(caller.id, body.bytes());
    let new = draft::comment(body, article, caller.id)?;
    let comments = app.articles.comments().clone();
    let made = app.writes.run(async move { comments.add(new, once).await }).await??;
    let made = made.made().ok_or_else(no_such_article)?;
    Ok(made.answer(|id| {
        crate::http::created(format!("/v1/articles/{article}/comments"), Created { id })
    }))
}
