//! `/v1/articles/{id}/comments`: the oldest first. Their transactions keep the comment count of the article.
//!
//! A single comment can only be deleted.

pub(super) mod store;

use super::draft::{self, NewCommentBody};
use super::list::Created;
use super::represent::CommentItem;
use super::types::{ArticleId, Comment, CommentId};
use super::{comments_of, no_such_article, one_article};
use crate::http::page::{self, Page, write_whole_cursor};
use crate::http::{Answer, By, Create, PathId, Problem, Read, Write};
use crate::response_cache::Wanted;
use http::StatusCode;

/// Comments on an article, the oldest first.
#[utoipa::path(get, path = "/v1/articles/{id}/comments", tag = "articles", operation_id = "listComments",
    params(
        ("id" = i64, Path, description = "Id of the article"),
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<CommentItem>),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "There is no such article"),
    ))]
pub(super) async fn list(id: PathId<ArticleId>, read: Read) -> Answer {
    let article = id.or(no_such_article)?;
    let listing = format!("article-comments:{article}");
    let (limit, after) = page::asked(read.query(), &listing)?;
    let after = after.map_or(0, |(_, id)| id);
    let key = format!("{article}.{limit}.{after}");
    let stamps = [one_article(article), comments_of(article)];
    let articles = &read.app.articles;
    let kept = after == 0 || articles.responses.keeps_later_pages();
    let wanted = Wanted { key: &key, stamps: &stamps, kept };
    let store = articles.comments.clone();
    let make = move || async move {
        let found = store.page(article, after, limit + 1).await?;
        let cursor = |last: &Comment| write_whole_cursor(&listing, 0, last.id);
        Ok(found.map(|rows| Page::cut(rows, limit, cursor, CommentItem::from)))
    };
    let part = &articles.comment_lists;
    articles.responses.answer(part, wanted, &read.headers, make, no_such_article).await
}

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
pub(super) async fn create(id: PathId<ArticleId>, create: Create) -> Answer {
    let article = id.or(no_such_article)?;
    let Create { app, caller, once, body } = create;
    let new = draft::comment(body, article, caller.id)?;
    let comments = app.articles.comments().clone();
    let made = app.writes.run(async move { comments.add(new, once).await }).await??;
    let made = made.made().ok_or_else(no_such_article)?;
    Ok(made.answer(|id| {
        crate::http::created(format!("/v1/articles/{article}/comments"), Created { id })
    }))
}

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
pub(super) async fn delete(
    ids: PathId<(ArticleId, CommentId)>,
    Write { app, caller, conditions }: Write,
) -> Answer<StatusCode> {
    let absent = || Problem::not_found("this article has no comment with this id");
    let (article, id) = ids.or(absent)?;
    let comments = app.articles.comments().clone();
    // A comment has no response of its own, so no tag.
    let by = By::new(caller.id, conditions, |()| None);
    let removed = app.writes.run(async move { comments.delete(article, id, by).await });
    let not_the_author = || Problem::forbidden("only its author may delete a comment");
    removed.await??.map_err(|refusal| refusal.answer(not_the_author, absent))?;
    Ok(StatusCode::NO_CONTENT)
}
