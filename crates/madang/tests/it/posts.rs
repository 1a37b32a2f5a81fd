//! Posts over HTTP: what everybody sees, and who may change what.

use crate::harness::{Answer, Person, Server, Setup, database};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Barrier;

pub fn start() -> Server {
    Setup::new().cheap_hash().start()
}

pub fn bicycle() -> Value {
    json!({
        "title": "자전거 팝니다", "content": "두 번 탔어요.\n직거래만 합니다.", "itemName": "로드 자전거",
        "price": 120_000, "stock": 1, "category": "sports",
        "state": "서울특별시", "city": "마포구", "town": "망원동",
    })
}

/// The bicycle with one field replaced.
pub fn with(field: &str, value: Value) -> Value {
    let mut body = bicycle();
    body[field] = value;
    body
}

/// Makes a post and gives its id.
pub fn made(server: &Server, by: &Person, body: &Value) -> i64 {
    let answer = server.post("/v1/posts", Some(by), body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_i64().unwrap()
}

pub fn patch(server: &Server, by: &Person, id: i64, body: &Value) -> Answer {
    server.connect().json("PATCH", &format!("/v1/posts/{id}"), Some(by), body)
}

/// The path of a listing, with what is no ASCII encoded.
pub fn listing(parameters: &[(&str, &str)]) -> String {
    let encoded = parameters.iter().map(|(name, value)| {
        let value: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        format!("{name}={value}")
    });
    format!("/v1/posts?{}", encoded.collect::<Vec<_>>().join("&"))
}

pub fn ids(page: &Answer) -> Vec<i64> {
    assert_eq!(page.status, 200, "{}", page.text());
    page.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_i64().unwrap())
        .collect()
}

#[test]
fn a_post_is_found_where_the_answer_says_and_in_every_listing_of_its_area() {
    let server = start();
    let mina = server.somebody("mina");
    let created = server.post("/v1/posts", Some(&mina), &bicycle());
    assert_eq!(created.status, 201, "{}", created.text());
    let id = created.json()["id"].as_i64().unwrap();
    assert_eq!(created.header("location"), Some(&*format!("/v1/posts/{id}")));

    let found = server.get(&format!("/v1/posts/{id}")).json();
    let at = &found["createdAt"];
    let item = json!({
        "id": id, "title": "자전거 팝니다", "itemName": "로드 자전거", "price": 120_000, "stock": 1,
        "category": "sports", "state": "서울특별시", "city": "마포구", "town": "망원동",
        "status": "selling", "createdAt": at,
    });
    let mut whole = item.clone();
    whole["content"] = json!("두 번 탔어요.\n직거래만 합니다.");
    whole["author"] = json!("mina");
    whole["updatedAt"] = at.clone();
    assert_eq!(found, whole);

    let (state, city, town) = (("state", "Seoul"), ("city", "mapo"), ("town", "망원동"));
    let decomposed =
        ("town", "\u{1106}\u{1161}\u{11bc}\u{110b}\u{116f}\u{11ab}\u{1103}\u{1169}\u{11bc}");
    for area in [
        &[][..],
        &[state],
        &[("state", "서울")],
        &[city],
        &[state, ("city", "서울 마포구")],
        &[city, town],
        &[state, city, decomposed],
    ] {
        for more in [
            &[][..],
            &[("category", "sports")],
            &[("sort", "price")],
            &[("sort", "-price"), ("limit", "1")],
        ] {
            let page = server.get(&listing(&[area, more].concat()));
            assert_eq!(
                page.json(),
                json!({"items": [item], "nextCursor": null}),
                "{area:?} {more:?}"
            );
        }
    }
    for elsewhere in [
        &[("state", "경기도")][..],
        &[("city", "종로구")],
        &[city, ("town", "합정동")],
        &[("category", "books")],
    ] {
        assert_eq!(ids(&server.get(&listing(elsewhere))), [0; 0], "{elsewhere:?}");
    }
}

