//! `GET /v1/articles/{id}`.

use super::represent::{ArticleBody, ArticleText};
use super::types::{ArticleId, Counts};
use super::{Articles, no_such_article, one_article};
use crate::accounts::MaybeCaller;
use crate::app::App;
use crate::bodies::{Wanted, make_private};
use crate::http::Problem;
use crate::http::splice::{Member, Template};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use std::sync::Arc;

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
pub(super) async fn detail(
    State(app): State<Arc<App>>,
    MaybeCaller(caller): MaybeCaller,
    id: Result<Path<ArticleId>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_article()) };
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

/// What an article is answered with beside its text.
pub(super) fn members(counts: Counts, liked: Option<bool>) -> [(&'static str, Member); 3] {
    let number = |count| Member::Number(i64::try_from(count).unwrap_or(i64::MAX));
    [
        ("likeCount", number(counts.likes)),
        ("commentCount", number(counts.comments)),
        ("liked", liked.into()),
    ]
}

impl Articles {
    /// What is cached of an article.
    async fn text(&self, id: ArticleId, headers: &HeaderMap) -> Result<Option<Template>, Problem> {
        let (key, stamps) = (id.to_string(), [one_article(id)]);
        let wanted = Wanted { key: &key, stamps: &stamps, kept: true };
        let store = self.store.clone();
        let make = move || async move { Ok(store.find(id).await?.map(ArticleText::from)) };
        self.bodies.get_template(&self.details, wanted, headers, make).await
    }
}
