//! The grammar: every choice is drawn from one generator, so that a seed names a run.

use super::operations::{Operation, Operations};
use fastrand::Rng;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;

/// A request whose end everybody would find at the same byte.
#[derive(Debug)]
pub struct Request {
    pub bytes: Vec<u8>,
    /// No body comes with the answer to this method.
    pub is_head: bool,
    /// The operation that it is, unless its path or method is none's.
    pub operation: Option<usize>,
    /// Statuses that may come beside those of its operation.
    pub also: BTreeSet<u16>,
    /// The connection ends with the answer.
    pub is_last: bool,
}

/// Values of parameters, of which most are wrong for most.
const VALUES: [&str; 40] = [
    "", "0", "1", "2", "7", "20", "100", "101", "-1", "+1", "1.5", "1e3", "007",
    "9223372036854775807", "9223372036854775808", "99999999999999999999", "NaN", "null", "true",
    "low", "medium", "full", "points", "polyline", "newest", "likes", "views", "distance",
    "length", "-price", "37.5172,126.9361", "37.5", "91,181", "NaN,inf", "Seoul", "sports", "a",
    "%EB%B9%B5+%EC%A7%91", "%00", "%FF%FE",
];
/// What does not belong into a path or query, and what only looks as if it did.
const ODD: [&str; 14] = [
    "%", "%zz", "%2e%2e", "..", "%2F", "a%00b", "%C0%AF", "'\"<>", "*", ";", "%F0%9F%8F%83",
    "{id}", "\\", "%ED%A0%80",
];
const HEADERS: [(&str, &[&str]); 16] = [
    (
        "Accept",
        &[
            "*/*",
            "application/json",
            "application/geo+json;q=0.5, */*;q=0",
            "application/gpx+xml",
            ",;q=x",
            "text/html",
        ],
    ),
    ("Accept-Encoding", &["gzip", "br", "zstd, gzip;q=0.1", "identity", "*;q=0", "gzip;q=7, x"]),
    ("If-None-Match", &["*", "\"a\"", "W/\"a\", \"b\"", "\"", ",,,"]),
    ("If-Match", &["*", "\"a1\"", "\"a1-gzip\"", "a1"]),
    (
        "Idempotency-Key",
        &["a", "\"a b\"", "", "\"", "\u{e9}", "8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ),
    ("X-Forwarded-For", &["1.2.3.4", "unknown, 10.0.0.1", "[::1]:80", ",,,"]),
    ("X-Forwarded-Proto", &["https", "http, https"]),
    ("Forwarded", &["for=1.2.3.4;proto=https", "for=\"[::1]\""]),
    (
        "traceparent",
        &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-0-0-0", "ff-"],
    ),
    ("X-Request-Id", &["abc", "a b", "\u{1f3c3}", ""]),
    ("Cookie", &["a=b", "madang_device=1.AAAA", "=;=;", "madang_device=\""]),
    ("Origin", &["https://example.org", "null"]),
    ("Access-Control-Request-Method", &["POST", "x"]),
    ("Range", &["bytes=0-1", "bytes=-", "x"]),
    ("Cache-Control", &["no-cache", "max-age=0, only-if-cached"]),
    ("X-Odd", &["\u{fe}\u{ff}", "a\tb", ""]),
];
const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"];
const OTHER_PATHS: [&str; 16] = [
    "/", "/docs", "/docs/", "/docs/index.html", "/docs/../openapi.json", "/v1", "/v1/",
    "//v1/tracks", "/v1/tracks/", "/V1/tracks", "/v1/tracks/1/2/3", "/v1%2Ftracks", "/metrics",
    "/v1/./tracks", "/?x", "/v1/tracks;a=b",
];
const GPX: &str = "<gpx version=\"1.1\"><trk><name>r</name><trkseg><trkpt lat=\"37.5\" lon=\"127\"><ele>3</ele></trkpt><trkpt lat=\"37.6\" lon=\"127.1\"/></trkseg></trk></gpx>";
const GEOJSON: &str = r#"{"type":"Feature","properties":{"name":"r"},"geometry":{"type":"LineString","coordinates":[[127,37.5],[127.1,37.6,3]]}}"#;

fn pick<'c, T>(rng: &mut Rng, from: &'c [T]) -> &'c T {
    &from[rng.usize(..from.len())]
}

