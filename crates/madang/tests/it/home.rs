//! The home page as a client sees it: its files, their headers, and the figures of the last minute.

use crate::harness::{Answer, Server, Setup, eventually};
use serde_json::Value;
use std::collections::BTreeSet;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const BROWSER: [(&str, &str); 1] = [("Accept-Encoding", "gzip, deflate, br, zstd")];

/// Addresses in quotes that begin with a slash.
fn addresses(text: &str) -> BTreeSet<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted.filter(|text| text.starts_with('/')).map(str::to_owned).collect()
}

/// Every file of the page: those it names, and those that its scripts import or ask for.
fn files(server: &Server) -> BTreeSet<String> {
    let mut known = BTreeSet::from(["/".to_owned()]);
    let mut unread = known.clone();
    while let Some(path) = unread.pop_first() {
        let text = String::from_utf8(server.get(&path).decoded()).unwrap();
        let quoted = addresses(&text).into_iter();
        let imported = text.split("from \"./").skip(1);
        let imported = imported.map(|rest| format!("/home/{}", rest.split('"').next().unwrap()));
        for found in quoted.chain(imported) {
            let is_file = found.starts_with("/home/") && found.contains('.');
            if is_file && known.insert(found.clone()) {
                unread.insert(found);
            }
        }
    }
    known
}

#[test]
fn the_page_and_its_files_come_with_a_strict_policy() {
    let server = Setup::new().start();
    let files = files(&server);
    assert!(files.len() >= 10, "{files:?}");
    for path in &files {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-security-policy"), Some(POLICY), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        let expected = match path.rsplit_once('.').map(|(_, extension)| extension) {
            None => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("geojson") => "application/geo+json",
            Some(other) => panic!("{other}"),
        };
        assert_eq!(answer.header("content-type"), Some(expected), "{path}");
    }
}

#[test]
fn the_page_holds_neither_inline_code_nor_anything_of_another_host() {
    let server = Setup::new().start();
    let page = server.get("/").text();
    for tag in page.split('<').filter(|tag| tag.starts_with("script")) {
        let content = tag.split_once('>').unwrap().1;
        assert!(tag.contains("src=\"/home/") && content.is_empty(), "{tag}");
    }
    for inline in [" style=", "<style", " onclick", " onload", "javascript:"] {
        assert!(!page.contains(inline), "{inline}");
    }
    for path in files(&server) {
        let text = String::from_utf8(server.get(&path).body).unwrap();
        // The names of XML vocabularies look like addresses; nothing is fetched from them.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
        assert!(!text.contains("innerHTML") && !text.contains("eval("), "{path}");
    }
}

#[test]
fn a_file_is_compressed_and_a_known_one_answered_304() {
    let server = Setup::new().start();
    for path in files(&server) {
        let plain = server.get(&path);
        let answer = server.get_with(&path, &BROWSER);
        assert_eq!(answer.decoded(), plain.body, "{path}");
        // Compressing the few hundred bytes of the icon would save no packet.
        let encoding = (plain.body.len() > 800).then_some("br");
        assert_eq!(answer.header("content-encoding"), encoding, "{path}");
        let tag = answer.header("etag").unwrap();
        let again = server.get_with(&path, &[BROWSER[0], ("If-None-Match", tag)]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("content-security-policy"), Some(POLICY), "{path}");
    }
    let plain = Setup::new().set("http.compression", "off").start();
    assert_eq!(plain.get_with("/", &BROWSER).header("content-encoding"), None);
}

#[test]
fn all_files_together_weigh_less_than_100_kilobytes() {
    let server = Setup::new().start();
    let sum: usize =
        files(&server).iter().map(|path| server.get_with(path, &BROWSER).body.len()).sum();
    assert!(sum < 100_000, "{sum} bytes");
}

