//! Posts of the seeded users: second-hand goods in towns of Korea.
//!
//! Where: municipalities by their population, each with some of its towns; in a town the first are the
//! busiest. What: an item of its category with a price of its kind, and a few sentences. Every 50th post (whose
//! number can be divided by 50) was removed again, about one in five was sold, one in fifteen is reserved.
//!
//! Who is read how often is not in the rows, but decided here for every script: **the post of rank
//! r (0 = the most popular) of n seeded ones is number `1 + (r * 999999937) mod n`**, and rank r is
//! read with the weight 1/(r + 1) (Zipf's law with exponent 1; Breslau et al., "Web caching and
//! Zipf-like distributions", INFOCOM 1999, found 0.64 to 0.83 before proxies and more on single
//! sites). The factor is a prime above the largest n, so that every number comes once, and
//! neighbours in rank are far apart in number. On an empty store the number is the id.

mod places;
mod words;

use super::batches::Batches;
use super::random::Random;
use super::{Added, Ground, Rows};
use anyhow::Context as _;
use madang_service::accounts::UserId;
use madang_service::app::App;
use madang_service::posts::{CategoryId, NewPost, OfferPlace, PostValues, Status};
use places::PLACES;
use words::{CATEGORIES, Category, Item};

const MOST: i64 = 5_000_000;
/// Rows of one transaction. Each index is touched all over by every batch: four times as many rows dirty
/// hardly more pages, so fewer batches write much less.
const AT_ONCE: usize = 20_000;
/// One post is made so long after the one before.
const STEP_MS: i64 = 1000;
/// Numbers that can be divided by it were removed.
const REMOVED_EVERY: u32 = 50;

/// How many there shall be.
#[derive(clap::Args, Clone, Copy, Debug)]
#[group(skip)]
pub(super) struct Flags {
    /// Number of posts, up to 5000000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST))]
    posts: u32,
}

/// Adds what is missing. What is there counts, removed ones included, not which.
pub(super) async fn fill(ground: &Ground<'_>) -> anyhow::Result<Added> {
    let wanted = ground.wanted.posts.posts;
    if wanted == 0 {
        return Ok(Added::default());
    }
    ground.begin("posts", u64::from(wanted));
    let store = ground.app.posts.store();
    let there = u32::try_from(store.count().await?).unwrap_or(u32::MAX).min(wanted);
    ground.bar.inc(u64::from(there));
    let maker = Maker::new(ground.app, ground.users, ground.wanted)?;
    let write = |rows| {
        let store = store.clone();
        async move { store.create_all(rows).await }
    };
    let mut batches = Batches::new(ground.bar, write).at_once(AT_ONCE);
    for number in there + 1..=wanted {
        batches.push(maker.post(number)).await?;
    }
    Ok(Added { new: batches.finish().await?, old: u64::from(there) })
}

/// Makes posts by their number.
struct Maker<'a> {
    users: &'a [UserId],
    wanted: &'a Rows,
    /// The running sum of the weights with the place, without its town, and the towns.
    places: Vec<(u32, OfferPlace, &'static [&'static str])>,
    categories: Vec<(u32, CategoryId, &'static Category)>,
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
            places.push((sum, OfferPlace { state, city, town: String::new() }, *towns));
        }
        let (mut categories, mut sum) = (Vec::new(), 0);
        for category in CATEGORIES {
            let found = app.posts.categories().iter().find(|c| c.slug == category.slug);
            sum += category.weight;
            let id = found.with_context(|| format!("unknown category {}", category.slug))?.id;
            categories.push((sum, id, category));
        }
        Ok(Self { users, wanted, places, categories })
    }

    /// The post of this number, which begins at 1.
    fn post(&self, number: u32) -> NewPost {
        let mut random = Random::at(self.wanted.seed, "posts", number, 0);
        let place = self.place(&mut random);
        let at = random.below(self.categories.last().map_or(1, |(sum, ..)| *sum));
        let at = self.categories.partition_point(|(sum, ..)| *sum <= at);
        let (_, id, category) = self.categories[at];
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
        let at = random.below(self.places.last().map_or(1, |(sum, ..)| *sum));
        let at = self.places.partition_point(|(sum, ..)| *sum <= at);
        let (_, place, towns) = &self.places[at];
        // The lower of two draws: the first town has about twice its share, the last next to nothing.
        let bound = u32::try_from(towns.len()).unwrap_or(1);
        let town = towns[random.below(bound).min(random.below(bound)) as usize];
        OfferPlace { town: town.to_owned(), ..place.clone() }
    }
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

/// Within the item's range, cheap ones more often, and as round as people make them.
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
