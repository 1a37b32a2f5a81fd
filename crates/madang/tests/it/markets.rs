//! `GET /v1/markets`: searching, paging, one market.

use crate::harness::{Answer, Server, Setup, data, stores};
use serde_json::Value;
use std::collections::HashSet;

/// A query of these parameters, escaped.
fn query(parts: &[(&str, &str)]) -> String {
    let mut query = String::from("/v1/markets?");
    for (name, value) in parts {
        query.push_str(name);
        query.push('=');
        value.bytes().for_each(|byte| query.push_str(&format!("%{byte:02X}")));
        query.push('&');
    }
    query
}

fn list(server: &Server, parts: &[(&str, &str)]) -> Vec<Value> {
    let answer = server.get(&query(parts));
    assert_eq!(answer.status, 200, "{parts:?}: {}", answer.text());
    answer.json()["items"].as_array().unwrap().clone()
}

fn names(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// Every page of a listing.
fn all(server: &Server, parts: &[(&str, &str)]) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut parts = [&[("limit", "100")], parts].concat();
        parts.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = server.get(&query(&parts)).json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return items,
        }
    }
}

#[test]
fn the_bundled_markets_are_served_as_their_source_says() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let markets = all(&server, &[]);
    assert_eq!(markets.len(), 1388);
    let without = |field: &str| markets.iter().filter(|market| market[field].is_null()).count();
    assert_eq!(without("position"), 16);
    assert_eq!(without("address"), 7);
    assert_eq!(without("lotAddress"), 13);
    assert_eq!(without("phone"), 547);
    assert_eq!(without("stores"), 5);
    assert_eq!(without("type") + without("cycle") + without("dataDate"), 0);
    assert!(markets.iter().all(|m| !(m["address"].is_null() && m["lotAddress"].is_null())));
    let of_kind = |kind| markets.iter().filter(|market| market["type"] == kind).count();
    assert_eq!([of_kind("상설장"), of_kind("5일장"), of_kind("상설장+5일장")], [972, 134, 282]);
    assert_eq!(names(&markets).iter().filter(|name| **name == "중앙시장").count(), 12);
    let ids: HashSet<i64> = markets.iter().map(|market| market["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), 1388);
    assert!(markets.iter().all(|market| market["region"]["state"].is_string()));
    let found = list(&server, &[("q", "강릉 성남동 중앙시장")]);
    let first = found.iter().find(|market| market["name"] == "중앙시장").unwrap();
    assert_eq!(first["cycle"], "매일");
    assert_eq!(first["stores"], 276);
    assert_eq!(first["foundedYear"], 1980);
    assert_eq!(first["publicToilet"], true);
    assert_eq!(first["goods"][6], "음식점");
    assert_eq!(first["position"], serde_json::json!([37.75401611, 128.8986236]));
    assert_eq!(first["region"], serde_json::json!({"state": "강원특별자치도", "city": "강릉시"}));
    assert_eq!(first["provider"], "소상공인시장진흥공단");
    assert_eq!(
        list(&server, &[("q", "이방정기시장")])[0]["openingDays"],
        serde_json::json!([4, 9])
    );
}

#[test]
fn searches_find_names_regions_old_and_new_and_goods() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let called = list(&server, &[("q", "중앙시장"), ("limit", "100")]);
    assert!(names(&called)[..12].iter().all(|name| *name == "중앙시장"), "{:?}", names(&called));
    assert!(names(&called)[12..].iter().all(|name| *name != "중앙시장"));
    let count = |parts: &[(&str, &str)]| all(&server, parts).len();
    let of_gangwon = count(&[("region", "강원특별자치도")]);
    assert_eq!(of_gangwon, 61);
    for old in ["강원도", "강원", "Gangwon-do"] {
        assert_eq!(count(&[("region", old)]), 61, "{old}");
    }
    assert_eq!(count(&[("q", "강원도")]), 61);
    assert_eq!(count(&[("q", "전라북도")]), count(&[("region", "전북")]));
    let seoul = all(&server, &[("region", "서울"), ("goods", "수산물"), ("type", "상설장")]);
    assert!(!seoul.is_empty());
    for market in &seoul {
        assert_eq!(market["region"]["state"], "서울특별시");
        assert!(
            market["goods"]
                .as_array()
                .unwrap()
                .iter()
                .any(|g| g.as_str().unwrap().contains("수산물"))
        );
    }
    assert_eq!(count(&[("type", "5일장")]), 134 + 282);
    assert_eq!(count(&[("type", "상설장+5일장")]), 282);
    // Decomposed, as a Mac sends it.
    assert_eq!(
        list(
            &server,
            &[
                (
                    "q",
                    "\u{110c}\u{116e}\u{11bc}\u{110b}\u{1161}\u{11bc}\u{1109}\u{1175}\u{110c}\u{1161}\u{11bc}"
                ),
                ("limit", "100")
            ]
        ),
        called
    );
    assert_eq!(count(&[("q", "")]), 1388, "an empty field of a form asks for nothing");
    let lone = all(&server, &[("q", "꽃")]);
    let sold = all(&server, &[("goods", "꽃")]);
    assert!(!sold.is_empty() && lone.iter().all(|market| begins(market, '꽃')), "{lone:?}");
    assert!(sold.iter().all(|market| lone.contains(market)), "{sold:?}");
    assert!(!all(&server, &[("q", "광")]).is_empty());
    assert!(all(&server, &[("q", "광")]).iter().all(|market| begins(market, '광')));
}

