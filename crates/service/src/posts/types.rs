//! Types of posts.

use crate::accounts::{RegionId, UserId};
use crate::search::Position;
use serde::Serialize;

/// Identifier of a post, never reused. The newest post has the highest.
pub type PostId = i64;

/// Identifier of a category. Migrations define the categories.
pub type CategoryId = i64;

/// A category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = CategoryItem)]
#[serde(rename_all = "camelCase")]
pub struct Category {
    /// Identifier.
    #[schema(value_type = i64)]
    pub id: CategoryId,
    /// Its name in addresses and bodies.
    pub slug: String,
    /// Name in Korean.
    pub name: String,
    /// Name in English.
    pub name_english: String,
}

/// State of the sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Available.
    Selling,
    /// Promised to a buyer.
    Reserved,
    /// Sold.
    Sold,
}

impl Status {
    /// All states with their words, by the numbers in the store.
    pub const WORDS: [(&'static str, Status); 3] =
        [("selling", Status::Selling), ("reserved", Status::Reserved), ("sold", Status::Sold)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// The place of an offer. Values are valid: the city is in the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferPlace {
    /// The province.
    pub state: RegionId,
    /// The municipality, or a district of a large one.
    pub city: RegionId,
    /// The 읍, 면 or 동: 1 to 40 characters in normal form C.
    pub town: String,
}

/// The data of a post that its owner sets. Values are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostValues {
    /// 1 to 100 characters on one line.
    pub title: String,
    /// 1 to 10,000 characters.
    pub content: String,
    /// The item sold: 1 to 100 characters on one line.
    pub item_name: String,
    /// Price in won.
    pub price: i64,
    /// Number of items.
    pub stock: i64,
    /// One of the categories.
    pub category: CategoryId,
    /// State, city and town of the offer.
    pub place: OfferPlace,
    /// State of the sale.
    pub status: Status,
}

impl PostValues {
    /// The searched texts.
    pub(super) fn texts(&self) -> [&str; 3] {
        [&self.title, &self.item_name, &self.content]
    }
}

/// A post to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPost {
    /// The owner.
    pub author: UserId,
    /// The owner's data.
    pub values: PostValues,
    /// Removed from the beginning; only for filling a store.
    pub removed: bool,
    /// Time of creation, in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// A stored post that was not removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    pub(super) id: PostId,
    /// Nickname of its owner; `None` once the account is deleted.
    pub(super) author: Option<String>,
    pub(super) values: PostValues,
    /// Milliseconds since 1970.
    pub(super) created_at_ms: i64,
    /// Milliseconds since 1970.
    pub(super) updated_at_ms: i64,
}

/// A post of a list.
pub(super) struct PostSummary {
    pub(super) id: PostId,
    /// With an empty content.
    pub(super) values: PostValues,
    /// Milliseconds since 1970.
    pub(super) created_at_ms: i64,
}

impl PostSummary {
    /// Its position in a listing.
    pub(super) fn position(&self, order: Order) -> Position {
        (if order == Order::Newest { 0 } else { self.values.price }, self.id)
    }
}

/// Order of a listing. Posts of one price are ordered by id, in the same direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Newest,
    Cheapest,
    /// Most expensive first.
    Dearest,
}

impl Order {
    /// All orders with their words.
    pub(crate) const WORDS: [(&'static str, Order); 3] =
        [("newest", Order::Newest), ("price", Order::Cheapest), ("-price", Order::Dearest)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}
