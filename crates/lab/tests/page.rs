//! The HTML page, from a run as large as an experiment gets.

use std::{
    fs,
    path::{Path, PathBuf},
};

use madang_lab::{Stored, report::Language};
use serde_json::{Value, json};

use crate::help::{Lab, two};

/// A name that would be a tag, if it were not escaped. Variants cannot have it, endpoints can.
const HOSTILE: &str = "/<img src=x onerror=alert(1)>";

/// Four variants and twenty blocks, made of one short run: its rounds again and again, each a little
/// different, with everything a real generator reports.
fn large(lab: &Lab) -> PathBuf {
    lab.run();
    let dir = lab.path().join("large");
    fs::create_dir(&dir).unwrap();
    let run = fs::read_to_string(lab.out().join("run.json")).unwrap();
    let more = "\\n[variants.third]\\nserve = {}\\n[variants.fourth]\\nserve = {}\\n[documented.slow]\\n\\\"http_req_duration.avg\\\" = \\\"0.8 s\\\"\\nusers = \\\"300 users\\\"\\n[rounds]\\nblocks = 20";
    let run =
        run.replace("\\n[rounds]\\nblocks = 1", more).replace("\"blocks\": 1", "\"blocks\": 20");
    fs::write(dir.join("run.json"), run).unwrap();
    let journal = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    let first: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let mut text = String::new();
    for block in 1..=20_u32 {
        for (place, variant) in ["slow", "fast", "third", "fourth"].into_iter().enumerate() {
            let mut round = first.clone();
            round["block"] = block.into();
            round["variant"] = variant.into();
            let wave = f64::from(block * 7 % 11) / 100.0;
            embellish(&mut round["measured"], [1.0, 0.5, 1.01, 1.2][place] * (1.0 + wave));
            text += &format!("{round}\n");
        }
    }
    fs::write(dir.join("rounds.jsonl"), text).unwrap();
    dir
}

fn embellish(measured: &mut Value, factor: f64) {
    let trend = json!({"count": 1000, "avg": 12.0 * factor, "min": 0.4, "max": 240.0 * factor,
        "stddev": 5.0, "p50": 10.0 * factor, "p90": 25.0 * factor, "p95": 40.0 * factor,
        "p99": 120.0 * factor});
    let part = |share: f64| {
        json!({"requests": {"total": (1000.0 * share) as u64, "good": (990.0 * share) as u64,
                            "failed": (10.0 * share) as u64}, "http_req_duration": trend})
    };
    let steps: Vec<Value> = (0..60)
        .map(|second| json!({"requests": 1000, "good": 990 - second, "p95_ms": 40.0 * factor}))
        .collect();
    let server: Vec<Value> = (0..60)
        .map(|second| json!({"cpu_cores": 0.8 * factor, "rss_bytes": 30_000_000 + second * 50_000}))
        .collect();
    let load = &mut measured["load"];
    load["duration_seconds"] = 60.0.into();
    load["requests"] = json!({"total": 60_000, "good": 59_900, "failed": 100});
    load["status_codes"] = json!({"200": 59_900, "503": 90, "0": 10});
    load["trends"]["http_req_duration"] = trend.clone();
    load["names"] = json!({HOSTILE: part(0.5), "/v1/tracks": part(0.5)});
    load["groups"] = json!({"": part(0.3), "::browse": part(0.7)});
    load["scenarios"] = json!({"main": part(0.8), "spike": part(0.2)});
    load["series"] = json!({"step_seconds": 1, "peak_good_per_second": 1200.0, "steps": steps});
    measured["server"]["steps"] = server.into();
    measured["server"]["cpu_seconds"] = (48.0 * factor).into();
}

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
        "Documented by others",
        "Configuration",
        "supported",
        "as documented: 0.8 s",
        "300 users",
        "std dev",
        "KB/s",
        "no answer",
        "1\u{2009}198\u{2009}000",
        "no difference",
        "higher",
        "::browse",
        "spike",
        "name = &quot;test&quot;",
    ] {
        assert!(html.contains(part), "no {part:?}");
    }
    // Five plots with a point for each round, and the points of four lines over five percentiles.
    assert_eq!(html.matches("<circle").count(), 5 * 80 + 4 * 5);
    assert!(html.matches("<polyline").count() >= 20, "four lines in five plots");
    // No network and no script: the policy forbids them, and there is nothing to forbid.
    assert!(html.contains("default-src 'none'"));
    for needed in ["src=", "href=", "url(", "@import", "onload", "<link", "<img", "<iframe"] {
        let outside = html.split("id=\"report\">").next().unwrap();
        let outside = outside.replace("src=x onerror", "");
        assert!(!outside.contains(needed), "{needed}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("/&lt;img src=x onerror=alert(1)&gt;"));
    // What is embedded is the report itself.
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
        "<html lang=\"ko\">",
        "모든 라운드",
        "예측대로",
        "차이 없음",
        "기준",
        "백분위별",
        "95 % 신뢰 구간",
    ] {
        assert!(html.contains(part), "no {part:?}");
    }
    let outside = html.split("id=\"report\">").next().unwrap();
    for part in ["Every round", "supported</b>", "no difference<", "Configuration"] {
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