/// Whether the name or one of the goods begins so.
fn begins(market: &Value, character: char) -> bool {
    let goods = market["goods"].as_array().unwrap();
    goods.iter().chain([&market["name"]]).any(|text| text.as_str().unwrap().starts_with(character))
}

#[test]
fn a_word_that_is_repeated_shares_the_page_and_spoils_it_for_nobody() {
    let dir = stores::demo();
    let asked = |q: &str, server: &Server| names(&list(server, &[("q", q)])).join(" ");
    let wanted = asked("중앙", &Setup::new().data(stores::demo().path()).start());
    let server = Setup::new().data(dir.path()).start();
    // Twice, for only then a page is kept.
    for q in ["중앙 중앙", "중앙 중앙", "중앙"] {
        assert_eq!(asked(q, &server), wanted, "{q}");
    }
}

#[test]
fn the_nearest_come_first_wherever_one_stands() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let markets = all(&server, &[]);
    for (lat, lon) in [
        (37.5665, 126.978),
        (33.2541, 126.5601),
        (37.4845, 130.9057),
        (35.1796, 129.0756),
        (-33.9, 18.4),
    ] {
        let near = format!("{lat},{lon}");
        let found = all(&server, &[("near", &near)]);
        assert_eq!(found.len(), 1388 - 16, "those without a position are left out");
        let mut wanted: Vec<(f64, i64)> = markets
            .iter()
            .filter_map(|market| {
                let position = market["position"].as_array()?;
                let at = (position[0].as_f64()?, position[1].as_f64()?);
                Some((data::haversine((lat, lon), at), market["id"].as_i64()?))
            })
            .collect();
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let distances: Vec<f64> =
            found.iter().map(|market| market["distanceMetres"].as_f64().unwrap()).collect();
        assert!(distances.is_sorted(), "{near}");
        for (distance, (wanted, _)) in distances.iter().zip(&wanted) {
            assert!((distance - wanted).abs() < 0.2, "{near}: {distance} {wanted}");
        }
    }
    let by_name = list(&server, &[("near", "37.5,127.0"), ("sort", "name")]);
    assert_eq!(names(&by_name), names(&list(&server, &[("sort", "name")])));
    assert!(
        by_name[0]["distanceMetres"].is_f64() && list(&server, &[])[0]["distanceMetres"].is_null()
    );
}

#[test]
fn wrong_values_are_named_all_at_once() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let wrong = |parts: &[(&str, &str)]| server.get(&query(parts)).wrong_fields();
    assert_eq!(
        wrong(&[
            ("q", &"가".repeat(101)),
            ("region", "평양"),
            ("goods", "\u{0}"),
            ("type", "장"),
            ("near", "91,0"),
            ("limit", "0"),
            ("sort", "price")
        ]),
        ["q", "goods", "region", "type", "near", "limit", "sort"]
    );
    assert_eq!(wrong(&[("sort", "distance")]), ["sort"]);
    let answer = server.get(&query(&[("type", "장")])).problem(422);
    server.get(&query(&[("type", "\u{84}")])).problem(422);
    assert!(answer["errors"][0]["detail"].as_str().unwrap().contains("3일장"), "{answer}");
    assert_eq!(list(&server, &[("type", "3일장")]).len(), 0);
    assert_eq!(wrong(&[("region", &"가".repeat(500))]), ["region"]);
    let answer = server.get(&query(&[("region", "중구")])).problem(422);
    let choices = answer["errors"][0]["detail"].as_str().unwrap();
    assert!(
        choices.contains("서울특별시 중구") && choices.contains("울산광역시 중구"),
        "{choices}"
    );
    for q in
        ["%", "_", "'\"; drop table markets; --", ".*", "🥬", "\u{202e}장시", "\u{301}", "\u{fffd}"]
    {
        assert_eq!(server.get(&query(&[("q", q)])).status, 200, "{q}");
    }
    assert_eq!(list(&server, &[("q", &"가".repeat(100))]).len(), 0);
    assert_eq!(server.get("/v1/markets?q=%ff%fe%80").status, 200);
    for id in ["0", "-1", "999999", "x", "9999999999999999999999"] {
        server.get(&format!("/v1/markets/{id}")).problem(404);
    }
    server.is_well();
}

