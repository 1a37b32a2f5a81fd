//! The page that `madang compare` writes, in a real browser: what a person sees who opens the file.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "it/harness/browser.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the home page use the rest")]
mod browser;

use browser::{Page, Screen};
use madang_testing::Finish as _;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = "
import http from 'k6/http';
import { check, group } from 'k6';
export const options = { scenarios: {
  browse: { executor: 'constant-vus', vus: 2, duration: '2s' },
  once: { executor: 'per-vu-iterations', vus: 1, iterations: 3, exec: 'once' },
} };
export function once() {
  http.get(`${__ENV.BASE_URL}/v1/tracks/999999999`, { tags: { name: 'a track that is not there' } });
}
export default function () {
  group('browse', () => {
    for (const path of ['/v1/tracks', '/v1/tracks/1']) {
      const res = http.get(`${__ENV.BASE_URL}${path}`, { tags: { name: path } });
      check(res, { ok: (r) => r.status === 200 });
    }
  });
}
";

/// A name that would be a tag, in each place where a name may be anything.
const EXPERIMENT: &str = r#"
name = "page"
question = "Is <b onclick='x'>this</b> <img src=x> a question?"
reference = "off"
prediction = { metric = "cpu_per_good_request", variant = "on", ratio_at_most = 1 }
[data]
samples = true
[load]
script = "script.js"
[rounds]
blocks = 2
accept = ["steal", "foreign_cpu"]
[observe]
metrics = ["madang_http_server_requests_in_flight", "madang_http_server_requests_total"]
[variants.off]
serve = { "cache.mode" = "off" }
[variants.on]
serve = {}
"#;

/// A run of two short blocks, and its page.
fn measured(language: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("script.js"), SCRIPT).unwrap();
    std::fs::write(dir.path().join("experiment.toml"), EXPERIMENT).unwrap();
    let out = dir.path().join("out");
    let mut compare = Command::new(env!("CARGO_BIN_EXE_madang"));
    compare.arg("compare").arg(dir.path()).arg("--out").arg(&out).args(["--lang", language]);
    let output = compare.finish();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (dir, out.join("report.html"))
}

const LOOKS: [(Screen, &str); 4] = [
    (Page::DESKTOP, "light"),
    (Page::DESKTOP, "dark"),
    (Page::PHONE, "light"),
    (Page::PHONE, "dark"),
];

#[test]
fn the_report_is_readable_everywhere_and_asks_for_nothing() {
    let (_dir, file) = measured("en");
    let address = format!("file://{}", file.display());
    for (screen, scheme) in LOOKS {
        let page = Page::new();
        page.looks(screen, scheme);
        page.open(&address);
        let told = (screen, scheme);
        assert_eq!(page.complaints(), [""; 0], "{told:?}");
        assert_eq!(page.requests(), std::slice::from_ref(&address), "{told:?}");
        // Wide tables scroll by themselves; the page does not.
        let wide = page.value("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_f64().unwrap() <= 0.0, "{told:?}: {wide}");
        assert_eq!(page.text(".question"), "Is <b onclick='x'>this</b> <img src=x> a question?");
        assert_eq!(page.value("document.querySelectorAll('img, [onclick]').length"), 0);
        // Two variants, two pairs, in the first of the plots.
        let points =
            page.value("document.querySelector('.plot').querySelectorAll('circle').length");
        assert_eq!(points, 4, "{told:?}");
        // Load, CPU, memory, and what its metrics page says.
        let titles = page
            .value("[...document.querySelectorAll('figcaption')].map((one) => one.textContent)");
        for title in [
            "Good requests per second",
            "Server CPU, cores",
            "Resident memory of the server, MiB",
            "madang_http_server_requests_in_flight",
            "madang_http_server_requests_total, per second",
        ] {
            let found = titles.as_array().unwrap().iter().any(|one| one == title);
            assert!(found, "no {title:?} in {titles}");
        }
        let headings = page.value("[...document.querySelectorAll('h2')].map((h) => h.textContent)");
        for heading in [
            "Every round", "Over time", "By endpoint", "By group", "By scenario",
            "Answers by status code",
        ] {
            let found = headings.as_array().unwrap().iter().any(|one| one == heading);
            assert!(found, "no {heading:?} in {headings}");
        }
        assert_eq!(outside(&page), serde_json::json!([]), "{told:?}");
        keep(&page, "compare", told);
        assert!(contrast(&page) >= 4.5, "{told:?}: {}", contrast(&page));
        let embedded = "JSON.parse(document.getElementById('report').textContent).rounds\
             .filter((round) => round.counted).length";
        // Two pairs, and each alone in the first block; others were repeated.
        assert_eq!(page.value(embedded), 6);
    }
}

/// Texts of plots that are not wholly inside of their picture.
fn outside(page: &Page) -> serde_json::Value {
    page.value(
        "[...document.querySelectorAll('.plot')].flatMap((plot) => {
            const box = plot.getBoundingClientRect();
            return [...plot.querySelectorAll('text')].filter((text) => {
                const { left, right } = text.getBoundingClientRect();
                return left < box.left - 1 || right > box.right + 1;
            }).map((text) => text.textContent);
        })",
    )
}

