//! Posts as JSON. These bodies are the same for all clients: they contain nothing about the reader, and of the owner
//! only the nickname.

use super::draft::Names;
use super::types::{CategoryId, Post, PostSummary};
use crate::accounts::RegionId;
use crate::http::rfc3339::format_utc;
use serde::Serialize;

/// A post in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostItem {
    /// Identifier.
    id: i64,
    /// Title.
    title: String,
    /// Name of the item.
    item_name: String,
    /// Price in won.
    price: i64,
    /// Number of items.
    stock: i64,
    /// The `slug` of one of `GET /v1/categories`.
    category: String,
    /// Province, in Korean.
    state: String,
    /// Municipality or district, in Korean.
    city: String,
    /// 읍, 면 or 동.
    town: String,
    /// selling, reserved or sold.
    status: &'static str,
    /// Time of creation, RFC 3339, UTC with milliseconds.
    created_at: String,
}

/// A post.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostBody {
    #[serde(flatten)]
    item: PostItem,
    /// Description. Lines end with `\n`.
    content: String,
    /// Nickname of its owner; null once the account is deleted.
    author: Option<String>,
    /// Time of the last change, RFC 3339, UTC with milliseconds.
    updated_at: String,
}

impl PostItem {
    pub(super) fn new(post: PostSummary, names: Names<'_>) -> Self {
        let values = post.values;
        Self {
            id: post.id,
            title: values.title,
            item_name: values.item_name,
            price: values.price,
            stock: values.stock,
            category: slug(values.category, names),
            state: region(values.place.state, names),
            city: region(values.place.city, names),
            town: values.place.town,
            status: values.status.as_str(),
            created_at: format_utc(post.created_at_ms),
        }
    }
}

impl PostBody {
    pub(super) fn new(post: Post, names: Names<'_>) -> Self {
        let Post { id, author, mut values, created_at_ms, updated_at_ms } = post;
        let content = std::mem::take(&mut values.content);
        let item = PostItem::new(PostSummary { id, values, created_at_ms }, names);
        Self { item, content, author, updated_at: format_utc(updated_at_ms) }
    }
}

/// A foreign key guarantees that the category exists.
fn slug(id: CategoryId, names: Names<'_>) -> String {
    let category = names.categories.iter().find(|category| category.id == id);
    category.map(|category| category.slug.clone()).unwrap_or_default()
}

fn region(id: RegionId, names: Names<'_>) -> String {
    names.regions.row(id).map(|row| row.name.clone()).unwrap_or_default()
}