#[test]
fn a_cursor_belongs_to_its_listing() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let cursor = |parts: &[(&str, &str)]| {
        server.get(&query(parts)).json()["nextCursor"].as_str().unwrap().to_owned()
    };
    let of_seoul = cursor(&[("region", "서울")]);
    assert_eq!(server.get(&query(&[("region", "서울특별시"), ("cursor", &of_seoul)])).status, 200);
    for parts in [
        &[("region", "부산")][..],
        &[],
        &[("region", "서울"), ("sort", "views")],
        &[("region", "서울"), ("near", "37.5,127")],
        &[("region", "서울"), ("q", "시장")],
        &[("region", "서울"), ("type", "상설장")],
    ] {
        let parts = [parts, &[("cursor", of_seoul.as_str())]].concat();
        assert_eq!(server.get(&query(&parts)).wrong_fields(), ["cursor"], "{parts:?}");
    }
    let altered =
        of_seoul.replace(&of_seoul[20..21], if &of_seoul[20..21] == "0" { "1" } else { "0" });
    for cursor in [altered.as_str(), "00", "한글", &"0".repeat(48)] {
        assert_eq!(
            server.get(&query(&[("region", "서울"), ("cursor", cursor)])).wrong_fields(),
            ["cursor"]
        );
    }
}

#[test]
fn a_flood_of_made_up_searches_does_not_drive_out_what_everybody_reads() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let entries = || server.metric("madang_cache_entries", &["cache=\"market_lists\""]);
    let mut connection = server.connect();
    let everybody = query(&[("q", "중앙시장")]);
    for _ in 0..3 {
        connection.get(&everybody);
    }
    connection.get("/v1/markets");
    connection.get("/v1/markets");
    assert_eq!(entries(), 2.0);
    for n in 0..2_000 {
        assert_eq!(connection.get(&query(&[("q", &format!("시장{n}"))])).status, 200);
    }
    assert_eq!(entries(), 2.0, "nothing that was asked for once is kept");
    let hits = server.metric("madang_cache_hits_total", &["cache=\"market_lists\""]);
    connection.get(&everybody);
    connection.get("/v1/markets");
    assert_eq!(server.metric("madang_cache_hits_total", &["cache=\"market_lists\""]), hits + 2.0);
}

#[test]
fn bodies_have_tags_and_encodings_and_the_tag_follows_the_count() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let get = |headers: &[(&str, &str)]| -> Answer {
        server.get_with("/v1/markets/1", &[&[("User-Agent", "one")], headers].concat())
    };
    let plain = get(&[]);
    let packed = get(&[("Accept-Encoding", "br, gzip")]);
    assert!(packed.header("content-encoding").is_none_or(|encoding| encoding == "gzip"));
    server.until_metric("madang_market_views_counted_total", &[], 1.0);
    let (now, packed) = (get(&[]), get(&[("Accept-Encoding", "gzip")]));
    assert_eq!(
        (plain.json()["viewCount"].clone(), now.json()["viewCount"].clone()),
        (0.into(), 1.into())
    );
    assert_eq!(packed.decoded(), now.body);
    assert_ne!(plain.header("etag"), now.header("etag"));
    let tag = now.header("etag").unwrap().to_owned();
    assert_eq!(get(&[("If-None-Match", &tag)]).status, 304);
    assert_eq!(get(&[("If-None-Match", plain.header("etag").unwrap())]).status, 200);
    assert!(now.header("vary").unwrap().contains("accept-encoding"));
    let head = server.connect().request("HEAD", "/v1/markets/1", &[]);
    assert_eq!((head.status, head.header("etag")), (200, Some(tag.as_str())));
    let page = server.get_with("/v1/markets", &[("Accept-Encoding", "gzip")]);
    assert_eq!(page.decoded(), server.get("/v1/markets").body);
}
