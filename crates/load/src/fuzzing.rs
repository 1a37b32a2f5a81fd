//! Fuzz targets for `scripts/fuzz`: each parses any bytes and panics when a property does not hold. Unit tests replay
//! the kept inputs.

use std::str::FromStr as _;

use crate::html::{Document, Selector};
use crate::http::cookies::{Jar, SetCookie, parse_date};
use crate::http::{self, AddressRange, Url, digest, encoding};
use crate::options::{ConfigFile, Threshold, parse_duration, parse_stage};
use crate::script::{self, Language};
use crate::{OutputSpec, Secrets, Target, websocket};

/// A name, that of a directory in `fuzz/seeds`, and a function of the input.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    ("answers", answers),
    ("chunks", http::fuzzing::chunks),
    ("encoded_bodies", encoded_bodies),
    ("stapled_responses", http::fuzzing::stapled_response),
    ("cookies", cookies),
    ("urls", |data| on_text(data, urls)),
    ("websocket_frames", websocket::fuzzing::frames),
    ("redis_replies", crate::redis::fuzz),
    ("web_pages", web_pages),
    ("json_paths", |data| on_text(data, script::fuzzing::json_path)),
    ("csv_files", |data| on_text(data, script::fuzzing::csv)),
    ("run_options", |data| on_text(data, run_options)),
    ("scripts", |data| on_text(data, scripts)),
];

fn on_text(data: &[u8], read: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        read(text);
    }
}

fn answers(data: &[u8]) {
    http::fuzzing::head(data);
    on_text(data, |text| {
        let asked = digest::Asked { method: "GET", target: "/", user_info: "u:p", cnonce: "c" };
        let header = digest::authorization(text, &asked);
        assert!(header.is_none_or(|header| header.starts_with("Digest ")));
    });
}

/// Decodes a compressed body; the first byte selects the coding.
fn encoded_bodies(data: &[u8]) {
    let Some((first, body)) = data.split_first() else { return };
    let codings = ["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate, gzip"];
    let coding = codings[usize::from(*first) % codings.len()];
    if let Ok(plain) = encoding::decode(coding, body.to_vec()) {
        assert!(plain.len() <= encoding::MAX_DECODED_BYTES);
    }
    if let Some(coding) = encoding::Coding::parse(coding) {
        let packed = coding.encode(body).expect("bytes in memory");
        let plain = encoding::decode(coding.name(), packed).expect("what was packed");
        assert_eq!(plain, body);
    }
}

fn cookies(data: &[u8]) {
    let url = Url::parse("https://a.example.org/b/c").expect("an address");
    let other = Url::parse("https://example.com/").expect("an address");
    let jar = Jar::default();
    for line in data.split(|byte| *byte == b'\n').take(100) {
        let Some(cookie) = SetCookie::parse(line) else { continue };
        jar.set(&url, &cookie, 1000);
    }
    for pair in jar.matching(&url, 1000) {
        assert!(!pair.name.is_empty());
        let is_safe = |text: &str| !text.contains(['\r', '\n', ';', '\0']);
        assert!(is_safe(&pair.name) && is_safe(&pair.value));
    }
    assert!(jar.matching(&other, 1000).is_empty(), "of another server");
    let _ = parse_date(&String::from_utf8_lossy(data));
}

fn urls(text: &str) {
    let is_sent = |url: &Url| {
        assert!(url.target.starts_with('/'));
        assert!(url.target.bytes().all(|b| b >= 0x20 && b != 0x7f));
        assert!(url.authority.bytes().all(|b| b.is_ascii_graphic()));
    };
    let base = Url::parse("http://h/a/b?c").expect("an address");
    for url in [Url::parse(text), base.join(text)].into_iter().flatten() {
        is_sent(&url);
        // The sent form parses to the same URL.
        let sent = format!("{}://{}{}", url.scheme(), url.authority, url.target);
        let again = Url::parse(&sent).expect("what is sent can be read");
        assert_eq!((&again.host, again.port), (&url.host, url.port), "{sent}");
        assert_eq!((&again.authority, &again.target), (&url.authority, &url.target));
    }
    let _ = http::percent_decode(text);
}

/// Applies the selector in the first line to a page.
fn web_pages(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (selector, page) = text.split_once('\n').unwrap_or(("*", &text));
    let Ok(document) = Document::parse(page) else { return };
    let html = document.inner_html(0);
    let _ = (Document::parse(&html), document.text(0));
    if let Ok(selector) = Selector::parse(selector) {
        let all = 0..document.nodes.len();
        let found = selector.filter(&document, all.clone());
        assert!(found.iter().all(|at| all.contains(at)));
    }
}

fn run_options(text: &str) {
    let _ = (ConfigFile::parse(text), parse_stage("stages", text), Threshold::parse(text));
    if let Ok(duration) = parse_duration(text) {
        let written = format!("{}ns", duration.as_nanos());
        assert_eq!(parse_duration(&written).ok(), Some(duration));
    }
    if let Ok(range) = AddressRange::from_str(text) {
        assert_eq!(range.to_string().parse(), Ok(range));
    }
    let _ = (Target::from_str(text), OutputSpec::parse(text, |_| None));
    let _ = Secrets::default().add(&format!("mock={text}"));
}

fn scripts(text: &str) {
    for language in [Language::JavaScript, Language::TypeScript] {
        let _ = script::fuzzing::read(text, language);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
