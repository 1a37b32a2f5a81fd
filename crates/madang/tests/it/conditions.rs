//! Writes with `If-Match` and `If-None-Match`: nothing is lost that somebody else wrote meanwhile.

use crate::harness::client::Answer;
use crate::harness::{Person, Server, Setup};
use serde_json::{Value, json};

fn start() -> Server {
    Setup::new().cheap_hash().start()
}

fn send(
    server: &Server,
    by: &Person,
    method: &str,
    path: &str,
    condition: (&str, &str),
    body: Option<&Value>,
) -> Answer {
    let bearer = by.bearer();
    let mut headers = vec![("Authorization", bearer.as_str()), condition];
    let Some(body) = body else { return server.connect().request(method, path, &headers) };
    headers.push(("Content-Type", "application/json"));
    server.connect().send_body(method, path, &headers, body.to_string())
}

/// Asserts a 412 and that it says so.
fn fails(answer: &Answer) {
    assert_eq!(answer.problem(412)["type"], "urn:madang:problem:precondition-failed");
}

fn get(server: &Server, by: &Person, path: &str, encoding: &str) -> Answer {
    let bearer = by.bearer();
    let headers = [("Authorization", bearer.as_str()), ("Accept-Encoding", encoding)];
    server.connect().request("GET", path, &headers)
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").unwrap_or_else(|| panic!("no tag: {}", answer.text())).to_owned()
}

/// Tags of the resource in every encoding.
fn tags(server: &Server, by: &Person, path: &str) -> Vec<String> {
    ["identity", "gzip", "br", "zstd"]
        .iter()
        .map(|encoding| tag(&get(server, by, path, encoding)))
        .collect()
}

/// Somebody's resources that can be changed or deleted, each with a change, long enough to be compressed.
fn resources(server: &Server, by: &Person) -> Vec<(String, Option<Value>)> {
    let long = "길고 긴 이야기. ".repeat(200);
    // No point of it can be left out.
    let zigzag = |i: i32| json!([37.0 + 0.001 * f64::from(i), 127.0 + 0.001 * f64::from(i % 2)]);
    let line: Vec<_> = (0..200).map(zigzag).collect();
    let made = |path: &str, body: &Value| {
        let answer = server.post(path, Some(by), body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        format!("{path}/{}", answer.json()["id"])
    };
    let post = json!({
        "title": "자전거", "content": long, "itemName": "자전거", "price": 1000, "stock": 1,
        "category": "sports", "state": "서울", "city": "마포구", "town": "망원동",
    });
    let schedule = json!({
        "title": "달리기", "locationId": 1, "startAt": "2027-01-01T10:00:00+09:00",
        "endAt": "2027-01-01T11:00:00+09:00",
    });
    vec![
        (
            made("/v1/articles", &json!({"title": "글", "content": long})),
            Some(json!({"title": "새 글"})),
        ),
        (made("/v1/posts", &post), Some(json!({"price": 900}))),
        (made("/v1/schedules", &schedule), None),
        (made("/v1/tracks", &json!({"name": "길", "segments": [line]})), None),
    ]
}

#[test]
fn a_change_is_made_only_of_the_version_that_was_read() {
    let server = start();
    let mina = server.somebody("mina");
    for (path, change) in resources(&server, &mina) {
        let Some(change) = change else { continue };
        let before = get(&server, &mina, &path, "identity");
        let stale = "\"0123456789abcdef01234567\"";
        for condition in [("If-Match", stale), ("If-Match", "W/\"x\""), ("If-None-Match", "*")] {
            fails(&send(&server, &mina, "PATCH", &path, condition, Some(&change)));
        }
        let known = ("If-None-Match", tag(&before));
        fails(&send(&server, &mina, "PATCH", &path, (known.0, &known.1), Some(&change)));
        assert_eq!(get(&server, &mina, &path, "identity").body, before.body, "nothing was done");

        let first = tag(&before);
        let changed = send(&server, &mina, "PATCH", &path, ("If-Match", &first), Some(&change));
        assert_eq!(changed.status, 200, "{path}: {}", changed.text());
        fails(&send(&server, &mina, "PATCH", &path, ("If-Match", &first), Some(&change)));
        // The answer's own tag is that of the new version.
        let again =
            send(&server, &mina, "PATCH", &path, ("If-Match", &tag(&changed)), Some(&change));
        assert_eq!(again.status, 200, "{path}: {}", again.text());
    }
}

#[test]
fn the_tag_of_any_encoding_will_do_also_for_a_deletion() {
    let server = start();
    let mina = server.somebody("mina");
    for (path, change) in resources(&server, &mina) {
        let tags = tags(&server, &mina, &path);
        let short = path.contains("schedules");
        assert_eq!(tags[0] == tags[1], short, "{path}: what is long is compressed");
        for tag in tags.iter().filter(|_| change.is_some()) {
            // Changes nothing, so the version stays.
            let same = send(&server, &mina, "PATCH", &path, ("If-Match", tag), Some(&json!({})));
            assert_eq!(same.status, 200, "{path} {tag}");
        }
        fails(&send(&server, &mina, "DELETE", &path, ("If-Match", "\"other\""), None));
        fails(&send(&server, &mina, "DELETE", &path, ("If-None-Match", &tags[1]), None));
        assert_eq!(get(&server, &mina, &path, "identity").status, 200, "it is still there");
        let list = format!("\"other\", {}", tags.last().unwrap());
        assert_eq!(send(&server, &mina, "DELETE", &path, ("If-Match", &list), None).status, 204);
        assert_eq!(send(&server, &mina, "DELETE", &path, ("If-Match", "*"), None).status, 404);
    }
}

#[test]
fn every_body_of_a_track_has_a_tag_that_will_do() {
    let server = start();
    let mina = server.somebody("mina");
    let path = resources(&server, &mina).remove(3).0;
    let gpx = server.get_with(&path, &[("Accept", "application/gpx+xml")]);
    let low = server.get(&format!("{path}?detail=low&encoding=polyline"));
    assert_ne!(tag(&gpx), tag(&low));
    // Refused for the other header, so that both can be tried.
    for answer in [&gpx, &low] {
        fails(&send(&server, &mina, "DELETE", &path, ("If-None-Match", &tag(answer)), None));
    }
    assert_eq!(send(&server, &mina, "DELETE", &path, ("If-Match", &tag(&low)), None).status, 204);
}

#[test]
fn a_like_or_a_comment_is_no_change_of_the_article() {
    let server = start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let (path, change) = resources(&server, &mina).remove(0);
    let read = tag(&get(&server, &mina, &path, "gzip"));
    let liked = send(&server, &juno, "PUT", &format!("{path}/like"), ("Accept", "*/*"), None);
    assert_eq!(liked.status, 200);
    let comment = json!({"content": "좋네요"});
    assert_eq!(server.post(&format!("{path}/comments"), Some(&juno), &comment).status, 201);
    let now = get(&server, &mina, &path, "gzip");
    assert_ne!(tag(&now), read, "the answer is another one");
    let changed = send(&server, &mina, "PATCH", &path, ("If-Match", &read), change.as_ref());
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["likeCount"], 1);
}

