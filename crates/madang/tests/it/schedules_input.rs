//! Bodies of schedules at and beyond their limits.

use crate::harness::{Answer, Person, Server};
use crate::schedules::{all, get, made, plan, start};
use serde_json::{Value, json};

/// The plan with one field replaced.
fn with(field: &str, value: Value) -> Value {
    let mut body = plan("a walk", 0);
    body[field] = value;
    body
}

fn post(server: &Server, by: &Person, body: &Value) -> Answer {
    server.post("/v1/schedules", Some(by), body)
}

#[test]
fn every_field_that_is_wrong_or_missing_is_named_at_once() {
    let server = start();
    let mina = server.somebody("mina");
    let fields = ["title", "locationId", "startAt", "endAt"];
    assert_eq!(post(&server, &mina, &json!({})).wrong_fields(), fields);
    let wrong = json!({"title": "", "locationId": "1", "startAt": "soon", "endAt": 7});
    assert_eq!(post(&server, &mina, &wrong).wrong_fields(), fields);
    for field in fields {
        for value in [json!(null), json!(true), json!([]), json!({}), json!([1]), json!("")] {
            let answer = post(&server, &mina, &with(field, value.clone()));
            assert_eq!(answer.wrong_fields(), [field], "{field}: {value}");
        }
    }
    assert_eq!(all(&server, &mina, 20).len(), 0, "nothing was stored");
}

#[test]
fn a_title_has_up_to_a_hundred_characters_on_one_line() {
    let server = start();
    let mina = server.somebody("mina");
    for title in
        ["x", "🏃", &"가".repeat(100), &"🏃".repeat(100), " a ", "\"\\'; DROP TABLE schedules; --"]
    {
        let id = made(&server, &mina, &with("title", json!(title)));
        let stored = get(&server, &mina, &format!("/v1/schedules/{id}")).json();
        assert_eq!(stored["title"], json!(title));
    }
    let decomposed = "\u{1112}\u{1161}\u{11ab}".repeat(100);
    let id = made(&server, &mina, &with("title", json!(decomposed)));
    let stored = get(&server, &mina, &format!("/v1/schedules/{id}")).json();
    assert_eq!(stored["title"], json!("한".repeat(100)));
    for title in [
        &*"가".repeat(101),
        &"x".repeat(100_000),
        " ",
        "\u{3000}",
        "\u{0}",
        "a\u{0}b",
        "two\nlines",
        "a\ttab",
        "\u{1b}[31m",
        "\u{2028}",
    ] {
        let answer = post(&server, &mina, &with("title", json!(title)));
        assert_eq!(answer.wrong_fields(), ["title"], "{title:.20}");
    }
}

#[test]
fn a_place_is_one_there_is() {
    let server = start();
    let mina = server.somebody("mina");
    for place in [json!(1), json!(39), json!(2.0), json!(3e0)] {
        made(&server, &mina, &with("locationId", place));
    }
    for place in
        [json!(0), json!(-1), json!(40), json!(i64::MAX), json!(1.5), json!(1e30), json!("1")]
    {
        let answer = post(&server, &mina, &with("locationId", place.clone()));
        assert_eq!(answer.wrong_fields(), ["locationId"], "{place}");
    }
}