fn word<'c>(rng: &mut Rng, from: &'c [impl AsRef<str>]) -> &'c str {
    pick(rng, from).as_ref()
}

/// True once in so many times.
fn once_in(rng: &mut Rng, times: u32) -> bool {
    rng.u32(..times) == 0
}

/// A request whose framing is sound, whatever it asks for.
pub fn request(rng: &mut Rng, operations: &Operations) -> Request {
    let at = rng.usize(..operations.all.len());
    let operation = &operations.all[at];
    // Those hash, on few threads of a low priority.
    let hashes = operation.body.as_ref().is_some_and(|body| body.contains_key("password"));
    // And what is deleted is there for no other request.
    let deletes = operation.method == "DELETE" && operation.path.len() == 2;
    if hashes && !once_in(rng, 20) || deletes && !once_in(rng, 8) {
        return request(rng, operations);
    }
    let mut also = BTreeSet::new();
    let is_other_path = once_in(rng, 40);
    let mut target = if is_other_path {
        word(rng, &OTHER_PATHS).to_owned()
    } else {
        path(rng, operation, &mut also)
    };
    query(rng, operation, operations, &mut target);
    if target.contains(['<', '\\']) {
        also.insert(400);
    }
    let method = if once_in(rng, 25) { word(rng, &METHODS) } else { &operation.method };
    let asks = if method == "HEAD" { "GET" } else { method };
    let same = |one: &Operation| one.path == operation.path && one.method == asks;
    let named = operations.all.iter().position(same).filter(|_| !is_other_path);
    if is_other_path {
        // Pages, a listing, and what is nothing.
        also.extend([200, 204, 303, 304, 400, 404, 405, 415, 422]);
    } else if named.is_none() {
        also.extend([204, 405]);
    }
    if once_in(rng, 60) {
        target = format!("http://example.org{target}");
    }
    let version = if once_in(rng, 200) { "1.0" } else { "1.1" };
    let mut bytes = format!("{method} {target} HTTP/{version}\r\nHost: made.up\r\n").into_bytes();
    let mut is_last = version == "1.0";
    if once_in(rng, 300) {
        is_last = true;
        bytes.extend_from_slice(b"Connection: close\r\n");
    }
    headers(rng, operation, operations, &mut bytes);
    let wants_body = operation.body.is_some() || once_in(rng, 50);
    if wants_body && !once_in(rng, 20) {
        let body = body(rng, operation, &mut bytes);
        also.extend([400, 408, 413, 415, 422]);
        frame(rng, &body, version, &mut bytes);
    } else {
        bytes.extend_from_slice(b"\r\n");
    }
    Request { bytes, is_head: method == "HEAD", operation: named, also, is_last }
}

fn path(rng: &mut Rng, operation: &Operation, also: &mut BTreeSet<u16>) -> String {
    let mut path = operation.path[0].clone();
    for part in &operation.path[1..] {
        match rng.u32(..10) {
            0..6 => path.push_str(&rng.u32(1..24).to_string()),
            6 => path.push_str(&rng.u64(..).to_string()),
            7 => path.push_str(word(rng, &VALUES)),
            8 if once_in(rng, 2) => path.push_str(word(rng, &ODD)),
            _ => path.push_str(&rng.u32(1..2000).to_string()),
        }
        path.push_str(part);
    }
    // With a parameter that is empty it is another path, and not all characters may be in one.
    if operation.path.len() > 1 {
        also.extend([400, 404, 405]);
    }
    path
}

