//! Input of clients.

use crate::accounts::{RegionRow, Regions, TokenKey, Tokens};
use crate::articles;
use crate::http::json::table::{FieldKind as _, GivenSecret, NewSecret, Number, Time};
use crate::http::json::{JsonBody, LARGEST_OBJECT};
use crate::http::negotiate::{Encodings, media_type};
use crate::http::page::{self, DEFAULT_LIMIT, MAX_LIMIT};
use crate::http::{Conditions, Problem, Proxies, head, rfc3339};
use crate::ops::record::Trace;
use crate::posts::{self, Category, Names};
use crate::tracks::create::read::{UploadFormat, name_of, track};
use crate::{idempotency, markets, schedules, tracks};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use sha2::Sha256;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

/// The first line is a target, the others are headers.
pub(super) fn heads(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    headers.extend(lines.filter_map(header).take(64));
    conditions(&headers);
    negotiation(&headers);
    addresses(&headers);
    if let Some(trace) = Trace::of(&headers) {
        let written = format!(
            "00-{}-{:016x}-{:02x}",
            trace.id_text(),
            trace.parent,
            u8::from(trace.is_sampled)
        );
        let mut again = HeaderMap::new();
        again.insert("traceparent", HeaderValue::from_str(&written).expect("hexadecimal digits"));
        assert_eq!(Trace::of(&again), Some(trace));
    }
    if let Ok(Some(key)) = idempotency::key::read(&headers) {
        assert!((1..=255).contains(&key.len()) && key.bytes().all(|b| matches!(b, b' '..=b'~')));
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        let mut again = HeaderMap::new();
        again.insert("idempotency-key", HeaderValue::from_str(&quoted).expect("visible ASCII"));
        assert_eq!(idempotency::key::read(&again).ok().flatten(), Some(key));
    }
    let is_json = JsonBody::check(&headers).is_ok();
    assert_eq!(UploadFormat::of(&headers).is_ok_and(|kind| kind == UploadFormat::Json), is_json);
    let Ok(request) = Request::builder().uri(target).body(()) else { return };
    let (mut parts, ()) = request.into_parts();
    parts.headers = headers;
    for chunked in [false, true] {
        let hosts = parts.headers.get_all("host").iter().count();
        assert!(head::check(&parts, chunked).is_err() || hosts == 1);
    }
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let at = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..at]).ok()?;
    let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?;
    Some((name, value))
}

fn conditions(headers: &HeaderMap) {
    let conditions = Conditions::of(headers);
    let _ = (conditions.hold(Some("a1")), conditions.hold(None));
    if !headers.contains_key("if-match") && !headers.contains_key("if-none-match") {
        assert!(conditions.hold(Some("a1")) && conditions.hold(None));
    }
    // A client that has the current ETag never matches, whatever the other headers contain.
    let mut known = headers.clone();
    known.append("if-none-match", HeaderValue::from_static("\"a1-gzip\""));
    assert!(!Conditions::of(&known).hold(Some("a1")));
}

fn negotiation(headers: &HeaderMap) {
    const OFFERED: &[&str] = &["application/json", "application/geo+json", "application/gpx+xml"];
    assert!(OFFERED.contains(&media_type(headers, OFFERED)));
    let mut codings: Vec<_> = Encodings::accepted(headers).by_preference().collect();
    let all = codings.len();
    codings.dedup();
    assert!(codings.len() == all && all <= 3);
    assert!(all == 0 || headers.contains_key("accept-encoding"));
}

fn addresses(headers: &HeaderMap) {
    let [peer, real] = ["10.0.0.1", "9.9.9.9"].map(|ip| ip.parse::<IpAddr>().expect("an address"));
    let trusting = Proxies::new(&["10.0.0.0/8".parse().expect("a range")]);
    let _ = (trusting.last_hop(peer, headers), trusting.over_tls(peer, headers));
    assert_eq!(Proxies::default().last_hop(real, headers), real);
    // The address appended by the proxy wins over all claims.
    let mut told = headers.clone();
    told.append("x-forwarded-for", HeaderValue::from_static("9.9.9.9"));
    assert_eq!(trusting.last_hop(peer, &told), real);
}

static REGIONS: LazyLock<Regions> = LazyLock::new(|| {
    let row = |id, province, name: &str, name_en: &str| RegionRow {
        id,
        province,
        name: name.to_owned(),
        name_en: name_en.to_owned(),
    };
    let rows = vec![
        row(1, None, "서울특별시", "Seoul"),
        row(2, Some(1), "마포구", "Mapo-gu"),
        row(3, Some(1), "중구", "Jung-gu"),
        row(4, None, "부산광역시", "Busan"),
        row(5, Some(4), "중구", "Jung-gu"),
    ];
    Regions::new(rows, vec![(1, "서울".to_owned())])
});

static CATEGORIES: LazyLock<Vec<Category>> = LazyLock::new(|| {
    let [slug, name, name_english] = ["sports", "스포츠", "Sports"].map(str::to_owned);
    vec![Category { id: 1, slug, name, name_english }]
});

fn names() -> Names<'static> {
    Names { regions: &REGIONS, categories: &CATEGORIES }
}

