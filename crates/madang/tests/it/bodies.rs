//! JSON bodies: what is no JSON, what is JSON of a wrong shape, and what is taken.

use crate::harness::{Answer, Server, Setup};
use crate::schedules::plan;

const LOGIN: &str = "/v1/auth/user/login";
const JSON: &str = "application/json";

/// A POST to the log-in with this body and these headers.
fn post(server: &Server, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
    server.connect().send_body("POST", LOGIN, headers, body)
}

fn json(server: &Server, body: impl AsRef<[u8]>) -> Answer {
    post(server, &[("Content-Type", JSON)], body)
}

#[test]
fn a_body_that_is_no_json_is_400_and_its_text_is_not_repeated() {
    let server = Setup::new().start();
    let broken: &[&[u8]] = &[
        b"",
        b"{",
        b"{\"password\":\"hunter2hunter2\"",
        b"{\"password\":\"hunter2hunter2\",}",
        b"{\"password\":\"hunter2hunter2\"} x",
        b"{\"password\":\"hunter2hunter2\",\"password\":\"hunter2hunter2\"}",
        b"{\"password\":\"hunter2hunter2\",\"\\u0070assword\":\"hunter2hunter2\"}",
        b"{\"other\":{\"a\":1,\"a\":2}}",
        b"{\"nickname\":\"\\ud83d\"}",
        b"{\"nickname\":\"\xff\xfe\"}",
        b"{\"nickname\":\"a\nb\"}",
        b"{\"n\":1e999}",
        b"\"hunter2hunter2",
        b"nickname=mina&password=hunter2hunter2",
    ];
    for body in broken {
        let answer = json(&server, body);
        let problem = answer.problem(400);
        assert_eq!(problem["type"], "urn:madang:problem:bad-request");
        assert!(!answer.text().contains("hunter2"), "{}", answer.text());
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(30_000), "]".repeat(30_000));
    json(&server, deep).problem(400);
    assert!(!server.log().contains("hunter2"));
    server.is_well();
}

#[test]
fn json_of_a_wrong_shape_is_422_and_names_every_field() {
    let server = Setup::new().start();
    for body in ["[]", "null", "7", "\"mina\"", "[{\"nickname\":\"mina\"}]"] {
        assert_eq!(json(&server, body).wrong_fields(), ["(body)"], "{body}");
    }
    for body in ["{}", "{\"nickname\":null}", "{\"nickname\":7,\"password\":[\"x\"]}"] {
        assert_eq!(json(&server, body).wrong_fields(), ["nickname", "password"], "{body}");
    }
}

#[test]
fn only_json_in_utf_8_without_a_coding_is_taken() {
    let server = Setup::new().start();
    // The fields are missing: what is taken for JSON is answered 422.
    for taken in [JSON, "Application/JSON; Charset=\"UTF-8\""] {
        post(&server, &[("Content-Type", taken)], "{}").problem(422);
    }
    for refused in [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/merge-patch+json",
        "application/json; charset=euc-kr",
        "",
    ] {
        post(&server, &[("Content-Type", refused)], "{}").problem(415);
    }
    post(&server, &[], "{}").problem(415);
    post(&server, &[("Content-Type", JSON), ("Content-Type", "text/plain")], "{}").problem(415);
    let coded = [("Content-Type", JSON), ("Content-Encoding", "gzip")];
    post(&server, &coded, "{}").problem(415);
    post(&server, &[("Content-Type", JSON), ("Content-Encoding", "identity")], "{}").problem(422);
}

#[test]
fn a_body_in_chunks_is_read_like_any_other() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    connection.send(format!(
        "POST {LOGIN} HTTP/1.1\r\nHost: test\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n"
    ));
    assert_eq!(connection.answer().unwrap().wrong_fields(), ["nickname", "password"]);
}

#[test]
fn fields_nobody_asks_for_are_ignored_and_escapes_are_what_they_stand_for() {
    let server = Setup::new().cheap_hash().start();
    let mina = server.somebody("mina");
    let mut body = plan("걷기", 1);
    body["repeat"] = serde_json::json!({"every": ["day", {"until": null}]});
    let text = body.to_string().replace("걷기", "\\uac77\\uae30 \\ud83c\\udfc3");
    let bearer = mina.bearer();
    let headers = [("Content-Type", JSON), ("Authorization", bearer.as_str())];
    let made = server.connect().send_body("POST", "/v1/schedules", &headers, text);
    assert_eq!(made.status, 201, "{}", made.text());
    let path = made.header("location").unwrap().to_owned();
    let stored = server.get_with(&path, &[("Authorization", &bearer)]).json();
    assert_eq!(stored["title"], "걷기 🏃");
}

#[test]
fn a_body_with_more_than_any_object_needs_is_refused() {
    let server = Setup::new().start();
    let long = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
    json(&server, long(60_000)).problem(422);
    json(&server, long(70_000)).problem(413);
    let many: Vec<_> = (0..300).map(|n| format!("\"{n}\":0")).collect();
    json(&server, format!("{{{}}}", many.join(","))).problem(400);
    server.is_well();
}

#[test]
fn with_a_token_an_object_may_be_larger_than_without() {
    let server = Setup::new().cheap_hash().start();
    let bearer = server.somebody("mina").bearer();
    let sent = |bearer: &str, bytes: usize| {
        let headers = [("Content-Type", JSON), ("Authorization", bearer)];
        let body = format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
        server.connect().send_body("POST", "/v1/schedules", &headers, body)
    };
    sent(&bearer, 200_000).problem(422);
    sent(&bearer, 300_000).problem(413);
    sent("Bearer x", 70_000).problem(413);
    sent("Bearer x", 60_000).problem(401);
}
