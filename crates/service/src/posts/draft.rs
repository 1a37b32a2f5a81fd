//! Bodies of posts, checked.

use super::types::{Category, CategoryId, NewPost, OfferPlace, PostValues, Status};
use crate::accounts::{LONGEST_REGION, RegionError, RegionId, Regions, UserId};
use crate::http::json::table::{Asked, Choice, Line, Lines, Whole, optional, required, table};
use crate::http::rfc3339::now_ms;
use crate::http::{FieldError, JsonObject, Problem};
use crate::markets::folded;

/// Most characters of the name of a town.
pub(crate) const LONGEST_TOWN: usize = 40;
/// Highest price in won; below 2^53, so it is exact in every client.
const HIGHEST_PRICE: i64 = 1_000_000_000_000;

/// Resolves names of regions and categories.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) regions: &'a Regions,
    pub(crate) categories: &'a [Category],
}

impl Names<'_> {
    /// The category called `text`: its slug, or its name in Korean or English, in any case and width of letters.
    pub(super) fn category(&self, text: &str) -> Result<CategoryId, FieldError> {
        let slug = |category: &&Category| category.slug == text;
        let named = |text: String| {
            let mut all = self.categories.iter();
            all.find(|c| [&c.slug, &c.name, &c.name_english].iter().any(|n| folded(n) == text))
        };
        let found = self.categories.iter().find(slug).or_else(|| named(folded(text)));
        found.map(|category| category.id).ok_or_else(|| {
            let slugs: Vec<_> = self.categories.iter().map(|c| c.slug.as_str()).collect();
            let accepted = format!("one of {}, or its name in Korean or English", slugs.join(", "));
            FieldError::new("category", accepted)
        })
    }
}

table! {
    /// Contents of a post. In a change, members that are missing or null stay unchanged.
    pub(super) struct Fields: NewPostBody (All), PostChangesBody (Part);
    /// Title, on one line.
    title: Line = required("title", Line(1..=100), "로드 자전거 팝니다");
    /// Description, on any number of lines.
    content: Lines = required("content", Lines(1..=10_000), "3년 탔습니다.\n망원역에서 직거래해요.");
    /// Name of the item, on one line.
    item_name: Line = required("itemName", Line(1..=100), "로드 자전거");
    /// Price in won.
    price: Whole = required("price", Whole(0..=HIGHEST_PRICE), 180_000);
    /// Number of items.
    stock: Whole = required("stock", Whole(0..=1_000_000), 1);
    /// One of `GET /v1/categories`: its `slug`, or its name in Korean or English.
    category: Line = required("category", Line(1..=40), "sports");
    /// Province, in Korean or English; in a change with `city` and `town`.
    state: Line = required("state", Line(1..=LONGEST_REGION), "서울특별시");
    /// A municipality of it, or a district of one, in Korean or English; in a change with `state` and `town`.
    city: Line = required("city", Line(1..=LONGEST_REGION), "마포구");
    /// 읍, 면 or 동; alone in a change it is one of the same city.
    town: Line = required("town", Line(1..=LONGEST_TOWN), "망원동");
    /// State of the sale; `selling` for a new post without it.
    status: Choice<Status> = optional("status", Choice(&Status::WORDS), "selling");
}

/// Reads a post of this user, made now.
pub(crate) fn post(
    mut body: JsonObject,
    names: Names<'_>,
    author: UserId,
) -> Result<NewPost, Problem> {
    let fields = Fields::read(&mut body, Asked::All);
    let Fields { title, content, item_name, price, stock, state, city, town, status, .. } = fields;
    let category = category(&mut body, fields.category, names);
    let place = place(&mut body, (state, city, town), names);
    let fields = (title, content, item_name, price, stock, category, place);
    let (title, content, item_name, price, stock, category, place) = body.finish(fields)?;
    // The body has noted an invalid status already.
    let status = status.unwrap_or(Status::Selling);
    let values = PostValues { title, content, item_name, price, stock, category, place, status };
    Ok(NewPost { author, values, removed: false, created_at_ms: now_ms() })
}

