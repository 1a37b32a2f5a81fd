//! Bodies and queries of posts at and beyond their limits.

use crate::harness::{Person, Server};
use crate::posts::{bicycle, ids, listing, made, patch, start, with};
use serde_json::{Value, json};

/// Asserts that a field with this value is refused, in a new post and in a change, and named.
fn refused(server: &Server, by: &Person, id: i64, field: &str, value: &Value) {
    let answer = server.post("/v1/posts", Some(by), &with(field, value.clone()));
    assert_eq!(answer.wrong_fields(), [field], "{value:.40}");
    let change = match field {
        "state" | "city" => {
            json!({"state": "서울", "city": "마포구", "town": "망원동", field: value})
        }
        _ => json!({field: value}),
    };
    assert_eq!(patch(server, by, id, &change).wrong_fields(), [field], "changed: {value:.40}");
}

#[test]
fn every_field_that_is_wrong_or_missing_is_named_at_once() {
    let server = start();
    let mina = server.somebody("mina");
    let all =
        ["title", "content", "itemName", "price", "stock", "category", "state", "city", "town"];
    let mut named = server.post("/v1/posts", Some(&mina), &json!({})).wrong_fields();
    named.sort_unstable();
    let mut wanted = all.to_vec();
    wanted.sort_unstable();
    assert_eq!(named, wanted);
    for field in all {
        for value in [json!(null), json!(true), json!([]), json!({}), json!("")] {
            let answer = server.post("/v1/posts", Some(&mina), &with(field, value.clone()));
            assert_eq!(answer.wrong_fields(), [field], "{field}: {value}");
        }
    }
    assert_eq!(ids(&server.get("/v1/posts")), [0; 0], "nothing was stored");
}

#[test]
fn prices_and_stocks_are_whole_and_within_their_limits() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    for (field, largest) in [("price", 1_000_000_000_000_i64), ("stock", 1_000_000)] {
        for good in [json!(0), json!(largest), json!(10.0), json!(1e3)] {
            let id = made(&server, &mina, &with(field, good.clone()));
            let stored = server.get(&format!("/v1/posts/{id}")).json();
            assert_eq!(stored[field].as_f64(), good.as_f64());
            assert!(stored[field].is_i64(), "{stored}");
        }
        for bad in [
            json!(-1),
            json!(largest + 1),
            json!(9_007_199_254_740_992_i64),
            json!(i64::MAX),
            json!(u64::MAX),
            json!(10.5),
            json!(1e300),
            json!(-1e-9),
            json!("10"),
        ] {
            refused(&server, &mina, id, field, &bad);
        }
        // Beyond every double: no number that JSON can carry from one program to another.
        let body = bicycle()
            .to_string()
            .replace(&format!("\"{field}\":"), &format!("\"{field}\":1e400,\"x\":"));
        let bearer = mina.bearer();
        let headers = [("Content-Type", "application/json"), ("Authorization", &*bearer)];
        server.connect().send_body("POST", "/v1/posts", &headers, body).problem(400);
    }
}

#[test]
fn texts_are_kept_as_sent_in_every_script_within_their_limits() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    for field in ["title", "itemName", "content"] {
        for text in [
            "x",
            "🚲 자전거 👨‍👩‍👧‍👦 가족용",
            "دراجة للبيع \u{200f}120,000\u{200f}",
            "אופניים ABC",
            "Z\u{334}\u{321}a\u{335}\u{322}l\u{336}g\u{337}o\u{338}",
            "<script>alert(1)</script>",
            "\"\\'; DROP TABLE posts; --",
            &"🚲".repeat(100),
        ] {
            let id = made(&server, &mina, &with(field, json!(text)));
            assert_eq!(
                server.get(&format!("/v1/posts/{id}")).json()[field],
                json!(text),
                "{field}"
            );
        }
        let most = if field == "content" { 10_000 } else { 100 };
        made(&server, &mina, &with(field, json!("가".repeat(most))));
        for bad in [
            &*"가".repeat(most + 1),
            &"x".repeat(100_000),
            " ",
            "\u{200b}",
            "a\u{0}b",
            "\u{1b}[31m",
            "a\u{7f}b",
            "a\u{85}b",
            "price \u{202e}000,1",
            "\u{202d}x",
        ] {
            refused(&server, &mina, id, field, &json!(bad));
        }
    }
    for line in ["two\nlines", "a\ttab", "a\u{2028}b", "a\u{2066}b", "a\u{2067}b\u{2069}", "a\u{3164}b"] {
        refused(&server, &mina, id, "title", &json!(line));
    }
    let id = made(&server, &mina, &with("content", json!("a\r\nb\n\tc")));
    assert_eq!(server.get(&format!("/v1/posts/{id}")).json()["content"], json!("a\nb\n\tc"));
}

#[test]
fn places_are_those_of_the_tables_and_towns_any_name() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    for (field, bad) in [
        ("state", "아틀란티스"),
        ("state", "마포구"),
        ("city", "없는구"),
        ("city", "해운대구"),
        ("city", "서울"),
        ("category", "카테고리"),
        ("category", "스포츠"),
        ("status", "removed"),
        ("status", "Sold"),
        ("town", "두\n줄"),
        ("town", "\u{202e}동"),
    ] {
        refused(&server, &mina, id, field, &json!(bad));
    }
    refused(&server, &mina, id, "town", &json!("가".repeat(41)));
    let moved = patch(&server, &mina, id, &json!({"city": "종로구"}));
    assert_eq!(moved.wrong_fields(), ["state", "town"], "they belong together");
    for (state, city, shown) in [
        ("강원도", "춘천시", ("강원특별자치도", "춘천시")),
        ("Seoul", "Jung-gu", ("서울특별시", "중구")),
        ("세종", "세종시", ("세종특별자치시", "세종시")),
        ("부산광역시", "중구", ("부산광역시", "중구")),
    ] {
        let mut body = bicycle();
        (body["state"], body["city"]) = (json!(state), json!(city));
        body["town"] = json!(" 🏠:.동 ");
        let id = made(&server, &mina, &body);
        let stored = server.get(&format!("/v1/posts/{id}")).json();
        assert_eq!((stored["state"].as_str().unwrap(), stored["city"].as_str().unwrap()), shown);
        let page = server.get(&listing(&[("state", state), ("city", city), ("town", "🏠:.동")]));
        assert_eq!(ids(&page), [id]);
    }
}

