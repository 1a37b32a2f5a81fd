//! `GET /v1/articles`: by newest or by likes.

use super::represent::ArticleItem;
use super::store::listing::Listed;
use super::types::{After, Order};
use super::{Articles, all_articles};
use crate::app::App;
use crate::bodies::Wanted;
use crate::http::Problem;
use crate::http::body::respond;
use crate::http::page::{self, Page, write_whole_cursor};
use crate::store::load_with;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use madang_cache::Value;
use std::sync::Arc;

/// Articles, the newest or the most liked first.
///
/// Counts are at most a second old, under overload two; the order by likes about a second more.
/// While likes change, an article may come twice or not at all on pages that are read one after
/// another, but only one whose likes have changed.
#[utoipa::path(get, path = "/v1/articles", tag = "articles", operation_id = "listArticles",
    params(
        ("sort" = Option<String>, Query, description = "newest (default) or likes: the most liked first"),
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<ArticleItem>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = query.as_deref().unwrap_or("");
    let order = order(query)?;
    let (limit, after) = page::asked(query, listing(order))?;
    let after = after.map(|(likes, id)| After { likes, id });
    Ok(respond(&app.articles.page(order, after, limit, &headers).await?, &headers))
}

fn order(query: &str) -> Result<Order, Problem> {
    let sort = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "sort").last();
    match sort.as_ref().map_or("newest", |(_, value)| value) {
        "newest" => Ok(Order::Newest),
        "likes" => Ok(Order::Likes),
        _ => Err(Problem::invalid_field("sort", "newest or likes")),
    }
}

/// A cursor belongs to its order: what is a position in one is none in the other.
fn listing(order: Order) -> &'static str {
    match order {
        Order::Newest => "articles:newest",
        Order::Likes => "articles:likes",
    }
}

impl Articles {
    async fn page(
        &self,
        order: Order,
        after: Option<After>,
        limit: usize,
        headers: &HeaderMap,
    ) -> Result<Value, Problem> {
        let name = listing(order);
        let key = match after {
            None => format!("{name}.{limit}"),
            Some(after) => format!("{name}.{limit}.{}.{}", after.likes, after.id),
        };
        let kept = after.is_none() || self.bodies.keeps_later_pages();
        let wanted = Wanted { key: &key, stamps: &[all_articles()], kept };
        let (store, overlay) = (self.store.clone(), Arc::clone(self.likes.overlay()));
        let make = move || async move {
            // Likes end no listing, and are seen in it: it depends on more than its stamp.
            let listed = store.listed(order, after, limit + 1, &overlay);
            let found = load_with(Vec::new(), listed).await?;
            let cursor = |last: &Listed| {
                let likes = match order {
                    Order::Newest => 0,
                    Order::Likes => i64::try_from(last.article.counts.likes).unwrap_or(i64::MAX),
                };
                write_whole_cursor(name, likes, last.article.id)
            };
            Ok(Some(Page::cut(found, limit, cursor, ArticleItem::from)))
        };
        let page = self.bodies.get(&self.lists, wanted, headers, make).await?;
        // A listing may be empty, but there always is one.
        page.ok_or_else(|| Problem::internal("a listing was absent"))
    }
}
