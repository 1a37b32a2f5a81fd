//! Bodies of register and log-in at and beyond every limit.

use super::accounts::{log_in, new_user, register, start};
use crate::harness::{Answer, PASSWORD, Server, Setup};
use serde_json::{Value, json};

const REGISTER: &str = "/v1/auth/user/register";
const LOGIN: &str = "/v1/auth/user/login";

/// A server that limits nobody: these tests fail a lot on purpose.
fn unlimited() -> Server {
    Setup::new().cheap_hash().set("accounts.guard", "off").start()
}

fn post(server: &Server, path: &str, kind: &str, body: impl AsRef<[u8]>) -> Answer {
    server.connect().send_body("POST", path, &[("Content-Type", kind)], body)
}

/// A sign-up with one field changed, or left out by null.
fn with(field: &str, value: Value) -> Value {
    let mut body = new_user("somebody");
    if value.is_null() {
        body.as_object_mut().unwrap().remove(field);
    } else {
        body[field] = value;
    }
    body
}

#[test]
fn nicknames_at_their_limits_are_accepted_and_beyond_refused() {
    let server = unlimited();
    let (long, long_hangul) = ("x".repeat(64), "가".repeat(64));
    for good in ["ab", "가나", "_-", "A9", "ㅋㅋ", &long, &long_hangul] {
        let answer = register(&server, &with("nickname", json!(good)));
        assert_eq!(answer.status, 201, "{good}: {}", answer.text());
        assert_eq!(answer.json()["nickname"], *good);
    }
    let (longer, longer_hangul) = ("x".repeat(65), "가".repeat(65));
    for bad in [
        "", "a", "가", " ", "a b", " ab", "ab ", "a.b", "a@b.c", "<script>", "a\u{0}b", "a\nb",
        "é́é", "ｍｉｎａ", "漢字", "🙂🙂", "\u{3164}\u{3164}", "ab\u{200B}",
        "'; DROP TABLE users; --", &longer, &longer_hangul,
    ] {
        let answer = register(&server, &with("nickname", json!(bad)));
        assert_eq!(answer.wrong_fields()[0], "nickname", "{bad:?}");
    }
}

#[test]
fn passwords_count_bytes_and_none_is_forbidden() {
    let server = unlimited();
    let longest = "p".repeat(1024);
    let hangul = "가".repeat(341) + "a";
    for (name, good) in [
        ("p1", "12345678"),
        ("p2", "password"),
        ("p3", "        "),
        ("p4", "가나다"),
        ("p5", "🙂🙂"),
        ("p6", r#"quote"\back"#),
        ("p7", &longest),
        ("p8", &hangul),
    ] {
        let body = json!({"nickname": name, "password": good, "region_name": "Seoul"});
        let answer = register(&server, &body);
        assert_eq!(answer.status, 201, "{good}: {}", answer.text());
        assert_eq!(log_in(&server, name, good).status, 200, "{good}");
        // bcrypt reads 72 bytes: what lies beyond must count all the same.
        let almost = format!("{}!", &good[..good.char_indices().last().unwrap().0]);
        assert_eq!(log_in(&server, name, &almost).status, 401, "{almost}");
    }
    let (longer, longer_hangul) = ("p".repeat(1025), "가".repeat(342));
    for bad in ["", "1234567", "가나", &longer, &longer_hangul, "tab\tulator", "nul\u{0}nul"] {
        let answer = register(&server, &with("password", json!(bad)));
        assert_eq!(answer.wrong_fields(), ["password"], "{bad:?}");
    }
}

#[test]
fn regions_are_found_by_old_and_new_names_in_two_languages() {
    let server = unlimited();
    for (i, (name, understood)) in [
        ("서울특별시", "서울특별시"),
        ("Seoul", "서울특별시"),
        ("강원도", "강원특별자치도"),
        ("강원특별자치도", "강원특별자치도"),
        ("전라북도", "전북특별자치도"),
        ("전북특별자치도", "전북특별자치도"),
        ("종로구", "서울특별시 종로구"),
        ("부산 중구", "부산광역시 중구"),
        ("Jung-gu, Busan", "부산광역시 중구"),
        ("수원시", "경기도 수원시"),
    ]
    .into_iter()
    .enumerate()
    {
        let body =
            json!({"nickname": format!("user{i}"), "password": PASSWORD, "region_name": name});
        let answer = register(&server, &body);
        assert_eq!(answer.status, 201, "{name}: {}", answer.text());
        assert_eq!(answer.json()["regionName"], understood, "{name}");
    }
    for bad in ["", "Atlantis", "평양", &"서울".repeat(1000), "%", "' OR 1=1 --", "11"] {
        let answer = register(&server, &with("region_name", json!(bad)));
        assert_eq!(answer.wrong_fields(), ["region_name"], "{bad}");
    }
    let problem = register(&server, &with("region_name", json!("중구"))).problem(422);
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("서울특별시 중구") && detail.contains("부산광역시 중구"), "{detail}");
}

