//! The page that `madang load --html` writes, in a real browser.

use crate::harness::browser::Page;
use crate::harness::command::{clean, program};
use crate::harness::{Madang, Setup, stores};

const SCRIPT: &str = "
    import http from 'k6/http';
    import { check, group, sleep } from 'k6';
    export const options = {
        vus: 2,
        duration: '3s',
        thresholds: { http_reqs: ['count>1'], http_req_failed: ['rate<0.1'] },
    };
    export default function () {
        group('outer', () => {
            check(http.get(`${__ENV.URL}/health/live`), { '<b>live</b>': (r) => r.status === 200 });
        });
        http.get(`${__ENV.URL}/nowhere`);
        sleep(0.05);
    }
";

#[test]
fn what_was_measured_is_one_page_for_every_screen() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("run.html");
    let url = format!("URL=http://{}", server.api);
    let shown = file.to_str().unwrap();
    Madang::new(["load", "script.js", "--quiet", "-e", &url, "--html", shown])
        .file("script.js", SCRIPT)
        .fails_with(99);
    for (screen, scheme) in
        [(Page::DESKTOP, "light"), (Page::DESKTOP, "dark"), (Page::PHONE, "dark")]
    {
        let page = Page::new();
        page.looks(screen, scheme);
        page.open(&format!("file://{shown}"));
        assert_eq!(page.text("h1"), "script.js");
        assert_eq!(page.text(".answer.refuted"), "Thresholds that do not hold: 1 of 2.");
        let headings = page.value("[...document.querySelectorAll('h2')].map((e) => e.textContent)");
        for heading in ["Load over time", "Response times", "Thresholds", "Checks", "Groups"] {
            assert!(headings.as_array().unwrap().iter().any(|one| one == heading), "{headings}");
        }
        // Three plots, each with a line of at least two points.
        let lines = page.value(
            "[...document.querySelectorAll('figure')].map((e) =>
                Math.min(...[...e.querySelectorAll('g polyline')].map((l) => l.points.length)))",
        );
        let lines: Vec<u64> = serde_json::from_value(lines).unwrap();
        assert!(lines.len() == 3 && lines.iter().all(|points| *points >= 2), "{lines:?}");
        let text = page.text("main");
        assert!(text.contains("<b>live</b>") && text.contains("status 404"), "{text}");
        let raw = page.value("JSON.parse(document.getElementById('report').textContent).version");
        assert_eq!(raw, 1);
        let wide = page
            .value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, 0, "{screen:?} {scheme}");
        assert_eq!(page.complaints(), Vec::<String>::new(), "{screen:?} {scheme}");
    }
}

#[test]
fn a_terminal_shows_what_is_measured_meanwhile() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let scripts = tempfile::tempdir().unwrap();
    std::fs::write(scripts.path().join("script.js"), SCRIPT).unwrap();
    let command = format!("{} load script.js -e URL=http://{}", program(), server.api);
    // A terminal of its own.
    let ran = clean("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .current_dir(scripts.path())
        .output()
        .unwrap();
    let shown = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(99), "{shown}");
    let rates = shown.matches("/s, ").count();
    assert!(rates > 2 && shown.contains("ms in the last second"), "{shown}");
    assert!(shown.contains("[=========="), "{shown}");
    // The view is gone when the summary comes.
    let (_, after) = shown.rsplit_once("in the last second").unwrap();
    let (between, _) = after.split_once("TOTAL RESULTS").unwrap();
    assert!(between.contains("\x1b[4A") && between.contains("\x1b[J"), "{between:?}");
}
