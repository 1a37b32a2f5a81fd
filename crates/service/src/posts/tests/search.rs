//! Searches in posts against a model that scans every text.

use super::*;
use crate::http::Problem;
use crate::search::index_now;
use unicode_normalization::UnicodeNormalization as _;

impl Bench {
    async fn found(&self, q: &str, rest: &str, limit: usize) -> Vec<PostId> {
        let q: String = form_urlencoded::byte_serialize(q.as_bytes()).collect();
        self.listed(&format!("q={q}&{rest}"), limit).await
    }

    async fn add_text(&self, title: &str, content: &str) -> PostId {
        let text = (title.to_owned(), content.to_owned());
        let item_name = "물건".to_owned();
        self.add(PostValues { title: text.0, content: text.1, item_name, ..values(0, 1, 1000) })
            .await
    }

    async fn refused(&self, query: &str) -> Problem {
        self.app.posts.listing(&self.app.accounts, query, &HeaderMap::new()).await.unwrap_err()
    }
}

#[tokio::test]
async fn words_are_found_however_they_are_typed_and_before_they_are_indexed() {
    let bench = Bench::new(&[]).await;
    let bicycle = bench.add_text("로드 자전거 팝니다", "Trek FX3\n망원역에서 직거래해요").await;
    let book = bench.add_text("책장과 책 (새것)", "ＩＫＥＡ 빌리").await;
    let composed = "한강 café";
    let river = bench.add_text(&composed.nfd().collect::<String>(), "산책").await;
    for indexed in [false, true] {
        if indexed {
            index_now(&bench.app.store).await;
        }
        for (q, wanted) in [
            ("자전거", vec![bicycle]),
            ("전거", vec![bicycle]),
            ("trek fx3", vec![bicycle]),
            ("FX3 직거래", vec![bicycle]),
            ("x3", vec![bicycle]),
            ("자거", vec![]),
            ("거팝", vec![]),
            ("ikea", vec![book]),
            ("책", vec![book]),
            ("새", vec![book]),
            ("강", vec![]),
            ("산책", vec![river]),
            ("CAFÉ", vec![river]),
            ("한강", vec![river]),
            ("없는말", vec![]),
            (" ", vec![river, book, bicycle]),
        ] {
            assert_eq!(bench.found(q, "", 20).await, wanted, "{q}, indexed: {indexed}");
            let apart: String = q.nfd().collect();
            assert_eq!(bench.found(&apart, "", 20).await, wanted, "{q} decomposed");
        }
    }
    // All posts have this item: more than are sorted by themselves, on short pages.
    for _ in 0..30 {
        bench.add_text("x", "y").await;
    }
    index_now(&bench.app.store).await;
    for rest in ["", "sort=price", "sort=-price", "city=종로구", "category=digital&sort=price"] {
        assert_eq!(bench.found("물건", rest, 4).await.len(), 33, "{rest}");
        assert_eq!(bench.found("물건 팝니다", rest, 4).await, [bicycle], "{rest}");
    }
}

#[tokio::test]
async fn a_write_is_in_the_next_search_and_ends_those_that_are_kept() {
    let bench = Bench::new(&[]).await;
    let id = bench.add_text("의자", "나무").await;
    for _ in 0..3 {
        assert_eq!(bench.found("나무", "", 20).await, [id]);
        assert_eq!(bench.found("철제", "", 20).await, [] as [PostId; 0]);
    }
    let before = bench.loads().await;
    assert_eq!(bench.found("나무", "", 20).await, [id]);
    assert_eq!(bench.loads().await, before, "it is kept");
    index_now(&bench.app.store).await;
    // Listings do not show the content, but searches cover it.
    let change = Changes::to_content("철제".to_owned());
    bench.app.posts.store().change(id, 1, change).await.unwrap().unwrap();
    assert_eq!(bench.found("나무", "", 20).await, [] as [PostId; 0]);
    assert_eq!(bench.found("철제", "", 20).await, [id]);
    index_now(&bench.app.store).await;
    assert_eq!(bench.found("나무", "", 20).await, [] as [PostId; 0]);
    assert_eq!(bench.found("철제", "", 20).await, [id]);
    bench.app.posts.store().remove(id, 1).await.unwrap().unwrap();
    assert_eq!(bench.found("철제", "", 20).await, [] as [PostId; 0]);
}

