//! `GET /v1/articles/{id}/comments`.

use crate::app::App;
use crate::articles::represent::CommentItem;
use crate::articles::types::{ArticleId, Comment, CommentId};
use crate::articles::{Articles, comments_of, no_such_article, one_article};
use crate::http::body::respond;
use crate::http::page::{self, Page, write_whole_cursor};
use crate::http::{PathId, Problem};
use crate::response_cache::Wanted;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use madang_cache::Value;
use std::sync::Arc;

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
pub(in super::super) async fn list(
    State(app): State<Arc<App>>,
    id: PathId<ArticleId>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(Path(article)) = id else { return Err(no_such_article()) };
    let (limit, after) = page::asked(query.as_deref().unwrap_or(""), &listing(article))?;
    let after = after.map_or(0, |(_, id)| id);
    match app.articles.comment_page(article, after, limit, &headers).await? {
        Some(value) => Ok(respond(&value, &headers)),
        None => Err(no_such_article()),
    }
}

fn listing(article: ArticleId) -> String {
    format!("article-comments:{article}")
}

impl Articles {
    async fn comment_page(
        &self,
        article: ArticleId,
        after: CommentId,
        limit: usize,
        headers: &HeaderMap,
    ) -> Result<Option<Value>, Problem> {
        let key = format!("{article}.{limit}.{after}");
        let stamps = [one_article(article), comments_of(article)];
        let kept = after == 0 || self.responses.keeps_later_pages();
        let wanted = Wanted { key: &key, stamps: &stamps, kept };
        let store = self.comments.clone();
        let make = move || async move {
            let found = store.page(article, after, limit + 1).await?;
            let cursor = |last: &Comment| write_whole_cursor(&listing(article), 0, last.id);
            Ok(found.map(|rows| Page::cut(rows, limit, cursor, CommentItem::from)))
        };
        self.responses.get(&self.comment_lists, wanted, headers, make).await
    }
}