#[test]
fn there_are_twelve_categories_with_names_in_two_languages() {
    let server = start();
    let answer = server.get("/v1/categories");
    let items = answer.json()["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 12);
    assert_eq!(
        items[0],
        json!({"id": 1, "slug": "digital", "name": "디지털기기", "nameEnglish": "Digital devices"})
    );
    let tag = answer.header("etag").unwrap();
    assert_eq!(server.get_with("/v1/categories", &[("If-None-Match", tag)]).status, 304);
}

#[test]
fn only_its_owner_changes_or_removes_a_post() {
    let server = start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let id = made(&server, &mina, &bicycle());
    let path = format!("/v1/posts/{id}");
    let before = server.get(&path).json();
    patch(&server, &juno, id, &json!({"price": 1})).problem(403);
    server.delete(&path, Some(&juno)).problem(403);
    server.delete(&path, None).problem(401);
    server.connect().json("PATCH", &path, None, &json!({"price": 1})).problem(401);
    server.post("/v1/posts", None, &bicycle()).problem(401);
    assert_eq!(server.get(&path).json(), before);

    let changed = patch(
        &server,
        &mina,
        id,
        &json!({"price": 90_000, "status": "reserved", "note": 1, "title": null}),
    );
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.header("cache-control"), Some("private, no-cache"));
    let mut after = before.clone();
    after["price"] = json!(90_000);
    after["status"] = json!("reserved");
    after["updatedAt"] = changed.json()["updatedAt"].clone();
    assert_eq!(changed.json(), after);
    assert_eq!(server.get(&path).json(), after);
    assert_eq!(
        patch(&server, &mina, id, &json!({})).json(),
        after,
        "nothing asked, nothing changed"
    );

    assert_eq!(server.delete(&path, Some(&mina)).status, 204);
    server.get(&path).problem(404);
    patch(&server, &mina, id, &json!({"price": 1})).problem(404);
    server.delete(&path, Some(&mina)).problem(404);
    for gone in ["0", "-1", "x", "9223372036854775808", "999"] {
        server.get(&format!("/v1/posts/{gone}")).problem(404);
    }
}

#[test]
fn a_post_that_moves_leaves_the_listings_it_was_in() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    let seen = |area: &[(&str, &str)]| ids(&server.get(&listing(area)));
    let (mapo, mangwon) = ([("city", "마포구")], [("city", "마포구"), ("town", "망원동")]);
    let bundang = [("city", "분당구"), ("town", "정자동")];
    let seongnam = [("city", "성남시"), ("town", "정자동")];
    for area in [&mapo[..], &mangwon, &bundang, &seongnam] {
        seen(area);
    }
    assert_eq!(patch(&server, &mina, id, &json!({"town": "합정동"})).status, 200);
    assert_eq!((seen(&mapo), seen(&mangwon)), (vec![id], vec![]));
    let to =
        json!({"state": "경기도", "city": "성남시 분당구", "town": "정자동", "category": "books"});
    assert_eq!(patch(&server, &mina, id, &to).status, 200);
    assert_eq!((seen(&mapo), seen(&bundang), seen(&seongnam)), (vec![], vec![id], vec![id]));
    assert_eq!(seen(&[("city", "성남시"), ("category", "books")]), [id]);
    assert_eq!(seen(&[("category", "sports")]), [0; 0]);
}

#[test]
fn a_key_makes_one_post_and_a_reused_one_is_refused() {
    let server = start();
    let mina = server.somebody("mina");
    let bearer = mina.bearer();
    let headers = [
        ("Content-Type", "application/json"),
        ("Authorization", &*bearer),
        ("Idempotency-Key", "k"),
    ];
    let send =
        |body: &Value| server.connect().send_body("POST", "/v1/posts", &headers, body.to_string());
    let (first, again) = (send(&bicycle()), send(&bicycle()));
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json(), again.json());
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    send(&with("price", json!(1))).problem(422);
    assert_eq!(ids(&server.get("/v1/posts")).len(), 1);
}

#[test]
fn of_64_changes_at_once_each_is_seen_by_whoever_made_it() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    let path = format!("/v1/posts/{id}");
    let together = Barrier::new(64);
    std::thread::scope(|scope| {
        for n in 0..64 {
            let (server, mina, together, path) = (&server, &mina, &together, &path);
            scope.spawn(move || {
                together.wait();
                let answer = patch(server, mina, id, &json!({"price": 1000 + n}));
                assert_eq!(answer.json()["price"], json!(1000 + n));
                // Another change may have come after it, but never the first state again.
                let seen = server.get(path).json()["price"].as_i64().unwrap();
                assert!((1000..1064).contains(&seen), "{seen}");
            });
        }
    });
    let last = server.get(&path).json();
    let item = server.get("/v1/posts?city=%EB%A7%88%ED%8F%AC%EA%B5%AC").json()["items"][0].clone();
    assert_eq!(last["price"], item["price"], "the listing shows what the post does");
}