#[test]
fn a_time_may_have_any_offset_and_must_have_one() {
    let server = start();
    let mina = server.somebody("mina");
    for (start, utc) in [
        ("2027-01-01T12:00:00Z", "2027-01-01T12:00:00.000Z"),
        ("2027-01-01t12:00:00z", "2027-01-01T12:00:00.000Z"),
        ("2027-01-02T02:00:00+14:00", "2027-01-01T12:00:00.000Z"),
        ("2027-01-01T00:00:00-12:00", "2027-01-01T12:00:00.000Z"),
        ("2027-01-01T12:00:00-00:00", "2027-01-01T12:00:00.000Z"),
        ("2027-01-01T12:00:00.123456789Z", "2027-01-01T12:00:00.123Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.998Z", "9999-12-31T23:59:59.998Z"),
    ] {
        let mut body = with("startAt", json!(start));
        let year = &utc[..4];
        let end = if year == "2027" {
            "2027-01-01T13:00:00Z".to_owned()
        } else {
            format!("{year}-12-31T23:59:59.999Z")
        };
        body["endAt"] = if year == "2016" { json!("2017-01-01T00:00:00Z") } else { json!(end) };
        let id = made(&server, &mina, &body);
        let stored = get(&server, &mina, &format!("/v1/schedules/{id}")).json();
        assert_eq!(stored["startAt"], utc, "{start}");
    }
    for time in [
        "2027-01-01T12:00:00", "2027-01-01", "2027-01-01T12:00Z", "2027-01-01T12:00:00+0900",
        "2027-01-01T12:00:00+24:00", "2027-02-29T12:00:00Z", "2027-01-01T24:00:00Z",
        "2027-01-01T12:00:60Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-00:01",
        "10000-01-01T00:00:00Z", "1798761600", "２027-01-01T12:00:00Z",
    ] {
        for field in ["startAt", "endAt"] {
            let answer = post(&server, &mina, &with(field, json!(time)));
            assert_eq!(answer.wrong_fields(), [field], "{time}");
        }
    }
}

#[test]
fn a_schedule_ends_after_it_begins_and_within_366_days() {
    let server = start();
    let mina = server.somebody("mina");
    let between = |start: &str, end: &str| {
        let mut body = with("startAt", json!(start));
        body["endAt"] = json!(end);
        post(&server, &mina, &body)
    };
    let start = "2027-01-01T00:00:00Z";
    for end in [
        start, "2027-01-01T09:00:00+09:00", "2026-12-31T23:59:59.999Z", "2028-01-02T00:00:00.001Z",
        "9999-12-31T23:59:59Z",
    ] {
        assert_eq!(between(start, end).wrong_fields(), ["endAt"], "{end}");
    }
    for end in ["2027-01-01T00:00:00.001Z", "2027-01-01T00:00:01-12:00", "2028-01-02T00:00:00Z"] {
        assert_eq!(between(start, end).status, 201, "{end}");
    }
    // Finer than what is kept: equal once stored.
    assert_eq!(
        between("2027-01-01T00:00:00.0001Z", "2027-01-01T00:00:00.0009Z").wrong_fields(),
        ["endAt"]
    );
}

#[test]
fn what_is_no_json_object_is_refused_by_its_kind() {
    let server = start();
    let mina = server.somebody("mina");
    let bearer = mina.bearer();
    let send = |kind: &str, body: &[u8]| {
        let headers = [("Content-Type", kind), ("Authorization", bearer.as_str())];
        server.connect().send_body("POST", "/v1/schedules", &headers, body)
    };
    let good = plan("a walk", 0).to_string();
    let twice = good.replacen('{', "{\"title\":\"first\",", 1);
    for body in
        [&b""[..], b"{", b"title=x", b"{\"title\":\"\xff\"}", b"{'title':1}", twice.as_bytes()]
    {
        let status = send("application/json", body).status;
        assert_eq!(status, 400, "{}", String::from_utf8_lossy(body));
    }
    for body in [&b"[]"[..], b"1", b"null", b"\"x\""] {
        send("application/json", body).problem(422);
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""] {
        send(kind, good.as_bytes()).problem(415);
    }
    let deep = "[".repeat(10_000);
    assert_eq!(send("application/json", format!("{{\"title\":{deep}").as_bytes()).status, 400);
    // Announced only: the server answers and closes without reading it, and a client that is still
    // sending then may lose the answer.
    let length = (2u32 << 20).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Authorization", bearer.as_str()),
        ("Content-Length", length.as_str()),
    ];
    server.connect().request("POST", "/v1/schedules", &headers).problem(413);
    assert_eq!(all(&server, &mina, 20).len(), 0);
    server.is_well();
}
