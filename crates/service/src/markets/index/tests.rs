//! The index against a scan of all markets.

use super::*;
use crate::markets::place::{place, place_of};
use crate::markets::types::NewMarket;
use madang_path::{Point, distance_metres};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::sync::LazyLock;

static REGIONS: LazyLock<Regions> = LazyLock::new(Regions::fresh);

fn market(id: MarketId, name: &str, address: &str, goods: &[&str]) -> Market {
    let is = NewMarket {
        name: name.to_owned(),
        kind: Some("상설장".to_owned()),
        road_address: Some(address.to_owned()),
        goods: goods.iter().map(|part| (*part).to_owned()).collect(),
        ..NewMarket::default()
    };
    let place = place(&REGIONS, &is);
    Market { id, place, facilities: None, is }
}

fn found(index: &Index, filter: &Filter, order: &Order) -> Vec<MarketId> {
    let found = index.page(filter, order, None, 100, |_| 0).unwrap();
    found.iter().map(|found| index.market(found.number).id).collect()
}

fn search(index: &Index, q: &str) -> Vec<MarketId> {
    found(index, &Filter { words: Words::of(q), ..Filter::default() }, &Order::Relevance)
}

fn sold(index: &Index, goods: &str) -> Vec<MarketId> {
    found(index, &Filter { goods: Words::of(goods), ..Filter::default() }, &Order::Name)
}

fn some() -> Index {
    let markets = vec![
        market(1, "원주 중앙시장", "강원특별자치도 원주시 중앙시장길 6", &["농산물", "의류"]),
        market(2, "중앙시장", "전북특별자치도 전주시 완산구 태평3길 50", &["수산물"]),
        market(3, "중앙시장", "서울특별시 중구 퇴계로 407", &["음식점"]),
        market(4, "중앙골목시장", "대구광역시 군위군 군위읍", &["축산물"]),
        market(5, "동부시장", "경기도 성남시 분당구 중앙공원로 1", &["가공식품"]),
        market(6, "LUCKY상가", "부산광역시 부신진구 새싹로 1", &["ＡＢＣ 마트"]),
    ];
    Index::new(markets, &REGIONS)
}

#[test]
fn the_best_match_comes_first() {
    let index = some();
    assert_eq!(search(&index, "중앙시장"), [2, 3, 1], "called so, by id; then in the name");
    assert_eq!(search(&index, "중앙"), [4, 2, 3, 1, 5], "beginning so; in the name; elsewhere");
    assert_eq!(
        search(&index, "중앙 시장"),
        [2, 3, 1, 4, 5],
        "spaces say nothing, all words must match"
    );
    assert_eq!(search(&index, "시장 중앙"), [1, 4, 2, 3, 5], "in any order");
    assert_eq!(search(&index, "없는시장"), Vec::<i64>::new());
}

/// Found by `pages_put_together_are_what_a_walk_over_all_finds`: a word of one character is no word of a name
/// that it does not begin, so the market with this name was ranked like one with such goods.
#[test]
fn the_market_called_so_comes_first_though_its_name_holds_not_each_word() {
    let markets = vec![
        market(1, "다가", "서울 중구  다가", &["나"]),
        market(2, "다나", "어딘가 ", &["나"]),
        market(3, "다나라", "어딘가 ", &["나"]),
    ];
    let index = Index::new(markets, &REGIONS);
    assert_eq!(search(&index, "다 나"), [2, 3, 1]);
}

#[test]
fn regions_are_found_by_their_names_old_and_new() {
    let index = some();
    for (names, id) in [
        (&["강원도", "강원특별자치도", "강원", "강원도 원주시", "원주"][..], 1),
        (&["전라북도", "전북", "전북특별자치도", "jeonju", "전라북도 전주시"], 2),
        (&["서울", "서울시 중구", "seoul", "SEOUL 중구"], 3),
        (&["군위군", "대구 군위"], 4),
        (&["분당구", "경기도 분당", "Bundang"], 5),
    ] {
        for name in names {
            assert_eq!(search(&index, name), [id], "{name}");
        }
    }
}

#[test]
fn one_character_is_the_beginning_of_a_name_or_of_one_of_the_goods() {
    let index = some();
    assert_eq!(search(&index, "원"), [1]);
    assert_eq!(search(&index, "동"), [5]);
    assert_eq!(search(&index, "l"), [6]);
    assert_eq!(search(&index, "중 전주"), [2]);
    assert_eq!(search(&index, "수"), [2], "수산물");
    assert_eq!(search(&index, "중 음"), [3], "one in the name, the other in the goods");
    assert_eq!(search(&index, "시"), Vec::<i64>::new(), "neither within a name");
    assert_eq!(search(&index, "물"), Vec::<i64>::new(), "nor within goods");
    assert_eq!(search(&index, "경"), Vec::<i64>::new(), "nor where an address begins");
    let markets = vec![
        market(1, "동부시장", "서울특별시 중구", &["꽃", "과일"]),
        market(2, "꽃시장", "서울특별시 중구", &["화훼"]),
        market(3, "서부시장", "서울특별시 중구", &["생꽃"]),
    ];
    let index = Index::new(markets, &REGIONS);
    assert_eq!(search(&index, "꽃"), [2, 1], "names first");
    assert_eq!(sold(&index, "꽃"), [1]);
}