/// A query, parsed for every listing.
pub(super) fn queries(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else { return };
    let _ = (tracks::list::Asked::parse(query), name_of(query));
    let _ = markets::list::Asked::parse(query, &REGIONS);
    for limit in [
        page::asked(query, "all").ok().map(|(limit, _)| limit),
        articles::list::read(query).ok().map(|(_, limit)| limit),
        posts::list::read(query, names()).ok().map(|(_, _, limit)| limit),
    ] {
        assert!(limit.is_none_or(|limit| (1..=MAX_LIMIT).contains(&limit)));
    }
    for text in [query, &format!("Seoul {query}")] {
        let found = REGIONS.find(text);
        assert!(found.is_err() || REGIONS.row(found.unwrap_or(0)).is_some());
    }
    // The last parameter of a name counts.
    let cursor = page::write_whole_cursor("all", 7, i64::MIN);
    let asked = page::asked(&format!("{query}&limit={DEFAULT_LIMIT}&cursor={cursor}"), "all");
    assert_eq!(asked.ok(), Some((DEFAULT_LIMIT, Some((7, i64::MIN)))));
    assert!(page::asked(&format!("{query}&cursor={cursor}"), "another").is_err());
    if let Ok(point) = page::point("near", query) {
        assert!(point.check().is_ok());
    }
}

/// A body declared as JSON, read as each kind of body.
pub(super) fn json_bodies(data: &[u8]) {
    let whole = serde_json::from_slice::<serde_json::Value>(data);
    let object = || JsonBody::from(Bytes::copy_from_slice(data)).object(LARGEST_OBJECT);
    let Ok(body) = object() else { return };
    // Stricter than the library, never more lenient.
    let whole = whole.expect("a body that is taken is JSON");
    let fields = whole.as_object().expect("a body that is taken is an object");
    for (name, value) in fields {
        assert_eq!(body.has(name), !value.is_null(), "{name}");
    }
    let again = |draft: serde_json::Value| {
        JsonBody::from(Bytes::from(draft.to_string())).object(LARGEST_OBJECT)
    };
    let article = |body| {
        let new = articles::draft::article(body, 1)?;
        Ok::<_, Problem>(serde_json::json!({ "title": new.title, "content": new.content }))
    };
    if let Ok(text) = article(body) {
        // The stored text is normalised: read again, it stays the same.
        assert_eq!(again(text.clone()).and_then(article).ok(), Some(text));
    }
    let _ = object().and_then(articles::draft::edit);
    let _ = object().and_then(|body| articles::draft::comment(body, 1, 1));
    let _ = object().and_then(|body| posts::draft::post(body, names(), 1));
    let _ = object().and_then(|body| posts::draft::Changes::read(body, names()));
    if let Ok(new) = object().and_then(|body| schedules::draft::schedule(body, 1)) {
        assert!(new.start_at_ms < new.end_at_ms);
    }
    let _ = track(UploadFormat::Json, Bytes::copy_from_slice(data), None);
    if let Ok(mut body) = object() {
        let _ = NewSecret(1..=64).read(&mut body, "password");
        let _ = GivenSecret(64).read(&mut body, "password");
        let _ = Number(0.0..=5.0).read(&mut body, "rate");
        let _ = Time.read(&mut body, "startAt");
        let _: Result<_, Problem> = body.finish(());
    }
}

/// A file with a path.
pub(super) fn uploads(data: &[u8]) {
    let Ok(read) = track(UploadFormat::File, Bytes::copy_from_slice(data), None) else { return };
    // The same path with a separate name.
    let named = track(UploadFormat::File, Bytes::copy_from_slice(data), Some("x".to_owned()));
    assert_eq!(named.ok().map(|named| named.path), Some(read.path));
}

/// A token, and a payload with a valid signature.
pub(super) fn tokens(data: &[u8]) {
    const NOW: i64 = 1_800_000_000;
    const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
    let key = "00".repeat(32);
    let key = TokenKey::parse(&key).expect("32 bytes in hexadecimal");
    let tokens = Tokens::new(&key, Duration::from_secs(3600));
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(tokens.verify(text, NOW).is_err(), "nobody has signed it");
        let _ = TokenKey::parse(text);
    }
    let text = format!("{HEADER}.{}", URL_SAFE_NO_PAD.encode(data));
    let mac = Hmac::<Sha256>::new_from_slice(&[0; 32]).expect("HMAC takes keys of any length");
    let signature = mac.chain_update(&text).finalize().into_bytes();
    let signed = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
    if let Ok(claims) = tokens.verify(&signed, NOW) {
        assert!(claims.expires_at > NOW && claims.issued_at <= NOW + 60);
    }
}

/// Times, and the durations and sizes of settings.
pub(super) fn values(data: &[u8]) {
    use crate::config::value;

    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(ms) = rfc3339::parse(text) {
        assert_eq!(rfc3339::parse(&rfc3339::format_utc(ms)), Some(ms));
    }
    if let Some(duration) = value::duration(text) {
        assert!(duration <= Duration::from_secs(3_200_000_000), "{text}");
    }
    let _ = (value::size(text), value::ranges(text), value::whole(text, 1, 100));
}
