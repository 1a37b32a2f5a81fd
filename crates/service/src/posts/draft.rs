//! Bodies of posts, checked.

use super::types::{Category, CategoryId, NewPost, Place, PostValues, Status};
use crate::accounts::{RegionError, RegionId, Regions, UserId};
use crate::http::problem::FieldError;
use crate::http::{JsonObject, Problem};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most characters of a title, and of the name of an item.
pub const LONGEST_TITLE: usize = 100;
/// Most characters of what is said about it.
pub const LONGEST_CONTENT: usize = 10_000;
/// Most characters of the name of a town.
pub const LONGEST_TOWN: usize = 40;
/// Highest price, in won: 2^53 is far away, so it is exact in every client.
pub const HIGHEST_PRICE: i64 = 1_000_000_000_000;
/// Most pieces of one post.
pub const LARGEST_STOCK: i64 = 1_000_000;

/// Longest name of a region that is looked at, in characters.
const LONGEST_REGION: usize = crate::accounts::LONGEST_REGION;

/// What names are resolved with.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Provinces and municipalities.
    pub regions: &'a Regions,
    /// Categories.
    pub categories: &'a [Category],
}

/// A new post, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft(PostValues);

impl Draft {
    /// Reads a body.
    ///
    /// # Errors
    /// 422 with every field that is wrong.
    pub fn read(mut body: JsonObject, names: Names<'_>) -> Result<Draft, Problem> {
        let b = &mut body;
        let title = line(b, "title");
        let content = content(b, "content");
        let item_name = line(b, "itemName");
        let price = price(b, "price");
        let stock = stock(b, "stock");
        let category = category(b, "category", names);
        let place = place(b, names);
        let status = if b.has("status") { status(b, "status") } else { Some(Status::Selling) };
        let fields = (title, content, item_name, price, stock, category, place, status);
        let (title, content, item_name, price, stock, category, place, status) =
            body.finish(fields)?;
        let values =
            PostValues { title, content, item_name, price, stock, category, place, status };
        Ok(Draft(values))
    }

    /// The post it becomes for this user, now.
    pub fn of(self, author: UserId) -> NewPost {
        NewPost { author, values: self.0, removed: false, created_at_ms: now_ms() }
    }
}

/// What a post is to be changed to; what is not there stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub(super) title: Option<String>,
    pub(super) content: Option<String>,
    pub(super) item_name: Option<String>,
    pub(super) price: Option<i64>,
    pub(super) stock: Option<i64>,
    pub(super) category: Option<CategoryId>,
    pub(super) place: Option<Place>,
    /// Another town of the same city.
    pub(super) town: Option<String>,
    pub(super) status: Option<Status>,
}

impl Changes {
    /// Reads a body. A field that is missing or null stays as it is.
    ///
    /// # Errors
    /// 422 with every field that is wrong.
    pub fn read(mut body: JsonObject, names: Names<'_>) -> Result<Changes, Problem> {
        let b = &mut body;
        let moves = b.has("state") || b.has("city");
        let changes = Changes {
            title: b.optional("title", line),
            content: b.optional("content", content),
            item_name: b.optional("itemName", line),
            price: b.optional("price", price),
            stock: b.optional("stock", stock),
            category: b.optional("category", |b, name| category(b, name, names)),
            place: if moves { place(b, names) } else { None },
            town: if moves { None } else { b.optional("town", town) },
            status: b.optional("status", status),
        };
        body.finish(())?;
        Ok(changes)
    }

    /// Makes the changes.
    pub(super) fn apply(self, to: &mut PostValues) {
        fn set<T>(to: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *to = new;
            }
        }
        set(&mut to.title, self.title);
        set(&mut to.content, self.content);
        set(&mut to.item_name, self.item_name);
        set(&mut to.price, self.price);
        set(&mut to.stock, self.stock);
        set(&mut to.category, self.category);
        set(&mut to.place, self.place);
        set(&mut to.place.town, self.town);
        set(&mut to.status, self.status);
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn line(body: &mut JsonObject, name: &'static str) -> Option<String> {
    body.text(name, 1..=LONGEST_TITLE)
}

fn content(body: &mut JsonObject, name: &'static str) -> Option<String> {
    body.lines(name, 1..=LONGEST_CONTENT)
}

fn town(body: &mut JsonObject, name: &'static str) -> Option<String> {
    body.text(name, 1..=LONGEST_TOWN).map(|text| text.trim().to_owned())
}

fn price(body: &mut JsonObject, name: &'static str) -> Option<i64> {
    body.whole(name, 0..=HIGHEST_PRICE)
}

fn stock(body: &mut JsonObject, name: &'static str) -> Option<i64> {
    body.whole(name, 0..=LARGEST_STOCK)
}

fn status(body: &mut JsonObject, name: &'static str) -> Option<Status> {
    body.choice(name, &Status::WORDS)
}

fn category(body: &mut JsonObject, name: &'static str, names: Names<'_>) -> Option<CategoryId> {
    let words: Vec<_> = names.categories.iter().map(|c| (c.slug.as_str(), c.id)).collect();
    body.choice(name, &words)
}

/// The three of them belong together: a town is one of its city.
fn place(body: &mut JsonObject, names: Names<'_>) -> Option<Place> {
    let state = body.text("state", 1..=LONGEST_REGION);
    let city = body.text("city", 1..=LONGEST_REGION);
    let town = town(body, "town");
    let state = state.and_then(|text| noted(body, find_state(names.regions, &text)));
    let city = city?;
    let state = state?;
    let city = noted(body, find_city(names.regions, &city, Some(state)))?;
    Some(Place { state, city, town: town? })
}

fn noted<T>(body: &mut JsonObject, found: Result<T, (&'static str, String)>) -> Option<T> {
    found.map_err(|(field, detail)| body.refuse(field, detail)).ok()
}

/// The province of this name; the field and what it accepts when there is none.
fn find_state(regions: &Regions, text: &str) -> Result<RegionId, (&'static str, String)> {
    let wrong = |_| ("state", "a Korean province, such as 서울특별시, 강원도 or Seoul".to_owned());
    regions.find_province(text).map_err(wrong)
}

/// The municipality of this name, in this province if there is one.
fn find_city(
    regions: &Regions,
    text: &str,
    state: Option<RegionId>,
) -> Result<RegionId, (&'static str, String)> {
    regions.find_municipality(text, state).map_err(|error| {
        let within = state.and_then(|id| regions.row(id));
        let detail = match (&error, within) {
            (RegionError::Unknown, Some(state)) => format!("a municipality of {}", state.name),
            (RegionError::Unknown, None) => {
                "a Korean municipality, such as 종로구, 경기도 광주시 or Jongno-gu".to_owned()
            }
            (RegionError::Ambiguous(_), _) => error.to_string(),
        };
        ("city", detail)
    })
}

/// The same names in a query.
pub(super) fn asked_place(
    regions: &Regions,
    state: Option<&str>,
    city: Option<&str>,
) -> Result<(Option<RegionId>, Option<RegionId>), FieldError> {
    let wrong = |(field, detail): (&'static str, String)| FieldError::new(field, detail);
    let state = state.map(|text| find_state(regions, text)).transpose().map_err(wrong)?;
    let city = city.map(|text| find_city(regions, text, state)).transpose().map_err(wrong)?;
    Ok((state, city))
}
