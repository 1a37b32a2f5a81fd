//! What is not an article, a comment or a like.

use crate::articles::{patch, read, server, write};
use serde_json::json;

#[test]
fn texts_of_any_script_come_back_as_they_were_sent() {
    let server = server();
    let mina = server.somebody("mina");
    let content = "첫 줄\n\tтекст\n👨‍👩‍👧‍👦 עברית ثم عربي x\u{327}\u{301} \u{202b}rtl\u{202c}";
    for title in [
        "🐕 찾습니다",
        "שלום",
        "مرحبا بالجيران",
        "👨‍👩‍👧‍👦",
        "가",
        &"가".repeat(100),
    ] {
        let made =
            server.post("/v1/articles", Some(&mina), &json!({"title": title, "content": content}));
        assert_eq!(made.status, 201, "{title}: {}", made.text());
        let article = read(&server, made.json()["id"].as_i64().unwrap(), None).json();
        assert_eq!(article["title"], title);
        assert_eq!(article["content"], content);
    }
    let longest = json!({"title": "x", "content": "😀".repeat(10_000)});
    assert_eq!(server.post("/v1/articles", Some(&mina), &longest).status, 201);
}

#[test]
fn texts_that_are_none_are_refused_with_their_fields() {
    let server = server();
    let mina = server.somebody("mina");
    let id = write(&server, &mina, "x");
    let titles = [
        json!(""),
        json!(" \u{3164}"),
        json!("two\nlines"),
        json!("isolate \u{2067}left open"),
        json!("\u{202b}rtl\u{202c}"),
        json!("a\u{0}b"),
        json!("\u{7}bell"),
        json!("\u{1b}[31m"),
        json!("가".repeat(101)),
        json!(7),
        json!(null),
        json!(["x"]),
    ];
    for title in titles {
        let body = json!({"title": title, "content": "x"});
        assert_eq!(
            server.post("/v1/articles", Some(&mina), &body).wrong_fields(),
            ["title"],
            "{title}"
        );
        if !title.is_null() {
            assert_eq!(patch(&server, id, Some(&mina), &body).wrong_fields(), ["title"], "{title}");
        }
    }
    for content in
        [json!(""), json!("\n \n"), json!("a\u{0}"), json!("x".repeat(10_001)), json!({})]
    {
        let body = json!({"title": "x", "content": content});
        assert_eq!(server.post("/v1/articles", Some(&mina), &body).wrong_fields(), ["content"]);
    }
    let both = server.post("/v1/articles", Some(&mina), &json!({})).wrong_fields();
    assert_eq!(both, ["title", "content"]);
    let comments = format!("/v1/articles/{id}/comments");
    for content in [json!(""), json!("x".repeat(1001)), json!("\u{8}"), json!(null)] {
        let body = json!({"content": content});
        assert_eq!(server.post(&comments, Some(&mina), &body).wrong_fields(), ["content"]);
    }
    let large = json!({"title": "x", "content": "x".repeat(1_000_000)});
    server.post("/v1/articles", Some(&mina), &large).problem(413);
    let bearer = mina.bearer();
    let headers = [("Content-Type", "application/json"), ("Authorization", bearer.as_str())];
    for broken in ["", "{", "[]x", "{\"title\":\"\u{1}\"}"] {
        server.connect().send_body("POST", "/v1/articles", &headers, broken).problem(400);
    }
    assert_eq!(server.get("/v1/articles").json()["items"].as_array().unwrap().len(), 1);
    server.is_well();
}

#[test]
fn cursors_of_another_listing_and_parameters_that_mean_nothing_are_refused() {
    let server = server();
    let mina = server.somebody("mina");
    for n in 0..3 {
        write(&server, &mina, &format!("article {n}"));
    }
    let next = |path: &str| server.get(path).json()["nextCursor"].as_str().unwrap().to_owned();
    let newest = next("/v1/articles?limit=1");
    let likes = next("/v1/articles?limit=1&sort=likes");
    let altered = format!("{}{}", &newest[..47], if newest.ends_with('0') { '1' } else { '0' });
    for wrong in [
        format!("sort=likes&cursor={newest}"),
        format!("cursor={likes}"),
        format!("cursor={altered}"),
        "cursor=".to_owned(),
        "cursor=%00".to_owned(),
    ] {
        assert_eq!(
            server.get(&format!("/v1/articles?{wrong}")).wrong_fields(),
            ["cursor"],
            "{wrong}"
        );
    }
    for limit in ["0", "101", "-1", "x", "", "1e1"] {
        assert_eq!(server.get(&format!("/v1/articles?limit={limit}")).wrong_fields(), ["limit"]);
    }
    for sort in ["", "LIKES", "oldest", "like_count;drop", "%F0%9F%90%95"] {
        assert_eq!(server.get(&format!("/v1/articles?sort={sort}")).wrong_fields(), ["sort"]);
    }
    let comments = server.get(&format!("/v1/articles/1/comments?cursor={newest}"));
    assert_eq!(comments.wrong_fields(), ["cursor"]);
}

#[test]
fn ids_that_are_none_are_not_found() {
    let server = server();
    let mina = server.somebody("mina");
    for id in
        ["0", "-1", "7", "x", "1.0", "9223372036854775807", "9223372036854775808", "%00", "1%2F2"]
    {
        let article = format!("/v1/articles/{id}");
        server.get(&article).problem(404);
        server.get(&format!("{article}/comments")).problem(404);
        server.delete(&article, Some(&mina)).problem(404);
        server.delete(&format!("{article}/comments/1"), Some(&mina)).problem(404);
        for method in ["POST", "PUT", "DELETE"] {
            server
                .connect()
                .json(method, &format!("{article}/like"), Some(&mina), &json!({}))
                .problem(404);
        }
    }
    server.is_well();
}
