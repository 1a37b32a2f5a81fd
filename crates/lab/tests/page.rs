//! The HTML page, from a run of the largest size.

use std::fs;
use std::path::Path;

use madang_lab::Stored;
use madang_lab::report::Language;
use serde_json::Value;

use crate::help::{Lab, two};
use crate::rich::large;

fn page(dir: &Path, language: Language) -> String {
    let stored = Stored::read(dir).unwrap();
    madang_lab::report_again(&stored, Some(language)).unwrap();
    fs::read_to_string(dir.join("report.html")).unwrap()
}

#[test]
fn the_page_has_everything_and_needs_nothing() {
    let lab = Lab::new("get", &two("serve = {}", "serve = {}", 1, ""));
    let dir = large(&lab);
    let html = page(&dir, Language::En);
    for part in [
        "Every round",
        "Ratios",
        "Figures",
        "Latency by percentile",
        "Over time",
        "By endpoint",
        "By group",
        "By scenario",
        "Answers by status code",
        "Configuration",
        "BETTER: fast takes ",
        "Prediction: supported: ",
        "std dev",
        "KB/s",
        "no answer",
        "1\u{2009}198\u{2009}000",
        "<h3>third beside slow</h3>",
        "<td>worse</td>",
        "<code class=\"scale\">",
        "::browse",
        "spike",
        "name = &quot;test&quot;",
        "<figcaption>requests_total{kind=&quot;any&quot;}, per second</figcaption>",
        "<figcaption>in_flight</figcaption>",
    ] {
        assert!(html.contains(part), "no {part:?}");
    }
    // Five plots with a point for each round, and the points of four lines over five percentiles.
    assert_eq!(html.matches("<circle").count(), 5 * 80 + 4 * 5);
    assert!(html.matches("<polyline").count() >= 28, "four lines in seven plots");
    assert!(!html.contains("<figcaption>absent_total"), "there is nothing to draw of it");
    // 900 per second times the factor of each variant and block.
    let rates = html.split("per second</figcaption>").nth(1).unwrap();
    let rates = rates.split("</svg>").next().unwrap();
    assert!(rates.contains(">1000</text>") && !rates.contains("NaN"), "{rates}");
    // No network and no script: the policy forbids them.
    assert!(html.contains("default-src 'none'"));
    for needed in ["src=", "href=", "url(", "@import", "onload", "<link", "<img", "<iframe"] {
        let outside = html.split("id=\"report\">").next().unwrap();
        let outside = outside.replace("src=x onerror", "");
        assert!(!outside.contains(needed), "{needed}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("/&lt;img src=x onerror=alert(1)&gt;"));
    // The report itself is embedded.
    let (_, raw) = html.split_once("id=\"report\">").unwrap();
    let (raw, _) = raw.split_once("</script>").unwrap();
    let raw: Value = serde_json::from_str(raw).unwrap();
    assert_eq!(raw["rounds"].as_array().unwrap().len(), 80);
    assert_eq!(raw["variants"][0]["figures"]["requests"], 1_200_000);
    assert!(is_well_formed(&html));
}

#[test]
fn the_page_speaks_korean() {
    let lab = Lab::new("get", &two("serve = {}", "serve = {}", 1, ""));
    let html = page(&large(&lab), Language::Ko);
    for part in [
        "<html lang=\"ko\">", "모든 라운드", "예측: 예측대로: ", "<td>나쁨</td>",
        "slow 대비 third", "백분위별", "95 % 신뢰구간",
    ] {
        assert!(html.contains(part), "no {part:?}");
    }
    let outside = html.split("id=\"report\">").next().unwrap();
    for part in ["Every round", "Prediction:", "<td>worse", "Configuration"] {
        assert!(!outside.contains(part), "{part:?}");
    }
}

#[test]
fn a_run_with_nothing_measured_has_a_page_too() {
    let text = two("serve = { die_after = 1 }", "serve = {}", 1, "")
        .replace("[rounds]", "[rounds]\nretries = 0");
    let lab = Lab::new("get", &text);
    lab.run();
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(html.contains("undecided") && html.contains("about to die"), "{html}");
    assert!(!html.contains("NaN") && is_well_formed(&html), "{html}");
}

/// Every element that is opened is closed, in order.
fn is_well_formed(html: &str) -> bool {
    const VOID: [&str; 3] = ["meta", "br", "!doctype"];
    let (head, _) = html.split_once("<script").unwrap();
    let (style, rest) = (head.find("<style>").unwrap(), head.find("</style>").unwrap());
    let text = format!("{}{}</body></html>", &head[..style], &head[rest + 8..]);
    let mut open: Vec<String> = Vec::new();
    for tag in text.split('<').skip(1) {
        let Some((tag, _)) = tag.split_once('>') else { return false };
        let name = tag.trim_end_matches('/').split(' ').next().unwrap().to_owned();
        if let Some(name) = name.strip_prefix('/') {
            if open.pop().as_deref() != Some(name) {
                panic!("</{name}> closes nothing");
            }
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    open.is_empty()
}
