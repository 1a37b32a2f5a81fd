//! `GET /v1/categories`: categories of posts.

use super::Posts;
use super::types::Category;
use crate::http::{Answer, Read};
use crate::response_cache::{Wanted, no_listing};
use madang_cache::Stamp;
use serde::Serialize;

/// All of them: there are few, so there are no pages.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CategoryList {
    /// Categories, in the order in which they are shown.
    items: Vec<Category>,
    /// Always null.
    next_cursor: Option<String>,
}

/// Categories of posts.
#[utoipa::path(get, path = "/v1/categories", tag = "posts", operation_id = "listCategories",
    responses(
        (status = 200, description = "All categories", body = CategoryList),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(Read { app, headers, .. }: Read) -> Answer {
    let Posts { store, responses, category_responses, .. } = &app.posts;
    // Only migrations change them; a future write must invalidate this stamp.
    let stamps = [Stamp::new("post_categories")];
    let wanted = Wanted { key: "", stamps: &stamps, kept: true };
    let store = store.clone();
    let make = move || async move {
        let items = store.categories().await?;
        Ok(Some(CategoryList { items, next_cursor: None }))
    };
    responses.answer(category_responses, wanted, &headers, make, no_listing).await
}