#[test]
fn a_query_that_makes_no_sense_is_refused_and_everything_wrong_is_named() {
    let server = start();
    let wrong = |parameters: &[(&str, &str)]| server.get(&listing(parameters)).wrong_fields();
    for (parameters, fields) in [
        (&[("state", "평양")][..], &["state"][..]),
        (&[("state", "")], &["state"]),
        (&[("state", "서울"), ("city", "해운대구")], &["city"]),
        (&[("city", "중구")], &["city"]),
        (&[("town", "망원동")], &["town"]),
        (&[("state", "서울"), ("town", "망원동")], &["town"]),
        (&[("city", "마포구"), ("town", "")], &["town"]),
        (&[("city", "마포구"), ("town", "a\u{0}b")], &["town"]),
        (&[("category", "x"), ("sort", "oldest"), ("state", "x")], &["state", "category", "sort"]),
        (&[("limit", "0")], &["limit"]),
        (&[("limit", "101"), ("cursor", "x")], &["limit", "cursor"]),
    ] {
        assert_eq!(wrong(parameters), fields, "{parameters:?}");
    }
    let choices = server.get(&listing(&[("city", "중구")])).text();
    assert!(
        choices.contains("서울특별시 중구") && choices.contains("부산광역시 중구"),
        "{choices}"
    );
    assert_eq!(ids(&server.get(&listing(&[("city", "마포구"), ("town", "없는동")]))), [0; 0]);
    let long = "가".repeat(41);
    assert_eq!(wrong(&[("city", "마포구"), ("town", &long)]), ["town"]);
}

#[test]
fn a_cursor_altered_or_of_another_listing_is_refused() {
    let server = start();
    let mina = server.somebody("mina");
    for _ in 0..3 {
        made(&server, &mina, &bicycle());
    }
    let cursor_of = |parameters: &[(&str, &str)]| {
        let page = server.get(&listing(&[parameters, &[("limit", "1")]].concat())).json();
        page["nextCursor"].as_str().unwrap().to_owned()
    };
    let next = |parameters: &[(&str, &str)], cursor: &str| {
        server.get(&listing(&[parameters, &[("limit", "1"), ("cursor", cursor)]].concat()))
    };
    let listings: [&[(&str, &str)]; 6] = [
        &[],
        &[("sort", "price")],
        &[("sort", "-price")],
        &[("state", "서울")],
        &[("city", "마포구")],
        &[("category", "sports")],
    ];
    for own in listings {
        let cursor = cursor_of(own);
        assert_eq!(ids(&next(own, &cursor)).len(), 1, "{own:?}");
        for other in listings.iter().filter(|other| **other != own) {
            assert_eq!(next(other, &cursor).wrong_fields(), ["cursor"], "{own:?} in {other:?}");
        }
        for altered in [&cursor[1..], &cursor.replace('0', "1"), "", &"f".repeat(48), "'; --"] {
            assert_eq!(next(own, altered).wrong_fields(), ["cursor"], "{altered}");
        }
    }
    // However the area is spelt, it is one listing.
    let cursor = cursor_of(&[("state", "서울특별시"), ("city", "마포구")]);
    assert_eq!(ids(&next(&[("city", "mapo")], &cursor)).len(), 1);
}

#[test]
fn bodies_that_are_too_large_or_no_json_object_are_refused() {
    let server = start();
    let mina = server.somebody("mina");
    let bearer = mina.bearer();
    let headers = [("Content-Type", "application/json"), ("Authorization", &*bearer)];
    let send = |body: &str| server.connect().send_body("POST", "/v1/posts", &headers, body);
    let megabyte = with("content", json!("x".repeat(1 << 20))).to_string();
    send(&megabyte).problem(413);
    send("{").problem(400);
    send("[]").problem(422);
    let twice = bicycle().to_string().replacen('{', "{\"price\":1,", 1);
    send(&twice).problem(400);
    let plain = [("Content-Type", "text/plain"), ("Authorization", &*bearer)];
    let sent = server.connect().send_body("POST", "/v1/posts", &plain, bicycle().to_string());
    sent.problem(415);
    assert_eq!(ids(&server.get("/v1/posts")), [0; 0]);
    server.is_well();
}

#[test]
fn a_category_goes_by_any_of_its_names() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    let names = ["sports", "SPORTS", "ｓｐｏｒｔｓ", "스포츠/레저", " sports and  LEISURE "];
    for name in names {
        let post = patch(&server, &mina, id, &json!({"category": name}));
        assert_eq!((post.status, &post.json()["category"]), (200, &json!("sports")), "{name}");
        made(&server, &mina, &with("category", json!(name)));
        assert_eq!(server.get(&listing(&[("category", name), ("limit", "1")])).status, 200);
    }
    // One listing, whatever it is called.
    let all = ids(&server.get(&listing(&[("category", "sports")])));
    assert_eq!(all.len(), 1 + names.len());
    for name in names {
        assert_eq!(ids(&server.get(&listing(&[("category", name)]))), all, "{name}");
    }
    assert_eq!(ids(&server.get(&listing(&[("category", "도서")]))), [0; 0]);
}
