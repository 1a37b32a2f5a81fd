//! `GET`, `PATCH` and `DELETE /v1/articles/{id}`; the last two for its author alone.

use super::draft::ArticleChangesBody;
use super::represent::{ArticleBody, ArticleText};
use super::types::{Article, ArticleId, Counts};
use super::{Articles, draft, no_such_article, one_article};
use crate::accounts::MaybeCaller;
use crate::http::dynamic_members::{DynamicObject, Member};
use crate::http::{Answer, By, JsonObject, PathId, Problem, Read, Write};
use crate::response_cache::{Wanted, make_private};
use http::{HeaderMap, StatusCode};

/// One article.
///
/// With a token the answer says whether the caller likes it.
#[utoipa::path(get, path = "/v1/articles/{id}", tag = "articles", operation_id = "getArticle",
    security((), ("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the article")),
    responses(
        (status = 200, description = "The article", body = ArticleBody),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "There is no such article"),
    ))]
pub(super) async fn one(
    MaybeCaller(caller): MaybeCaller,
    id: PathId<ArticleId>,
    Read { app, headers, .. }: Read,
) -> Answer {
    let id = id.or(no_such_article)?;
    let articles = &app.articles;
    let text = articles.text(id, &headers).await?.ok_or_else(no_such_article)?;
    let liked = match &caller {
        Some(caller) => Some(articles.liked(id, caller.id).await?),
        None => None,
    };
    let counts = articles.counts(id).await?.ok_or_else(no_such_article)?;
    let mut response = text.respond(&members(counts, liked), &headers);
    if caller.is_some() {
        make_private(&mut response);
    }
    Ok(response)
}

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
    id: PathId<ArticleId>,
    Write { app, caller, conditions }: Write,
    headers: HeaderMap,
    body: JsonObject,
) -> Answer {
    let id = id.or(no_such_article)?;
    let edit = draft::edit(body)?;
    let articles = app.articles.clone();
    let (user, by) = (caller.id, By::new(caller.id, conditions, version));
    let edited = app.writes.run(async move { articles.edit(id, by, edit).await });
    let edited =
        edited.await??.map_err(|refusal| refusal.answer(not_the_author, no_such_article))?;
    let articles = &app.articles;
    let liked = articles.likes.waiting(id, user).await.unwrap_or(edited.liked);
    let counts = articles.likes.count_with_waiting(id, edited.counts).await;
    let (text, members) = (ArticleText::from(edited.article), members(counts, Some(liked)));
    Ok(articles.responses.of_write_dynamic(text, &members, &headers).await)
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
pub(super) async fn delete(id: PathId<ArticleId>, write: Write) -> Answer<StatusCode> {
    let id = id.or(no_such_article)?;
    let Write { app, caller, conditions } = write;
    let articles = app.articles.store().clone();
    let by = By::new(caller.id, conditions, version);
    let removed = app.writes.run(async move { articles.delete(id, by).await });
    removed.await??.map_err(|refusal| refusal.answer(not_the_author, no_such_article))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Version of the text: likes and comments do not change the article.
fn version(article: Article) -> Option<Box<str>> {
    Some(DynamicObject::version(&ArticleText::from(article)))
}

fn not_the_author() -> Problem {
    Problem::forbidden("only its author may change or delete an article")
}

/// Members of the response beside the cached text.
fn members(counts: Counts, liked: Option<bool>) -> [(&'static str, Member); 3] {
    let number = |count| Member::Number(i64::try_from(count).unwrap_or(i64::MAX));
    [
        ("likeCount", number(counts.likes)),
        ("commentCount", number(counts.comments)),
        ("liked", liked.into()),
    ]
}

impl Articles {
    /// The cached part of an article.
    async fn text(&self, id: ArticleId, headers: &HeaderMap) -> Answer<Option<DynamicObject>> {
        let (key, stamps) = (id.to_string(), [one_article(id)]);
        let wanted = Wanted { key: &key, stamps: &stamps, kept: true };
        let store = self.store.clone();
        let make = move || async move { Ok(store.find(id).await?.map(ArticleText::from)) };
        self.responses.get_dynamic(&self.details, wanted, headers, make).await
    }
}