#[test]
fn a_word_that_is_repeated_says_nothing_more() {
    let index = some();
    for (once, repeated) in
        [("중앙", "중앙 중앙"), ("중앙 시장", "중앙 시장 중앙"), ("원", "원 원")]
    {
        assert_eq!(search(&index, once), search(&index, repeated), "{repeated}");
        assert_eq!(Words::of(once).key(), Words::of(repeated).key());
    }
}

#[test]
fn spelling_and_case_say_nothing() {
    use unicode_normalization::UnicodeNormalization as _;
    let index = some();
    for q in ["lucky", "Ｌｕｃｋｙ", "abc", "ABC마트", "럭키"] {
        let wanted: &[i64] = if q == "럭키" || q == "ABC마트" { &[] } else { &[6] };
        assert_eq!(search(&index, q), wanted, "{q}");
    }
    let decomposed: String = "원주중앙시장".nfd().collect();
    assert_ne!(decomposed, "원주중앙시장");
    assert_eq!(search(&index, &decomposed), [1]);
}

#[test]
fn hostile_searches_find_nothing_and_harm_nothing() {
    let index = some();
    let long = "시장".repeat(5_000);
    for q in [
        "%", "_시", "'; drop--", ".*", "[가-힣]+", "🥬🥬", "\u{202e}시장x", "\u{301}",
        "\u{301}\u{302}", "\\", "\u{fffd}\u{fffd}", &long,
    ] {
        assert_eq!(search(&index, q), Vec::<i64>::new(), "{q:?}");
    }
    assert_eq!(
        search(&index, "\u{2}중앙\n시장"),
        [2, 3, 1, 4, 5],
        "signs of ours are no signs in a search"
    );
}

#[test]
fn places_follow_from_addresses() {
    let place = |address: &str| {
        let place = place_of(&REGIONS, address);
        (place.province, place.municipality)
    };
    assert_eq!(place("강원도 강릉시 금성로 21"), place("강원특별자치도 강릉시"));
    assert_eq!(place("경기도 성남시 분당구 새마을로"), (Some(31), Some(31023)));
    assert_eq!(place("경기도 수원시 세류동"), (Some(31), Some(31010)));
    assert_eq!(place("대구광역시 군위군 군위읍"), (Some(22), Some(37310)));
    assert_eq!(place("부산광역시 부신진구 새싹로"), (Some(21), None));
    assert_eq!(place("세종특별자치시 금남면"), (Some(29), None));
    assert_eq!(place("제주시 이도동"), (Some(39), Some(39010)));
    assert_eq!(place("평양시 중구역"), (None, None));
    let suwon = place_of(&REGIONS, "경기도 수원시 팔달구 정조로");
    assert!(suwon.lies_in(31) && suwon.lies_in(31010) && !suwon.lies_in(31020), "{suwon:?}");
}

/// Few letters, so that searches match.
fn any_market() -> impl Strategy<Value = Market> {
    let place = prop::sample::select(vec![
        "서울 중구",
        "강원도 원주시",
        "전라북도 전주시 완산구",
        "어딘가",
    ]);
    let goods = prop::collection::vec("[가나ab]{1,4}", 0..3);
    let position = prop::option::of((33.0..38.6f64, 124.6..131.9f64));
    let near = prop::option::of((0u8..3, 0u8..3));
    ("[가나다a ]{0,5}[가나]", "[가나다 ]{0,4}", place, goods, position, near).prop_map(
        |(name, road, place, goods, position, near)| {
            let goods: Vec<&str> = goods.iter().map(String::as_str).collect();
            let mut market = market(0, name.trim(), &format!("{place} {road}"), &goods);
            // Many at the same few positions, others anywhere.
            market.is.position =
                near.map(|(a, b)| (37.0 + f64::from(a) * 1e-7, 127.0 + f64::from(b))).or(position);
            if road.len() > 6 {
                market.is.kind = Some("상설장+5일장".to_owned());
            }
            market
        },
    )
}

