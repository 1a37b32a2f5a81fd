//! `GET /v1/categories`: what posts are sorted into.

use super::Posts;
use super::represent::CategoryItem;
use crate::app::App;
use crate::http::Problem;
use crate::http::body::respond;
use crate::response_cache::{Wanted, always};
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use madang_cache::{Stamp, Value};
use serde::Serialize;
use std::sync::Arc;

/// All of them: there are few, so there are no pages.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CategoryList {
    /// Categories, in the order in which they are shown.
    items: Vec<CategoryItem>,
    /// Always null.
    next_cursor: Option<String>,
}

/// Categories of posts.
#[utoipa::path(get, path = "/v1/categories", tag = "posts", operation_id = "listCategories",
    responses(
        (status = 200, description = "All categories", body = CategoryList),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let value = app.posts.all_categories(&headers).await?;
    Ok(respond(&value, &headers))
}

impl Posts {
    async fn all_categories(&self, headers: &HeaderMap) -> Result<Value, Problem> {
        // They change with migrations only; whoever will one day write them announces this.
        let stamps = [Stamp::new("post_categories")];
        let wanted = Wanted { key: "", stamps: &stamps, kept: true };
        let store = self.store.clone();
        let make = move || async move {
            let found = store.categories().await?;
            let items = found.into_iter().map(CategoryItem::from).collect();
            Ok(Some(CategoryList { items, next_cursor: None }))
        };
        always(self.responses.get(&self.category_responses, wanted, headers, make).await?)
    }
}
