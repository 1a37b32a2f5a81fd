//! `GET /v1/articles`: all or those with certain words, by newest or by likes; and `POST`.

use super::draft::{self, NewArticleBody};
use super::represent::ArticleItem;
use super::store::listing::{Listed, PageRequest};
use super::types::Order;
use super::{Articles, all_articles};
use crate::http::page::{self, Page, Query, write_whole_cursor};
use crate::http::{Answer, Create, FieldError, Problem, Read};
use crate::markets::read_words;
use crate::response_cache::{Wanted, no_listing};
use crate::store::load_with;
use http::HeaderMap;
use serde::Serialize;
use std::sync::Arc;

/// Articles, or those of them that are searched for, the newest or the most liked first.
///
/// Words of `q` match anywhere in title and content; a word of one character matches the beginning of a word.
/// All words must match. Hangul is compared composed, letters without regard to case. A page of a search may
/// be short, or empty, and still have a next one.
///
/// Counts are at most a second old, under overload two; the order by likes about a second more.
/// While likes change, an article may come twice or not at all on pages that are read one after
/// another, but only one whose likes have changed.
#[utoipa::path(get, path = "/v1/articles", tag = "articles", operation_id = "listArticles",
    params(
        ("q" = Option<String>, Query, description = "words of title or content; at most 100 characters"),
        ("sort" = Option<String>, Query, description = "newest (default) or likes: the most liked first"),
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<ArticleItem>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(read: Read) -> Answer {
    let (asked, limit) = self::read(read.query())?;
    read.app.articles.page(asked, limit, &read.headers).await
}

/// Reference to a created article or comment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Created {
    /// Its identifier.
    pub(super) id: i64,
}

/// Writes an article of the caller's own.
#[utoipa::path(post, path = "/v1/articles", tag = "articles", operation_id = "createArticle",
    security(("bearer" = [])),
    params(("Idempotency-Key" = Option<String>, Header)),
    request_body = NewArticleBody,
    responses(
        (status = 201, description = "Written; `Location` leads to it", body = Created),
    ))]
pub(super) async fn create(create: Create) -> Answer {
    let Create { app, caller, once, body } = create;
    let new = draft::article(body, caller.id)?;
    let articles = app.articles.store().clone();
    let made = app.writes.run(async move { articles.create(new, once).await }).await??;
    Ok(made.answer(|id| crate::http::created(format!("/v1/articles/{id}"), Created { id })))
}

/// Reads a query and reports all errors at once; those of the cursor last, since it belongs to the listing that
/// the other parameters select.
pub(crate) fn read(query: &str) -> Result<(PageRequest, usize), Problem> {
    let written = Query::of(query);
    let order = match written.get("sort") {
        None | Some("newest") => Ok(Order::Newest),
        Some("likes") => Ok(Order::Likes),
        Some(_) => Err(FieldError::new("sort", "newest or likes")),
    };
    match (read_words("q", written.get("q")), order) {
        (Ok(words), Ok(order)) => {
            let asked = PageRequest { words, order, after: None };
            let (limit, after) = page::asked(query, &listing(&asked))?;
            Ok((PageRequest { after, ..asked }, limit))
        }
        (words, order) => {
            Err(Problem::invalid([words.err(), order.err()].into_iter().flatten().collect()))
        }
    }
}

/// Name of a listing, to which its cursors belong: a position in one order is none in another. No word contains the
/// separator.
fn listing(asked: &PageRequest) -> String {
    let all = match asked.order {
        Order::Newest => "articles:newest",
        Order::Likes => "articles:likes",
    };
    let words = &asked.words;
    if words.is_empty() { all.to_owned() } else { format!("{all}\u{1}{}", words.key()) }
}

impl Articles {
    async fn page(&self, asked: PageRequest, limit: usize, headers: &HeaderMap) -> Answer {
        let (name, order, after) = (listing(&asked), asked.order, asked.after);
        let key = match after {
            None => format!("{limit} {name}"),
            Some((likes, id)) => format!("{limit}.{likes}.{id} {name}"),
        };
        let kept = after.is_none() || self.responses.keeps_later_pages();
        let wanted = Wanted { key: &key, stamps: &[all_articles()], kept };
        let (store, pending) = (self.store.clone(), Arc::clone(&self.likes.core.pending));
        let make = move || async move {
            // Likes show in a listing and do not invalidate it: it depends on more than its stamp.
            let listed = store.listed(asked, limit + 1, &pending);
            let found = load_with(Vec::new(), listed).await?;
            let cursor = |(likes, id)| write_whole_cursor(&name, likes, id);
            let of_last = |last: &Listed| {
                let (likes, id) = last.article.position();
                cursor((if order == Order::Newest { 0 } else { likes }, id))
            };
            let page = Page::cut(found.items, limit, of_last, ArticleItem::from);
            Ok(Some(page.or_more(found.more.map(cursor))))
        };
        self.responses.answer(&self.lists, wanted, headers, make, no_listing).await
    }
}