#[tokio::test]
async fn a_search_that_cannot_be_is_refused_and_a_cursor_belongs_to_its_words() {
    let bench = Bench::new(&[]).await;
    for _ in 0..3 {
        bench.add(values(0, 1, 1)).await;
    }
    let long = "q=".to_owned() + &"a".repeat(101);
    for query in [long.as_str(), "q=a%00b", "q=a&sort=x", "q=a&limit=0"] {
        assert_eq!(bench.refused(query).await.status(), 422, "{query}");
    }
    let page = bench.page("q=자전거&limit=1").await;
    let cursor = page["nextCursor"].as_str().unwrap();
    for query in ["", "q=자전", "q=자전거&sort=price"] {
        let query = format!("{query}&limit=1&cursor={cursor}");
        assert_eq!(bench.refused(&query).await.status(), 422, "{query}");
    }
    // The same words, written in another way.
    bench.page(&format!("q=%20자전거%20자전거&limit=1&cursor={cursor}")).await;
}

#[tokio::test]
async fn a_store_that_was_filled_without_an_index_is_searched_once_it_has_one() {
    let bench = Bench::new(&[]).await;
    let id = bench.add(values(0, 1, 1)).await;
    let rows = ", (0, 1)".repeat(9000);
    let fill = format!("INSERT INTO search_changes (kind, item_id) VALUES (0, 1){rows}");
    bench.app.store.execute(fill).await;
    assert_eq!(bench.refused("q=자전거").await.status(), 503);
    assert_eq!(bench.listed("", 20).await, [id], "listings need no index");
    index_now(&bench.app.store).await;
    // Another search: the failure of the first is cached for its `Retry-After`.
    assert_eq!(bench.found("자전", "", 20).await, [id]);
}

const TEXTS: [&str; 6] = ["가나", "나가", "가나다", "Ab 가", "bA", "다 나 b"];
const SEARCHES: [&str; 7] = ["가나", "나다", "가", "ab", "b", "가나 b", "A 나"];

#[derive(Clone, Debug)]
enum Act {
    Write(Step),
    Retitle(usize, usize),
    Rewrite(usize, usize),
    Index,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => step().prop_map(Act::Write),
        2 => (any::<usize>(), 0..TEXTS.len()).prop_map(|(n, text)| Act::Retitle(n, text)),
        2 => (any::<usize>(), 0..TEXTS.len()).prop_map(|(n, text)| Act::Rewrite(n, text)),
        1 => Just(Act::Index),
    ]
}

/// The definition of a match: the text contains every word of the search; a word of one character must begin a word.
fn has(values: &PostValues, q: &str) -> bool {
    let text = format!("{} {} {}", values.title, values.item_name, values.content).to_lowercase();
    q.to_lowercase().split(' ').all(|word| match word.chars().count() {
        1 => text.split(' ').any(|one| one.starts_with(word)),
        _ => text.contains(word),
    })
}

async fn act_on(bench: &Bench, model: &mut BTreeMap<PostId, PostValues>, act: Act) {
    let nth = |n: usize| model.keys().nth(n % model.len().max(1)).copied();
    let (id, changes) = match act {
        Act::Write(step) => return take(bench, model, step).await,
        Act::Index => return index_now(&bench.app.store).await,
        Act::Retitle(n, text) => {
            let title = Some(TEXTS[text].to_owned());
            (nth(n), Changes { title, ..Changes::default() })
        }
        Act::Rewrite(n, text) => (nth(n), Changes::to_content(TEXTS[text].to_owned())),
    };
    let Some(id) = id else { return };
    changes.apply(model.get_mut(&id).unwrap());
    assert!(matches!(bench.app.posts.store().change(id, 1, changes).await, Ok(Ok(_))));
}

fn every_search_is_right(settings: &[(&str, &str)], acts: Vec<Act>) {
    block_on(async {
        let bench = Bench::new(settings).await;
        let mut model = BTreeMap::new();
        for (n, one) in acts.into_iter().enumerate() {
            act_on(&bench, &mut model, one).await;
            let (area, within) = AREAS[n % AREAS.len()];
            let (slug, category) = CATEGORIES[n % CATEGORIES.len()];
            for (at, q) in SEARCHES.iter().chain(&["자전거", "잘"]).enumerate() {
                let mut found = model.clone();
                found.retain(|_, values| has(values, q));
                let (word, order) = Order::WORDS[(n + at) % Order::WORDS.len()];
                let rest = format!("{area}{slug}&sort={word}");
                let wanted = expected(&found, within, category, order);
                assert_eq!(bench.found(q, &rest, 3).await, wanted, "{q} {rest}");
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn every_search_finds_what_there_is_after_every_write(acts in prop::collection::vec(act(), 20..60)) {
        every_search_is_right(&[], acts.clone());
        every_search_is_right(&[("cache.mode", "off")], acts);
    }
}
