//! The page that `madang compare` writes, in a real browser: what a person sees who opens the file.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "it/harness/browser.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the home page use the rest")]
mod browser;

use browser::{Page, Screen};
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = "
import http from 'k6/http';
import { check, group } from 'k6';
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
question = "Is <b onclick='x'>this</b> a question?"
reference = "off"
prediction = { metric = "cpu_per_good_request", variant = "on", ratio_at_most = 1 }
[data]
samples = true
[load]
script = "script.js"
vus = 2
duration = "2s"
[rounds]
blocks = 2
accept = ["steal", "foreign_cpu", "generator_limited"]
[variants.off]
serve = { "cache.mode" = "off" }
[variants.on]
serve = {}
[documented.off]
"<img src=x>" = "3 users"
"#;

/// A run of two short blocks, and its page.
fn measured(language: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("script.js"), SCRIPT).unwrap();
    std::fs::write(dir.path().join("experiment.toml"), EXPERIMENT).unwrap();
    let out = dir.path().join("out");
    let mut compare = Command::new(env!("CARGO_BIN_EXE_madang"));
    compare.arg("compare").arg(dir.path()).arg("--out").arg(&out).args(["--lang", language]);
    let output = compare.output().unwrap();
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
        assert_eq!(page.text(".question"), "Is <b onclick='x'>this</b> a question?");
        assert_eq!(page.value("document.querySelectorAll('img, [onclick]').length"), 0);
        // Two variants, two rounds each, in the first of the plots.
        let points =
            page.value("document.querySelector('.plot').querySelectorAll('circle').length");
        assert_eq!(points, 4, "{told:?}");
        let headings = page.value("[...document.querySelectorAll('h2')].map((h) => h.textContent)");
        for heading in ["Every round", "Over time", "By endpoint", "Answers by status code"] {
            let found = headings.as_array().unwrap().iter().any(|one| one == heading);
            assert!(found, "no {heading:?} in {headings}");
        }
        // Every text of every plot is inside of its picture.
        let outside = page.value(
            "[...document.querySelectorAll('.plot')].flatMap((plot) => {
                const box = plot.getBoundingClientRect();
                return [...plot.querySelectorAll('text')].filter((text) => {
                    const { left, right } = text.getBoundingClientRect();
                    return left < box.left - 1 || right > box.right + 1;
                }).map((text) => text.textContent);
            })",
        );
        assert_eq!(outside, serde_json::json!([]), "{told:?}");
        assert!(contrast(&page) >= 4.5, "{told:?}: {}", contrast(&page));
        let embedded = "JSON.parse(document.getElementById('report').textContent).rounds.length";
        assert_eq!(page.value(embedded), 4);
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
