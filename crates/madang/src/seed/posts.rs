//! Posts of the seeded users: second-hand goods in towns of Korea.
//!
//! Places are municipalities by population, with some of their towns, the first of which is the busiest. A post has
//! an item of its category, a matching price and a few sentences. Every 50th (number divisible by 50) was removed,
//! about one in five is sold, one in fifteen reserved.
//!
//! Rows do not contain popularity; scripts use ranks as in [`zipf`](super::zipf), with exponent 1 (Breslau et al.
//! found 0.64 to 0.83 before proxies and more on single sites). On an empty store the number is the id.

mod places;
mod words;

use super::batches::Batches;
use super::random::Random;
use super::{Added, Context, Rows};
use anyhow::Context as _;
use madang_service::accounts::UserId;
use madang_service::app::App;
use madang_service::posts::{CategoryId, NewPost, OfferPlace, PostValues, Status};
use places::PLACES;
use words::{CATEGORIES, Category, Item};

/// Rows of one transaction. Every batch dirties pages all over each index, four times as many rows hardly more of
/// them, so fewer batches write much less.
const AT_ONCE: usize = 20_000;
/// Time between two posts.
const STEP_MS: i64 = 1000;
/// Posts whose numbers are divisible by this were removed.
const REMOVED_EVERY: u32 = 50;

/// Adds missing posts. Existing ones, including removed, are only counted.
pub(super) async fn fill(context: &Context<'_>) -> anyhow::Result<Added> {
    let wanted = context.wanted.posts;
    if wanted == 0 {
        return Ok(Added::default());
    }
    let store = context.app.posts.store();
    let existing = context.begin("posts", wanted, store.count()).await?;
    let maker = Maker::new(context.app, context.users, context.wanted)?;
    let write = |rows| {
        let store = store.clone();
        async move { store.create_all(rows).await }
    };
    let mut batches = Batches::new(context.bar, write).at_once(AT_ONCE);
    for number in existing + 1..=wanted {
        batches.push(maker.post(number)).await?;
    }
    Ok(Added { new: batches.finish().await?, old: u64::from(existing) })
}

/// Makes posts by their number.
struct Maker<'a> {
    users: &'a [UserId],
    wanted: &'a Rows,
    /// Running sum of the weights; place without town, and its towns.
    places: Vec<(u32, (OfferPlace, &'static [&'static str]))>,
    /// Running sum of the weights; category.
    categories: Vec<(u32, (CategoryId, &'static Category))>,
}

impl<'a> Maker<'a> {
    fn new(app: &App, users: &'a [UserId], wanted: &'a Rows) -> anyhow::Result<Self> {
        let regions = app.accounts.regions();
        let (mut places, mut sum) = (Vec::new(), 0);
        for (state, city, weight, towns) in PLACES {
            let state =
                regions.find_province(state).with_context(|| format!("unknown region {state}"))?;
            let city =
                regions.find_municipality(city, Some(state)).with_context(|| city.to_owned())?;
            sum += weight;
            places.push((sum, (OfferPlace { state, city, town: String::new() }, *towns)));
        }
        let (mut categories, mut sum) = (Vec::new(), 0);
        for category in CATEGORIES {
            let found = app.posts.categories().iter().find(|c| c.slug == category.slug);
            sum += category.weight;
            let id = found.with_context(|| format!("unknown category {}", category.slug))?.id;
            categories.push((sum, (id, category)));
        }
        Ok(Self { users, wanted, places, categories })
    }

    /// The post of a number, from 1.
    fn post(&self, number: u32) -> NewPost {
        let mut random = Random::at(self.wanted.seed, "posts", number, 0);
        let place = self.place(&mut random);
        let (id, category) = *weighted(&mut random, &self.categories);
        let item = random.one_of(category.items);
        let values = PostValues {
            title: title(&mut random, item, &place.town),
            content: content(&mut random, category, item, &place.town),
            item_name: item.0.to_owned(),
            price: price(&mut random, item),
            stock: if random.below(20) == 0 { i64::from(2 + random.below(9)) } else { 1 },
            category: id,
            place,
            status: match random.below(100) {
                0..20 => Status::Sold,
                20..27 => Status::Reserved,
                _ => Status::Selling,
            },
        };
        NewPost {
            author: *random.one_of(self.users),
            values,
            removed: number.is_multiple_of(REMOVED_EVERY),
            created_at_ms: self.wanted.epoch + i64::from(number) * STEP_MS,
        }
    }

    fn place(&self, random: &mut Random) -> OfferPlace {
        let (place, towns) = weighted(random, &self.places);
        // The lower of two draws: the first town has about twice its share, the last next to none.
        let bound = u32::try_from(towns.len()).unwrap_or(1);
        let town = towns[random.below(bound).min(random.below(bound)) as usize];
        OfferPlace { town: town.to_owned(), ..place.clone() }
    }
}

/// Draws by weight; entries have running sums of the weights.
fn weighted<'e, T>(random: &mut Random, entries: &'e [(u32, T)]) -> &'e T {
    let at = random.below(entries.last().map_or(1, |(sum, _)| *sum));
    &entries[entries.partition_point(|(sum, _)| *sum <= at)].1
}

fn title(random: &mut Random, item: &Item, town: &str) -> String {
    let name = item.0;
    let state = random.one_of(&words::STATES);
    match random.below(6) {
        0 => format!("{name} 팝니다"),
        1 => format!("{state} {name}"),
        2 => format!("{name} {} 판매합니다", random.one_of(&words::HINTS)),
        3 => format!("[{town}] {name} {}", random.one_of(&words::HINTS)),
        4 => format!("{name} ({state})"),
        _ => format!("{state} {name} 급처해요"),
    }
}

fn content(random: &mut Random, category: &Category, item: &Item, town: &str) -> String {
    let mut text = format!(
        "{} {}\n{} {}",
        item.0,
        random.one_of(&words::OPENINGS),
        random.one_of(category.sentences),
        random.one_of(&words::REASONS),
    );
    for _ in 0..random.below(3) {
        text.push('\n');
        text.push_str(random.one_of::<&str>(&words::DETAILS));
    }
    text += &format!("\n{town} {}", random.one_of(&words::MEETINGS));
    text += &format!("\n{}", random.one_of(&words::CLOSINGS));
    text
}

/// A rounded price in the item's range, more often a low one.
fn price(random: &mut Random, item: &Item) -> i64 {
    let (_, low, high) = item;
    if random.below(50) == 0 {
        return 0;
    }
    let width = high - low + 1;
    let thousands = low + random.below(width).min(random.below(width));
    let step = match thousands {
        0..20 => 1,
        20..200 => 5,
        _ => 10,
    };
    i64::from(thousands.div_ceil(step) * step) * 1000
}