/// Changes of a post; `None` fields stay as they are.
#[derive(Clone, Default)]
pub struct Changes {
    pub(super) title: Option<String>,
    pub(super) content: Option<String>,
    pub(super) item_name: Option<String>,
    pub(super) price: Option<i64>,
    pub(super) stock: Option<i64>,
    pub(super) category: Option<CategoryId>,
    pub(super) place: Option<OfferPlace>,
    /// Another town of the same city.
    pub(super) town: Option<String>,
    pub(super) status: Option<Status>,
}

impl Changes {
    pub(crate) fn read(mut body: JsonObject, names: Names<'_>) -> Result<Changes, Problem> {
        let fields = Fields::read(&mut body, Asked::Part);
        let Fields { title, content, item_name, price, stock, status, state, city, town, .. } =
            fields;
        let moves = body.has("state") || body.has("city");
        for name in ["state", "city", "town"] {
            if moves && !body.has(name) {
                body.refuse(name, "required: state, city and town name a place together");
            }
        }
        let category = category(&mut body, fields.category, names);
        let (place, town) = match moves {
            true => (place(&mut body, (state, city, town), names), None),
            false => (None, town.as_deref().map(trimmed)),
        };
        let changes =
            Changes { title, content, item_name, price, stock, category, place, town, status };
        body.finish(())?;
        Ok(changes)
    }

    pub(super) fn apply(&self, to: &mut PostValues) {
        fn set<T: Clone>(to: &mut T, new: Option<&T>) {
            if let Some(new) = new {
                to.clone_from(new);
            }
        }
        set(&mut to.title, self.title.as_ref());
        set(&mut to.content, self.content.as_ref());
        set(&mut to.item_name, self.item_name.as_ref());
        set(&mut to.price, self.price.as_ref());
        set(&mut to.stock, self.stock.as_ref());
        set(&mut to.category, self.category.as_ref());
        set(&mut to.place, self.place.as_ref());
        set(&mut to.place.town, self.town.as_ref());
        set(&mut to.status, self.status.as_ref());
    }
}

fn category(body: &mut JsonObject, text: Option<String>, names: Names<'_>) -> Option<CategoryId> {
    text.and_then(|text| noted(body, names.category(&text)))
}

fn place(
    body: &mut JsonObject,
    (state, city, town): (Option<String>, Option<String>, Option<String>),
    names: Names<'_>,
) -> Option<OfferPlace> {
    let state = state.and_then(|text| noted(body, find_state(names.regions, &text)));
    let city = city?;
    let state = state?;
    let city = noted(body, find_city(names.regions, &city, Some(state)))?;
    Some(OfferPlace { state, city, town: trimmed(&town?) })
}

fn trimmed(town: &str) -> String {
    town.trim().to_owned()
}

/// Notes the error of a field in the body.
fn noted<T>(body: &mut JsonObject, found: Result<T, FieldError>) -> Option<T> {
    found.map_err(|error| body.refuse(error.field, error.detail)).ok()
}

/// The province called `text`.
pub(super) fn find_state(regions: &Regions, text: &str) -> Result<RegionId, FieldError> {
    let accepted = "a Korean province, such as 서울특별시, 강원도 or Seoul";
    regions.find_province(text).map_err(|_| FieldError::new("state", accepted))
}

/// The municipality called `text`, in this province if given.
pub(super) fn find_city(
    regions: &Regions,
    text: &str,
    state: Option<RegionId>,
) -> Result<RegionId, FieldError> {
    regions.find_municipality(text, state).map_err(|error| {
        let within = state.and_then(|id| regions.row(id));
        let accepted = match (&error, within) {
            (RegionError::Unknown, Some(state)) => format!("a municipality of {}", state.name),
            (RegionError::Unknown, None) => {
                "a Korean municipality, such as 종로구, 경기도 광주시 or Jongno-gu".to_owned()
            }
            (RegionError::Ambiguous(_), _) => error.to_string(),
        };
        FieldError::new("city", accepted)
    })
}