#[test]
fn switched_off_there_is_nothing() {
    let on = Setup::new().start();
    let off = Setup::new().set("home.page", "off").start();
    for path in files(&on).iter().map(String::as_str).chain(["/home/figures"]) {
        off.get(path).problem(404);
    }
    assert_eq!(off.get("/v1/tracks").status, 200);
}

#[test]
fn only_reading_is_for_its_addresses() {
    let server = Setup::new().start();
    for path in ["/", "/home/style.css", "/home/figures"] {
        server.connect().request("POST", path, &[("Content-Length", "0")]).problem(405);
        let head = server.connect().request("HEAD", path, &[]);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
    for path in [
        "/home", "/home/", "/home/../style.css", "/home/nothing.js", "/home/%ff", "/home/figures/1",
    ] {
        server.get(path).problem(404);
    }
    server.get("/home/figures?after=x").problem(422);
    server.get("/home/figures?after=-1").problem(422);
}

fn figures(server: &Server, after: u64) -> Value {
    let answer: Answer = server.get(&format!("/home/figures?after={after}"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

/// The number of the last sample.
fn last(figures: &Value) -> u64 {
    figures["samples"].as_array().unwrap().last().map_or(0, |s| s["number"].as_u64().unwrap())
}

#[test]
fn figures_grow_with_requests_and_not_by_being_asked_for() {
    let server = Setup::new().start();
    let mut connection = server.connect();
    for _ in 0..300 {
        assert_eq!(connection.get("/v1/tracks").status, 200);
    }
    let counted = eventually("a sample of these requests", || {
        let now = figures(&server, 0);
        (now["requests"].as_u64().unwrap() >= 300).then_some(now)
    });
    assert_eq!(counted["requests"], 300);
    let samples = counted["samples"].as_array().unwrap();
    let sum: f64 = samples.iter().map(|s| s["requestsPerSecond"].as_f64().unwrap()).sum();
    assert!(sum > 30.0, "{samples:?}");
    let sample = samples.last().unwrap();
    let [p50, p95, p99] = ["p50", "p95", "p99"]
        .map(|name| sample[format!("{name}Milliseconds")].as_f64().expect("a percentile"));
    assert!(0.0 < p50 && p50 <= p95 && p95 <= p99, "{sample}");
    // On a slow machine they are in several samples, and only one of these has the first.
    let hits = samples.iter().filter_map(|sample| {
        Some(sample["cacheHitRatio"].as_f64()? * sample["requestsPerSecond"].as_f64()?)
    });
    let ratio = hits.sum::<f64>() / sum;
    // Both are rounded in each sample.
    assert!(ratio > 0.9 && ratio < 1.0, "all but the first: {ratio}");
    // The second may have found that the first was not kept.
    assert!((298.0..=299.0).contains(&server.metric("madang_cache_hits_total", &[])));
    let seen = last(&counted);
    let later = eventually("the next sample", || {
        let now = figures(&server, seen);
        (last(&now) > seen).then_some(now)
    });
    assert_eq!(later["requests"], 300, "asking for figures is not in them");
    assert!(later["samples"].as_array().unwrap().iter().all(|s| s["number"].as_u64() > Some(seen)));
    assert_eq!(
        server.metric("madang_http_server_requests_total", &["route=\"/v1/tracks\""]),
        300.0
    );
}

#[test]
fn figures_tell_nothing_of_what_was_asked() {
    let server = Setup::new().start();
    server.get("/v1/tracks/1");
    let figures = eventually("a sample", || {
        let now = figures(&server, 0);
        (last(&now) > 0).then_some(now)
    });
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let expected = ["intervalSeconds", "requests", "samples", "windowSeconds"];
    assert_eq!(names(&figures), expected.map(str::to_owned).into());
    let expected = [
        "cacheHitRatio", "number", "p50Milliseconds", "p95Milliseconds", "p99Milliseconds",
        "requestsPerSecond",
    ];
    assert_eq!(names(&figures["samples"][0]), expected.map(str::to_owned).into());
}
