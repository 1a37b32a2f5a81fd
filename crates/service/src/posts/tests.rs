//! Posts with a real store and cache, against a model that scans and sorts all posts.

mod search;

use super::*;
use crate::app::App;
use crate::config::{Origin, Sources};
use crate::http::Refusal;
use crate::http::page::MAX_LIMIT;
use crate::idempotency::Once;
use crate::store::ChangeError;
use http::HeaderMap;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

struct Bench {
    app: App,
    _dir: tempfile::TempDir,
}

impl Bench {
    /// A store with two users, 1 and 2, and these settings.
    async fn new(settings: &[(&str, &str)]) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let mut sources = Sources::of_test();
        let flag = || Origin::Flag("--set".to_owned());
        sources.set("data.dir", dir.path().to_str().unwrap(), flag()).unwrap();
        for (key, value) in settings {
            sources.set(key, value, flag()).unwrap();
        }
        let bench = Bench { app: App::open(&sources.resolve().unwrap()).unwrap(), _dir: dir };
        bench.app.store.add_users(1..=2).await;
        bench
    }

    async fn add(&self, values: PostValues) -> PostId {
        let new = NewPost { author: 1, values, removed: false, created_at_ms: 0 };
        self.app.posts.store().create(new, Once::default()).await.unwrap().outcome
    }

    /// The ids of all pages of a listing.
    async fn listed(&self, query: &str, limit: usize) -> Vec<PostId> {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.page(&format!("{query}&limit={limit}{cursor}")).await;
            let items = page["items"].as_array().unwrap();
            ids.extend(items.iter().map(|item| item["id"].as_i64().unwrap()));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ids,
            }
        }
    }

    async fn page(&self, query: &str) -> Value {
        let Bench { app, .. } = self;
        let page = app.posts.listing(&app.accounts, query, &HeaderMap::new()).await.unwrap();
        let text = axum::body::to_bytes(page.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    async fn loads(&self) -> u64 {
        let all = self.app.cache.metrics();
        all.iter().find(|(name, _)| &**name == "post_lists").unwrap().1.loads
    }
}

const PLACES: [(i64, i64, &str); 5] = [
    (11, 11010, "혜화동"),
    (11, 11140, "망원동"),
    (31, 31020, "정자동"),
    (31, 31023, "정자동"),
    (31, 31023, "서현동"),
];

fn values(place: usize, category: CategoryId, price: i64) -> PostValues {
    let (state, city, town) = PLACES[place];
    PostValues {
        title: "자전거".to_owned(),
        content: "잘 달려요".to_owned(),
        item_name: "자전거".to_owned(),
        price,
        stock: 1,
        category,
        place: OfferPlace { state, city, town: town.to_owned() },
        status: Status::Selling,
    }
}

/// The places of an area.
type InArea = fn(&OfferPlace) -> bool;

const AREAS: [(&str, InArea); 8] = [
    ("", |_| true),
    ("state=서울", |p| p.state == 11),
    ("state=경기도", |p| p.state == 31),
    ("city=마포구", |p| p.city == 11140),
    ("state=경기&city=성남시", |p| p.city / 10 == 3102),
    ("city=분당구", |p| p.city == 31023),
    ("city=성남시&town=정자동", |p| p.city / 10 == 3102 && p.town == "정자동"),
    ("city=분당구&town=정자동", |p| p.city == 31023 && p.town == "정자동"),
];

const CATEGORIES: [(&str, Option<CategoryId>); 3] =
    [("", None), ("&category=digital", Some(1)), ("&category=books", Some(9))];

/// A listing by a scan of all posts.
fn expected(
    model: &BTreeMap<PostId, PostValues>,
    within: InArea,
    category: Option<CategoryId>,
    order: Order,
) -> Vec<PostId> {
    let mut found: Vec<_> = model
        .iter()
        .filter(|(_, v)| within(&v.place) && category.is_none_or(|c| c == v.category))
        .map(|(id, v)| (if order == Order::Newest { 0 } else { v.price }, *id))
        .collect();
    found.sort_unstable();
    if order != Order::Cheapest {
        found.reverse();
    }
    found.into_iter().map(|(_, id)| id).collect()
}

impl Changes {
    fn to_place(place: OfferPlace) -> Self {
        Changes { place: Some(place), ..Changes::default() }
    }

    fn to_price(price: i64) -> Self {
        Changes { price: Some(price), ..Changes::default() }
    }

    fn to_content(content: String) -> Self {
        Changes { content: Some(content), ..Changes::default() }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, CategoryId, i64),
    Move(usize, usize),
    Reprice(usize, i64),
    Rewrite(usize),
    Remove(usize),
    Foreign(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let category = prop_oneof![Just(1), Just(9), Just(12)];
    prop_oneof![
        5 => (0..PLACES.len(), category, 0..4i64).prop_map(|(p, c, w)| Step::Add(p, c, w * 1000)),
        1 => (any::<usize>(), 0..PLACES.len()).prop_map(|(n, p)| Step::Move(n, p)),
        1 => (any::<usize>(), 0..4i64).prop_map(|(n, w)| Step::Reprice(n, w * 1000)),
        1 => any::<usize>().prop_map(Step::Rewrite),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::Foreign),
    ]
}

async fn take(bench: &Bench, model: &mut BTreeMap<PostId, PostValues>, step: Step) {
    let posts = bench.app.posts.store();
    let nth = |n: usize| model.keys().nth(n % model.len().max(1)).copied();
    match step {
        Step::Add(place, category, price) => {
            let new = values(place, category, price);
            model.insert(bench.add(new.clone()).await, new);
        }
        Step::Move(n, place) => {
            let Some(id) = nth(n) else { return };
            let to = values(place, 1, 0).place;
            posts.change(id, 1, Changes::to_place(to.clone())).await.unwrap().unwrap();
            model.get_mut(&id).unwrap().place = to;
        }
        Step::Reprice(n, price) => {
            let Some(id) = nth(n) else { return };
            let changed = posts.change(id, 1, Changes::to_price(price)).await.unwrap();
            assert!(matches!(changed, Ok(post) if post.values.price == price));
            model.get_mut(&id).unwrap().price = price;
        }
        Step::Rewrite(n) => {
            let Some(id) = nth(n) else { return };
            let content = "다시 씁니다".to_owned();
            posts.change(id, 1, Changes::to_content(content.clone())).await.unwrap().unwrap();
            model.get_mut(&id).unwrap().content = content;
        }
        Step::Remove(n) => {
            let Some(id) = nth(n) else { return };
            assert_eq!(posts.remove(id, 1).await.unwrap(), Ok(()));
            assert_eq!(posts.remove(id, 1).await.unwrap(), Err(Refusal::Absent));
            model.remove(&id);
        }
        Step::Foreign(n) => {
            let Some(id) = nth(n) else { return };
            assert_eq!(posts.remove(id, 2).await.unwrap(), Err(Refusal::NotOwner));
            let changed = posts.change(id, 2, Changes::to_price(9)).await.unwrap();
            assert_eq!(changed, Err(Refusal::NotOwner));
        }
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn every_listing_is_right(settings: &[(&str, &str)], steps: Vec<Step>) {
    block_on(async {
        let bench = Bench::new(settings).await;
        let mut model = BTreeMap::new();
        for (n, one) in steps.into_iter().enumerate() {
            take(&bench, &mut model, one).await;
            // The same listings after each step: the step had to invalidate their cached pages.
            for at in [0, 1, 4, 6] {
                for (slug, category) in &CATEGORIES[..2] {
                    let (area, within) = AREAS[at];
                    let query = format!("{area}{slug}&sort=price");
                    let wanted = expected(&model, within, *category, Order::Cheapest);
                    assert_eq!(bench.listed(&query, MAX_LIMIT).await, wanted, "{query}");
                }
            }
            // And one after another in pages.
            let (area, within) = AREAS[n % AREAS.len()];
            let (slug, category) = CATEGORIES[n % CATEGORIES.len()];
            for (word, order) in Order::WORDS {
                let query = format!("{area}{slug}&sort={word}");
                let wanted = expected(&model, within, category, order);
                assert_eq!(bench.listed(&query, 3).await, wanted, "{query}");
            }
        }
        for (area, within) in AREAS {
            for (slug, category) in CATEGORIES {
                for (word, order) in Order::WORDS {
                    let query = format!("{area}{slug}&sort={word}");
                    let wanted = expected(&model, within, category, order);
                    assert_eq!(bench.listed(&query, 2).await, wanted, "{query}");
                    assert_eq!(bench.listed(&query, MAX_LIMIT).await, wanted, "{query}");
                }
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_listing_shows_what_there_is_after_every_write(steps in prop::collection::vec(step(), 1..40)) {
        every_listing_is_right(&[], steps.clone());
        every_listing_is_right(&[("cache.first_pages_only", "on")], steps.clone());
        every_listing_is_right(&[("cache.mode", "off")], steps);
    }
}

#[tokio::test]
async fn a_write_ends_the_listings_of_its_areas_and_category_and_no_others() {
    const WITHIN: [&str; 6] = [
        "",
        "state=서울",
        "city=종로구",
        "city=종로구&town=혜화동",
        "category=digital",
        "state=서울&category=digital",
    ];
    const OTHERS: [&str; 4] =
        ["state=경기", "city=마포구", "category=books", "city=종로구&town=명륜동"];
    let bench = Bench::new(&[]).await;
    let loaded = async |queries: &[&str]| {
        let before = bench.loads().await;
        for query in queries {
            bench.page(query).await;
        }
        bench.loads().await - before
    };
    bench.add(values(0, 1, 1000)).await;
    // A page is cached at its second request.
    assert_eq!((loaded(&WITHIN).await, loaded(&OTHERS).await), (6, 4));
    assert_eq!((loaded(&WITHIN).await, loaded(&OTHERS).await), (6, 4));
    assert_eq!((loaded(&WITHIN).await, loaded(&OTHERS).await), (0, 0), "all of them are kept");
    let id = bench.add(values(0, 1, 2000)).await;
    assert_eq!(loaded(&WITHIN).await, 6);
    let posts = bench.app.posts.store();
    posts.change(id, 1, Changes::to_content("x".to_owned())).await.unwrap().unwrap();
    posts.change(id, 1, Changes::to_price(2000)).await.unwrap().unwrap();
    posts.remove(id, 2).await.unwrap().unwrap_err();
    assert_eq!(loaded(&WITHIN).await, 0, "what no listing shows ends none");
    posts.change(id, 1, Changes::to_price(2001)).await.unwrap().unwrap();
    assert_eq!(loaded(&WITHIN).await, 6);
    posts.remove(id, 1).await.unwrap().unwrap();
    assert_eq!(loaded(&WITHIN).await, 6);
    // Two stamps may share a slot, once in thousands of runs: then one listing of another area is invalidated too.
    assert!(loaded(&OTHERS).await <= 1);
}

#[tokio::test]
async fn pages_have_no_gaps_and_no_repeats_while_posts_are_added() {
    let bench = Bench::new(&[]).await;
    let mut there = Vec::new();
    for n in 0..30 {
        there.push(bench.add(values(0, 1 + n % 12, n % 3)).await);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = bench.page(&format!("sort=price&limit=7{cursor}")).await;
        seen.extend(page["items"].as_array().unwrap().iter().map(|i| i["id"].as_i64().unwrap()));
        // One before the position and one after it.
        bench.add(values(0, 1, 0)).await;
        bench.add(values(0, 2, 100)).await;
        match page["nextCursor"].as_str() {
            Some(next) if seen.len() < 60 => cursor = format!("&cursor={next}"),
            _ => break,
        }
    }
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "no repeats");
    assert!(there.iter().all(|id| seen.contains(id)), "no gaps");
}

#[tokio::test]
async fn a_search_that_began_before_a_write_is_not_kept() {
    let bench = Bench::new(&[]).await;
    let first = bench.add(values(0, 1, 1000)).await;
    // The removal runs during the read; either may end first.
    for _ in 0..20 {
        let id = bench.add(values(0, 1, 2000)).await;
        let (page, removed) =
            tokio::join!(bench.page("city=종로구"), bench.app.posts.store().remove(id, 1));
        assert_eq!(removed.unwrap(), Ok(()));
        assert!(!page["items"].as_array().unwrap().is_empty());
        assert_eq!(bench.listed("city=종로구", 20).await, [first]);
    }
}

#[tokio::test]
async fn of_a_deleted_account_the_posts_stay_without_their_author() {
    let bench = Bench::new(&[]).await;
    let id = bench.add(values(0, 1, 1000)).await;
    bench.app.store.execute("DELETE FROM users WHERE id = 1").await;
    let found = bench.app.posts.store().find(id).await.unwrap().unwrap();
    assert_eq!(found.author, None);
    assert_eq!(bench.listed("", 20).await, [id]);
    let removed = bench.app.posts.store().remove(id, 1).await;
    assert!(matches!(removed, Err(ChangeError::UnknownUser)), "{removed:?}");
    assert_eq!(bench.app.posts.store().remove(id, 2).await.unwrap(), Err(Refusal::NotOwner));
    let new = NewPost { author: 1, values: values(0, 1, 1), removed: false, created_at_ms: 0 };
    let added = bench.app.posts.store().create(new, Once::default()).await;
    assert!(matches!(added, Err(ChangeError::UnknownUser)), "{added:?}");
}

#[tokio::test]
async fn the_newest_of_all_are_found_behind_many_that_were_removed() {
    let bench = Bench::new(&[]).await;
    let mut there = Vec::new();
    for n in 0..40 {
        let id = bench.add(values(0, 1 + n % 12, 0)).await;
        // Three at each end, and more removed between them than a page of three looks at.
        if (3..37).contains(&n) {
            bench.app.posts.store().remove(id, 1).await.unwrap().unwrap();
        } else {
            there.insert(0, id);
        }
    }
    for limit in 1..8 {
        assert_eq!(bench.listed("", limit).await, there, "{limit}");
    }
}