/// For a person to look at, where `REPORT_PICTURES` names a directory.
fn keep(page: &Page, what: &str, (screen, scheme): (Screen, &str)) {
    if let Some(dir) = std::env::var_os("REPORT_PICTURES") {
        let name = format!("{what}-{}-{scheme}.png", screen.width);
        page.picture(&PathBuf::from(dir).join(name));
    }
}

/// The least contrast of a series' colour with what it stands on (WCAG 2.2, success criterion 1.4.3).
fn contrast(page: &Page) -> f64 {
    let least = page.value(
        "(() => {
            const light = (colour) => {
                const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
                    const share = part / 255;
                    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            const back = light(getComputedStyle(document.querySelector('figure')).backgroundColor);
            const of = (name) => {
                const probe = document.createElement('p');
                probe.className = name;
                document.body.append(probe);
                const colour = light(getComputedStyle(probe).color);
                probe.remove();
                return (Math.max(colour, back) + 0.05) / (Math.min(colour, back) + 0.05);
            };
            const names = ['faint', ...Array.from({ length: 8 }, (_, place) => 's' + place)];
            return Math.min(...names.map(of));
        })()",
    );
    least.as_f64().unwrap()
}

#[test]
fn the_report_speaks_korean_when_asked_to() {
    let (_dir, file) = measured("ko");
    let page = Page::new();
    page.open(&format!("file://{}", file.display()));
    assert_eq!(page.value("document.documentElement.lang"), "ko");
    assert_eq!(page.text("h2"), "모든 라운드");
    assert_eq!(page.complaints(), [""; 0]);
}

/// A server whose requests take longer the more of them there are: good enough to draw.
const SEARCHED: &str = r#"
name = "search"
question = "How much can <each> take?"
reference = "off"
prediction = { metric = "goodput", variant = "on", ratio_at_least = 1 }
[data]
samples = true
[load]
script = "script.js"
[rounds]
blocks = 2
[variants.off]
serve = { "cache.mode" = "off" }
[variants.on]
serve = {}
"#;

#[test]
fn the_page_of_a_search_shows_every_try_everywhere() {
    if !madang_testing::drill!() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("script.js"), SCRIPT).unwrap();
    std::fs::write(dir.path().join("experiment.toml"), SEARCHED).unwrap();
    let out = dir.path().join("out");
    let mut limit = Command::new(env!("CARGO_BIN_EXE_madang"));
    limit.arg("limit").arg(dir.path()).arg("--out").arg(&out);
    limit.args(["--p95", "1s", "--blocks", "2", "--from", "20", "--max-rate", "40"]);
    limit.args(["--duration", "500ms", "--warm-up", "100ms", "--lang", "ko"]);
    let output = limit.args(["--accept", "steal", "--accept", "foreign_cpu"]).finish();
    let file = out.join("report.html");
    assert!(file.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    let address = format!("file://{}", file.display());
    for (screen, scheme) in LOOKS {
        let page = Page::new();
        page.looks(screen, scheme);
        page.open(&address);
        let told = (screen, scheme);
        assert_eq!(page.complaints(), [""; 0], "{told:?}");
        assert_eq!(page.requests(), std::slice::from_ref(&address), "{told:?}");
        let wide = page.value("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_f64().unwrap() <= 0.0, "{told:?}: {wide}");
        assert_eq!(page.text(".question"), "How much can <each> take?");
        let tries = page.value("JSON.parse(document.getElementById('report').textContent).tries");
        // Where searches found a limit, as on a machine that is too busy, they are drawn first.
        let drawn = page
            .value("document.querySelector('.plot:has(.dots)').querySelectorAll('.dots').length");
        let measured =
            tries.as_array().unwrap().iter().filter(|one| one["figures"]["p95_ms"].is_f64());
        assert_eq!(drawn, measured.count(), "{told:?}");
        assert_eq!(page.value("document.querySelectorAll('.limit').length"), 3, "{told:?}");
        assert_eq!(page.text("h2"), "한계");
        assert_eq!(outside(&page), serde_json::json!([]), "{told:?}");
        keep(&page, "limit", told);
    }
}