#[test]
fn bodies_for_all_say_nothing_of_people_but_the_nickname() {
    let server = start();
    let mina = server.somebody("mina");
    let id = made(&server, &mina, &bicycle());
    let list = server.get_with("/v1/posts", &[("Authorization", &mina.bearer())]);
    assert!(!list.text().contains("mina"), "{}", list.text());
    let one = server.get_with(&format!("/v1/posts/{id}"), &[("Authorization", &mina.bearer())]);
    let names: HashSet<_> = one.json().as_object().unwrap().keys().cloned().collect();
    for private in ["region", "regionName", "email", "password", "userId", "authorId", "mine"] {
        assert!(!names.contains(private), "{names:?}");
    }
    // The same bytes for everybody, so that they may be kept for everybody.
    assert_eq!(one.body, server.get(&format!("/v1/posts/{id}")).body);
}

#[test]
fn of_a_deleted_account_posts_stay_and_its_token_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let id = made(&server, &mina, &bicycle());
    // As an operator would, with a client that does not look at foreign keys.
    database::execute(
        dir.path(),
        "PRAGMA foreign_keys = OFF; DELETE FROM users WHERE nickname = 'mina'",
    );
    let path = format!("/v1/posts/{id}");
    assert_eq!(server.get(&path).json()["author"], Value::Null);
    assert_eq!(ids(&server.get("/v1/posts")), [id]);
    server.post("/v1/posts", Some(&mina), &bicycle()).problem(401);
    patch(&server, &mina, id, &json!({"price": 1})).problem(401);
    server.delete(&path, Some(&mina)).problem(401);
    server.delete(&path, Some(&juno)).problem(403);
    assert_eq!(server.get(&path).json()["price"], json!(120_000));
}

#[test]
fn with_first_pages_only_later_pages_are_read_each_time() {
    let loads = |settings: &[(&str, &str)]| {
        let server =
            settings.iter().fold(Setup::new().cheap_hash(), |s, (k, v)| s.set(k, v)).start();
        let mina = server.somebody("mina");
        for _ in 0..3 {
            made(&server, &mina, &bicycle());
        }
        let first = server.get("/v1/posts?limit=2").json();
        let later = format!("/v1/posts?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
        let label = "cache=\"post_lists\"";
        let before = server.metric("madang_cache_loads_total", &[label]);
        for _ in 0..5 {
            server.get("/v1/posts?limit=2");
            assert_eq!(ids(&server.get(&later)).len(), 1);
        }
        server.metric("madang_cache_loads_total", &[label]) - before
    };
    assert_eq!(loads(&[]), 3.0, "each page twice, one of them before");
    assert_eq!(loads(&[("cache.first_pages_only", "on")]), 6.0, "the later page each time");
    assert_eq!(loads(&[("cache.ttl.lists", "0")]), 10.0, "nothing is kept");
}

#[test]
fn a_listing_is_made_in_an_encoding_when_somebody_asks_for_it() {
    let server = start();
    let mina = server.somebody("mina");
    for _ in 0..20 {
        made(&server, &mina, &bicycle());
    }
    let loads = || server.metric("madang_cache_loads_total", &["cache=\"post_lists\""]);
    let get = |accept: &str| server.get_with("/v1/posts", &[("Accept-Encoding", accept)]);
    let plain = get("identity");
    assert_eq!((plain.header("content-encoding"), loads()), (None, 1.0));
    let mut tags = HashSet::from([plain.header("etag").unwrap().to_owned()]);
    for (already, encoding) in (1u8..).zip(["br", "zstd", "gzip"]) {
        for _ in 0..4 {
            let answer = get(encoding);
            assert_eq!(answer.header("content-encoding"), Some(encoding));
            assert_eq!(answer.decoded(), plain.body);
            tags.insert(answer.header("etag").unwrap().to_owned());
        }
        assert_eq!(
            loads(),
            2.0 * f64::from(already) + 1.0,
            "{encoding} is made for its own clients, until it is kept"
        );
    }
    assert_eq!(tags.len(), 4, "{tags:?}");
    // A write ends them all.
    made(&server, &mina, &bicycle());
    for accept in ["identity", "br", "zstd", "gzip"] {
        let items: Value = serde_json::from_slice(&get(accept).decoded()).unwrap();
        assert_eq!(items["items"].as_array().map(Vec::len), Some(20), "{accept}");
        assert!(items["items"][0]["id"].as_i64() > Some(20), "{accept}: {items}");
    }
}
