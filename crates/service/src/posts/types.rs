//! What posts are to the rest of the program.

use crate::accounts::{RegionId, UserId};
use serde::Serialize;

/// Identifier of a post, never reused. The newest post has the highest.
pub type PostId = i64;

/// Identifier of a category. They come with the migrations.
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

/// How far the sale is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// To be had.
    Selling,
    /// Promised to somebody.
    Reserved,
    /// Gone to somebody.
    Sold,
}

impl Status {
    /// All of them with their words, by the numbers under which they are stored.
    pub const WORDS: [(&'static str, Status); 3] =
        [("selling", Status::Selling), ("reserved", Status::Reserved), ("sold", Status::Sold)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// Where something is offered. Values have been checked: the city lies in the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferPlace {
    /// The province.
    pub state: RegionId,
    /// The municipality, or a district of a large one.
    pub city: RegionId,
    /// The 읍, 면 or 동: 1 to 40 characters in normal form C.
    pub town: String,
}

/// All that an owner can say of a post. Values have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostValues {
    /// 1 to 100 characters on one line.
    pub title: String,
    /// 1 to 10,000 characters.
    pub content: String,
    /// What is sold: 1 to 100 characters on one line.
    pub item_name: String,
    /// Price in won.
    pub price: i64,
    /// How many there are.
    pub stock: i64,
    /// One of the migrations' own.
    pub category: CategoryId,
    /// State, city and town of the offer.
    pub place: OfferPlace,
    /// How far the sale is.
    pub status: Status,
}

impl PostValues {
    /// What is searched of it.
    pub(super) fn texts(&self) -> [&str; 3] {
        [&self.title, &self.item_name, &self.content]
    }
}

/// A post to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPost {
    /// Whose it is.
    pub author: UserId,
    /// What they say.
    pub values: PostValues,
    /// Whether it is gone again already; only a store that is filled has such posts.
    pub removed: bool,
    /// When it was made, UTC, in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// A stored post that was not removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Identifier.
    pub id: PostId,
    /// Nickname of its owner; nobody's once the account is gone.
    pub author: Option<String>,
    /// What the owner says.
    pub values: PostValues,
    /// When it was made, UTC, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it was last changed, likewise.
    pub updated_at_ms: i64,
}

/// A post as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostSummary {
    /// Identifier.
    pub id: PostId,
    /// 1 to 100 characters on one line.
    pub title: String,
    /// What is sold.
    pub item_name: String,
    /// Price in won.
    pub price: i64,
    /// How many there are.
    pub stock: i64,
    /// One of the migrations' own.
    pub category: CategoryId,
    /// State, city and town of the offer.
    pub place: OfferPlace,
    /// How far the sale is.
    pub status: Status,
    /// When it was made, UTC, in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// In which order posts are listed. Those of one price follow each other by id, in the same direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Newest first.
    Newest,
    /// Cheapest first.
    Cheapest,
    /// Dearest first.
    Dearest,
}

impl Order {
    /// All of them with their words, in order.
    pub const WORDS: [(&'static str, Order); 3] =
        [("newest", Order::Newest), ("price", Order::Cheapest), ("-price", Order::Dearest)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}
