//! What the index of markets costs: memory, and time of a search that is in no cache.
//!
//! `cargo run --release -p madang-service --example market_search -- DIR` with a data directory that
//! markets were imported into. They are measured as they are, and as 100,000 made of them.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use madang_path::Point;
use madang_service::app::App;
use madang_service::config::{Origin, Sources};
use madang_service::markets::{Filter, Index, Market, Order, Words};
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() {
    let dir = std::env::args().nth(1).expect("a data directory");
    let mut sources = Sources::new();
    sources.set("data.dir", &dir, Origin::Flag("DIR".to_owned())).unwrap();
    let app = App::open(&sources.resolve().unwrap()).unwrap();
    let markets = app.markets.store().all().unwrap();
    assert!(!markets.is_empty(), "no markets in {dir}");
    for count in [markets.len(), 100_000] {
        let (before, many) = (resident(), copies(&markets, count));
        let (held, start) = (resident(), Instant::now());
        let index = Index::new(many, app.markets.regions());
        println!(
            "{count} markets: {} KB, index {} KB more ({} KB counted), built in {:?}",
            (held - before) / 1024,
            (resident() - held) / 1024,
            index.search_bytes() / 1024,
            start.elapsed()
        );
        measure(&index);
    }
}

/// So many markets: each copy has a number in its name and lies somewhere else.
fn copies(markets: &[Market], count: usize) -> Vec<Market> {
    let copy = |n: usize| {
        let mut market = markets[n % markets.len()].clone();
        let round = n / markets.len();
        if round > 0 {
            market.id = i64::try_from(n).unwrap() + 1_000_000;
            market.is.name = format!("{}{round}호", market.is.name);
            let shift = f64::from(u32::try_from(n % 1009).unwrap()) * 1e-4;
            market.is.position = market.is.position.map(|(lat, lon)| (lat + shift, lon - shift));
        }
        market
    };
    (0..count).map(copy).collect()
}

fn measure(index: &Index) {
    let seoul = Point { lat: 37.5665, lon: 126.978, ele: None };
    let q = |text: &str| Filter { words: Words::of(text), ..Filter::default() };
    let distance = Order::Distance(seoul);
    let cases = [
        ("everything by name", Filter::default(), &Order::Name),
        ("everything by views", Filter::default(), &Order::Views),
        ("everything by distance", Filter::default(), &distance),
        ("시장", q("시장"), &Order::Relevance),
        ("중앙시장", q("중앙시장"), &Order::Relevance),
        ("강원도 중앙", q("강원도 중앙"), &Order::Relevance),
        ("중", q("중"), &Order::Relevance),
        ("goods 수산물", Filter { goods: Words::of("수산물"), ..Filter::default() }, &Order::Name),
        ("region 서울", Filter { region: Some(11), ..Filter::default() }, &Order::Name),
        ("시장 by distance", q("시장"), &distance),
        ("없는시장", q("없는시장"), &Order::Relevance),
        ("100 letters", q(&"가나다라마".repeat(20)), &Order::Relevance),
    ];
    for (name, filter, order) in cases {
        let find = |after| index.page(&filter, order, after, 21, |n| u64::from(n % 97)).unwrap();
        let first = find(None);
        let last = first.last().map(|last| (last.sort, index.market(last.number).id));
        let page = median(|| black_box(find(None)).len());
        let next = last.map(|last| median(|| black_box(find(Some(last))).len()));
        println!("  {name:<24} {page:>10.1?}   next page {next:>10.1?}");
    }
}

/// Of 101 runs.
fn median(mut run: impl FnMut() -> usize) -> Duration {
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[50]
}

/// Bytes of memory in use (Linux).
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