#[test]
fn missing_fields_and_wrong_types_are_all_named() {
    let server = unlimited();
    let all = ["nickname", "password", "region_name"];
    for body in [json!({}), json!({"nickname": null, "password": null, "region_name": null})] {
        assert_eq!(register(&server, &body).wrong_fields(), all);
    }
    assert_eq!(server.post(LOGIN, None, &json!({})).wrong_fields(), ["nickname", "password"]);
    for wrong in [json!(12_345_678), json!(true), json!(["mina"]), json!({"a": "b"}), json!(1.5)] {
        for field in all {
            let answer = register(&server, &with(field, wrong.clone()));
            assert_eq!(answer.wrong_fields(), [field], "{wrong}");
        }
        let body = json!({"nickname": wrong, "password": wrong});
        assert_eq!(server.post(LOGIN, None, &body).wrong_fields(), ["nickname", "password"]);
        let body = json!({"nickname": "mina", "password": PASSWORD, "altcha": wrong});
        assert_eq!(server.post(LOGIN, None, &body).wrong_fields(), ["altcha"]);
    }
}

#[test]
fn what_is_no_json_object_is_refused_by_kind() {
    let server = unlimited();
    for path in [REGISTER, LOGIN] {
        for broken in
            ["", "{", "nickname=mina", r#"{"nickname":"a"} x"#, "{'nickname':'a'}", "\u{FEFF}"]
        {
            post(&server, path, "application/json", broken).problem(400);
        }
        let good = r#"{"nickname":"mina","password":"right-horse-battery","region_name":"Seoul""#;
        let twice = format!(r#"{good},"password":"another-password"}}"#);
        for odd in
            [&twice[..], "\"\\ud800\"", "{\"nickname\":\"\\ud800\",\"password\":\"12345678\"}"]
        {
            let status = post(&server, path, "application/json", odd).status;
            assert!(matches!(status, 400 | 422), "{odd}: {status}");
        }
        for other in ["[]", "null", "7", "\"text\""] {
            post(&server, path, "application/json", other).problem(422);
        }
        let latin =
            b"{\"nickname\":\"caf\xe9\",\"password\":\"12345678\",\"region_name\":\"Seoul\"}";
        post(&server, path, "application/json", latin).problem(400);
        let utf16: Vec<u8> =
            format!("{good}}}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        post(&server, path, "application/json", utf16).problem(400);
        for kind in ["application/x-www-form-urlencoded", "text/plain", "application/xml"] {
            post(&server, path, kind, format!("{good}}}")).problem(415);
        }
        let huge = format!(r#"{good},"more":"{}"}}"#, "x".repeat(300 * 1024));
        post(&server, path, "application/json", huge).problem(413);
        let deep = "[".repeat(50_000);
        post(&server, path, "application/json", deep).problem(400);
        server.get(path).problem(405);
    }
    server.is_well();
}

#[test]
fn what_cannot_be_a_name_or_a_password_is_wrong_like_any_other() {
    let server = unlimited();
    server.somebody("mina");
    let hashed = || server.metric("madang_hash_done_total", &[]);
    let (long_name, long_password) = ("x".repeat(200), "p".repeat(5000));
    for (nickname, password) in [
        ("mina", "wrong-horse-battery"),
        ("nobody", PASSWORD),
        ("mina", ""),
        ("mina", "short"),
        ("mina", &long_password),
        ("", PASSWORD),
        ("a", PASSWORD),
        ("no such name!", PASSWORD),
        ("' OR 1=1 --", PASSWORD),
        (&long_name, PASSWORD),
    ] {
        let before = hashed();
        let problem = log_in(&server, nickname, password).problem(401);
        assert_eq!(problem["detail"], "unknown nickname or wrong password", "{nickname}");
        assert_eq!(hashed() - before, 1.0, "{nickname} {password} costs what any other costs");
    }
}

#[test]
fn fields_that_nobody_asked_for_are_ignored() {
    let server = start();
    let mut body = new_user("mina");
    body["email"] = json!("mina@example.com");
    body["id"] = json!(4711);
    body["is_admin"] = json!(true);
    let created = register(&server, &body);
    assert_eq!((created.status, &created.json()["id"]), (201, &json!(1)));
}