fn query(rng: &mut Rng, operation: &Operation, operations: &Operations, target: &mut String) {
    if operation.query.is_empty() && !once_in(rng, 20) {
        return;
    }
    for at in 0..rng.u32(..4) {
        target.push(if at == 0 && !target.contains('?') { '?' } else { '&' });
        if operation.query.is_empty() || once_in(rng, 10) {
            target.push_str(word(rng, &ODD));
        } else {
            target.push_str(word(rng, &operation.query));
        }
        target.push('=');
        match rng.u32(..8) {
            0 => target.push_str(word(rng, &ODD)),
            1 => target.push_str(word(rng, &operations.cursors)),
            _ => target.push_str(word(rng, &VALUES)),
        }
    }
    if once_in(rng, 3000) {
        let length = rng.usize(4000..12_000);
        target.push_str(if target.contains('?') { "&q=" } else { "?q=" });
        target.extend(std::iter::repeat_n('x', length));
    }
}

fn headers(rng: &mut Rng, operation: &Operation, operations: &Operations, bytes: &mut Vec<u8>) {
    for _ in 0..rng.u32(..4) {
        let (name, values) = pick(rng, &HEADERS);
        let _ = write!(bytes, "{name}: ");
        if name.starts_with("If-") && once_in(rng, 3) {
            bytes.extend_from_slice(pick(rng, &operations.tags).as_bytes());
        } else {
            // As ISO 8859-1, so that bytes beyond ASCII are no UTF-8.
            bytes.extend(pick(rng, values).chars().map(|c| c as u8).filter(|b| *b != 127));
        }
        bytes.extend_from_slice(b"\r\n");
    }
    let token = match rng.u32(..10) {
        0..8 if !operation.ends_callers => word(rng, &operations.tokens),
        0..8 if once_in(rng, 10) => &operations.spare_token,
        8 => "eyJhbGciOiJub25lIn0.e30.",
        9 if rng.bool() => "",
        _ => return,
    };
    let scheme =
        if once_in(rng, 30) { word(rng, &["bearer", "Basic", "Bearer:", ""]) } else { "Bearer" };
    let _ = write!(bytes, "Authorization: {scheme} {token}\r\n");
}

/// A body; its type goes into the head.
fn body(rng: &mut Rng, operation: &Operation, head: &mut Vec<u8>) -> Vec<u8> {
    let is_file = operation.takes_files && rng.bool();
    let (kind, mut body) = match is_file {
        true if rng.bool() => ("application/gpx+xml", GPX.as_bytes().to_vec()),
        true => ("application/geo+json", GEOJSON.as_bytes().to_vec()),
        false => ("application/json", json_body(rng, operation.body.as_ref())),
    };
    let kind = if once_in(rng, 30) {
        word(
            rng,
            &[
                "text/plain",
                "application/json; charset=utf-16",
                "application/x-www-form-urlencoded",
                "",
                "a/b;c",
            ],
        )
    } else {
        kind
    };
    let _ = write!(head, "Content-Type: {kind}\r\n");
    if once_in(rng, 100) {
        let _ = write!(head, "Content-Encoding: {}\r\n", word(rng, &["gzip", "identity", "x"]));
    }
    if once_in(rng, 8) && !body.is_empty() {
        mutate(rng, &mut body);
    }
    body
}

/// Replaces, removes, doubles or cuts some of it.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.u32(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.usize(..bytes.len());
        match rng.u32(..5) {
            0 => bytes[at] = rng.u8(..),
            1 => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, *pick(rng, b"\"\\{}[],:0-\0\xff<>&")),
            _ if bytes.len() < 5000 => bytes.extend_from_within(at..),
            _ => {}
        }
    }
}

fn json_body(rng: &mut Rng, good: Option<&Map<String, Value>>) -> Vec<u8> {
    let mut body = good.cloned().unwrap_or_default();
    if rng.bool() {
        for _ in 0..rng.u32(1..3) {
            let names: Vec<String> = body.keys().cloned().collect();
            if names.is_empty() || once_in(rng, 10) {
                body.insert(word(rng, &VALUES).to_owned(), hostile(rng));
            } else if once_in(rng, 4) {
                body.shift_remove(pick(rng, &names));
            } else {
                body.insert(pick(rng, &names).clone(), hostile(rng));
            }
        }
    }
    let mut text = Value::Object(body).to_string();
    match rng.u32(..100) {
        0 => text = format!("[{text}]"),
        1 => text = text.replacen('{', "{\"title\":1,\"title\":2,", 1),
        2 => text = text.replacen(':', ":1e999,\"x\":", 1),
        3 => text = text.replacen(":\"", ":\"\\ud800", 1),
        4 => text = format!("{}{}", "[".repeat(rng.usize(1..300)), "]".repeat(rng.usize(1..300))),
        5 => text.clear(),
        _ => {}
    }
    text.into_bytes()
}