#[test]
fn of_many_changes_of_one_version_one_is_made() {
    let server = start();
    let mina = server.somebody("mina");
    let (path, _) = resources(&server, &mina).remove(0);
    let read = tag(&get(&server, &mina, &path, "identity"));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let each = |n: usize| {
            let (server, mina, path, read) = (&server, &mina, &path, &read);
            scope.spawn(move || {
                let change = json!({"title": format!("제목 {n}")});
                send(server, mina, "PATCH", path, ("If-Match", read), Some(&change)).status
            })
        };
        let all: Vec<_> = (0..16).map(each).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 15, "{statuses:?}");
}

#[test]
fn who_may_not_learns_nothing_from_a_condition() {
    let server = start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    for (path, change) in resources(&server, &mina) {
        let status = if path.contains("schedules") { 404 } else { 403 };
        for condition in [("If-Match", "\"other\""), ("If-Match", "*")] {
            send(&server, &juno, "DELETE", &path, condition, None).problem(status);
            if change.is_some() {
                send(&server, &juno, "PATCH", &path, condition, change.as_ref()).problem(403);
            }
        }
    }
}

#[test]
fn what_has_no_tag_is_deleted_under_a_star_alone() {
    let server = start();
    let mina = server.somebody("mina");
    let (path, _) = resources(&server, &mina).remove(0);
    let comments = format!("{path}/comments");
    let made = server.post(&comments, Some(&mina), &json!({"content": "x"})).json();
    for one in [format!("{comments}/{}", made["id"]), format!("{path}/like")] {
        fails(&send(&server, &mina, "DELETE", &one, ("If-Match", "\"x\""), None));
        let done = send(&server, &mina, "DELETE", &one, ("If-Match", "*"), None);
        assert!(matches!(done.status, 200 | 204), "{}", done.status);
    }
}