fn any_order() -> impl Strategy<Value = Order> {
    let point = (33.0..38.6f64, 124.6..131.9f64);
    prop_oneof![
        Just(Order::Relevance),
        Just(Order::Name),
        Just(Order::Views),
        point.prop_map(|(lat, lon)| Order::Distance(Point { lat, lon, ele: None })),
        Just(Order::Distance(Point { lat: 37.0, lon: 127.0, ele: None })),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let q = prop_oneof![
        Just(String::new()),
        "[가나다a ]{0,6}".prop_map(String::from),
        Just("전북".to_owned())
    ];
    let region = prop_oneof![4 => Just(None), 1 => Just(Some(32)), 1 => Just(Some(11020))];
    let kinds = prop_oneof![3 => Just(vec![]), 1 => Just(vec!["5일장".to_owned()])];
    (
        q,
        prop_oneof![2 => Just(String::new()), 1 => "[가나ab]{1,3}".prop_map(String::from)],
        region,
        kinds,
    )
        .prop_map(|(q, goods, region, kinds)| Filter {
            words: Words::of(&q),
            goods: Words::of(&goods),
            region,
            kinds,
        })
}

/// View counts that are often equal.
fn views(id: MarketId) -> u64 {
    (id as u64 * 7) % 4
}

/// The whole listing, by a scan of all markets.
fn naive(markets: &[Market], filter: &Filter, order: &Order) -> Vec<MarketId> {
    let mut found: Vec<(f64, Reverse<u64>, String, MarketId)> = Vec::new();
    for market in markets {
        let names = [folded(&market.is.name), without_spaces(&market.is.name)];
        let mut texts: Vec<String> = names.to_vec();
        texts.extend(market.is.road_address.iter().map(|address| folded(address)));
        for id in [market.place.province, market.place.municipality].into_iter().flatten() {
            texts.extend(REGIONS.names(id).iter().map(|name| folded(name)));
        }
        let goods: Vec<String> = market.is.goods.iter().map(|goods| folded(goods)).collect();
        texts.extend(goods.iter().cloned());
        let is_lone = |word: &str| word.chars().count() == 1;
        let matches = |text: &String, word: &String| match is_lone(word) {
            true => text.starts_with(word.as_str()),
            false => text.contains(word.as_str()),
        };
        let sold = |word: &String| goods.iter().any(|goods| matches(goods, word));
        let named = |word: &String| names.iter().any(|name| matches(name, word));
        let holds = |word: &String| match is_lone(word) {
            true => named(word) || sold(word),
            false => texts.iter().any(|text| text.contains(word.as_str())),
        };
        let kinds = market.is.kind.as_deref().unwrap_or("");
        if !(filter.words.each.iter().all(holds)
            && filter.goods.each.iter().all(sold)
            && filter.region.is_none_or(|region| market.place.lies_in(region))
            && filter.kinds.iter().all(|kind| kinds.split('+').any(|part| part == kind)))
        {
            continue;
        }
        let whole = filter.words.each.concat();
        let sort = match order {
            Order::Relevance if filter.words.is_empty() => 0.0,
            Order::Relevance if names[1] == whole => 0.0,
            Order::Relevance if names[1].starts_with(whole.as_str()) => 1.0,
            Order::Relevance if filter.words.each.iter().all(named) => 2.0,
            Order::Relevance => 3.0,
            Order::Distance(centre) => match market.point() {
                Some(point) => distance_metres(centre, &point),
                None => continue,
            },
            Order::Name | Order::Views => 0.0,
        };
        let views = if *order == Order::Views { views(market.id) } else { 0 };
        let by_name = !matches!(order, Order::Distance(_));
        let name = if by_name { names[1].clone() } else { String::new() };
        found.push((sort, Reverse(views), name, market.id));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, &a.2, a.3).cmp(&(b.1, &b.2, b.3))));
    found.into_iter().map(|(.., id)| id).collect()
}

proptest! {
    /// So searches with one key, which share cached pages, are one search.
    #[test]
    fn the_key_of_a_search_is_the_same_search(text in "[가나a ]{0,9}|[가나] (가|나나|a )[가나a ]{0,9}|\\PC{0,20}") {
        let words = Words::of(&text);
        prop_assert_eq!(Words::of(&words.key()), words);
    }

    #[test]
    fn pages_put_together_are_what_a_walk_over_all_finds(
        mut markets in prop::collection::vec(any_market(), 0..60),
        filter in any_filter(), order in any_order(), limit in 1usize..9,
    ) {
        for (id, market) in (1..).zip(&mut markets) {
            market.id = id;
        }
        let wanted = naive(&markets, &filter, &order);
        let index = Index::new(markets, &REGIONS);
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = index.page(&filter, &order, after, limit, |n| views(index.market(n).id)).unwrap();
            prop_assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some((last.sort, index.market(last.number).id));
            found.extend(page.iter().map(|found| index.market(found.number).id));
            prop_assert!(found.len() <= wanted.len(), "{:?} {:?}", found, wanted);
        }
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn goods_of_one_character_are_the_beginning_of_one_of_the_goods() {
    let index = some();
    assert_eq!(sold(&index, "수"), [2]);
    assert_eq!(sold(&index, "Ａ"), [6]);
    assert_eq!(sold(&index, "원"), Vec::<i64>::new(), "no beginning of a name");
    assert_eq!(sold(&index, "농 의"), [1]);
    assert_eq!(sold(&index, "농 수"), Vec::<i64>::new());
}

#[test]
fn a_position_of_a_market_that_is_not_there_is_none() {
    let index = some();
    let after = Some((0.0, 99));
    assert_eq!(index.page(&Filter::default(), &Order::Name, after, 9, |_| 0), None);
}