fn hostile(rng: &mut Rng) -> Value {
    match rng.u32(..14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(rng.i64(..)),
        3 => json!(rng.i64(-2..3)),
        4 => json!(f64::from_bits(rng.u64(..))),
        5 => json!("x".repeat(rng.usize(..3000))),
        6 => json!("\u{0}\u{202e}\u{feff}\u{3164}"),
        7 => json!("' OR 1=1 --"),
        8 => json!([[[]]]),
        9 => json!({"a": {"b": [null]}}),
        10 => json!(word(rng, &VALUES)),
        11 => json!("2026-12-31T23:59:60Z"),
        12 => json!([[[37.5, 127.0, 1e9], [91, 181]], []]),
        _ => json!("한글 각 \u{1f3c3}\u{200d}\n"),
    }
}

/// Ends the head, and appends the body with its length or in chunks.
fn frame(rng: &mut Rng, body: &[u8], version: &str, bytes: &mut Vec<u8>) {
    if version == "1.0" || !once_in(rng, 4) {
        let _ = write!(bytes, "Content-Length: {}\r\n\r\n", body.len());
        bytes.extend_from_slice(body);
        return;
    }
    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    let mut rest = body;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rng.usize(1..=rest.len()));
        let extension = if once_in(rng, 10) { ";a=\"b\"" } else { "" };
        let _ = write!(bytes, "{:x}{extension}\r\n", chunk.len());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        rest = after;
    }
    bytes.extend_from_slice(if once_in(rng, 10) {
        b"0\r\nTrailer: x\r\n\r\n"
    } else {
        b"0\r\n\r\n"
    });
}

/// Bytes whose framing is wrong, doubtful or cut off: what comes back is only known to be HTTP.
pub fn rough(rng: &mut Rng, operations: &Operations) -> Vec<u8> {
    const FRAMING: [&str; 18] = [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked, chunked",
        "Expect: 100-continue\r\nContent-Length: 2",
        "Expect: x\r\nContent-Length: 2",
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
        "Upgrade: websocket\r\nConnection: Upgrade",
        "X: 1\r\n folded",
        "Host: another",
        "Content-Length: 67108864",
        "Connection: keep-alive, close",
    ];
    let mut bytes = request(rng, operations).bytes;
    match rng.u32(..12) {
        0 => bytes.truncate(rng.usize(..bytes.len())),
        1 | 2 => mutate(rng, &mut bytes),
        3..6 => {
            let end = bytes.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0) + 2;
            let line = format!("{}\r\n", word(rng, &FRAMING));
            bytes.splice(end..end, line.into_bytes());
        }
        6 => {
            let line = format!("X-Flood-{}: {}\r\n", rng.u32(..100), "y".repeat(rng.usize(..100)));
            let end = bytes.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0) + 2;
            bytes.splice(end..end, line.repeat(rng.usize(1..400)).into_bytes());
        }
        7 => bytes = bytes.iter().copied().filter(|byte| *byte != b'\r').collect(),
        8 => bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        9 => {
            bytes = format!(
                "{} HTTP/1.1\r\n\r\n",
                word(rng, &["CONNECT a:443", "OPTIONS *", "GET x", "GET /\0", "GET  /", ""])
            )
            .into_bytes()
        }
        10 => {
            bytes =
                bytes.iter().map(|byte| if once_in(rng, 40) { rng.u8(..) } else { *byte }).collect()
        }
        _ => {
            bytes = vec![0; rng.usize(1..500)];
            rng.fill(&mut bytes);
        }
    }
    // What follows on the connection, which nobody must take for something else.
    if rng.bool() {
        bytes.extend(request(rng, operations).bytes);
    }
    bytes
}
