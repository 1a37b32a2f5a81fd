//! Broken systems come before noise and verdict: in the first line, and in the conclusion.

use madang_lab::{Answer, Conclusion, Report};
use serde_json::{Value, json};

use crate::help::{Lab, stored, two};

/// Six blocks in which the second variant's rounds are changed, on a machine that is always disturbed.
fn report(text: &str, change: impl Fn(&mut Value)) -> Report {
    let lab = Lab::new("get", text);
    lab.run();
    let report = stored(&lab, 6, |_, variant, measured| {
        let load = &mut measured["load"];
        load["requests"] = json!({"total": 5000, "good": 5000, "failed": 0});
        load["iterations"] = json!({"complete": 5000, "interrupted": 0, "dropped": 0});
        load["trends"]["http_req_duration"]["count"] = 5000.into();
        load["checks"] = json!([]);
        if variant == "fast" {
            change(measured);
        }
    });
    report.report()
}

fn noisy() -> String {
    // The noise is not accepted, and would decide alone.
    two("serve = {}", "serve = {}", 1, "").replace("\"steal\", ", "")
}

fn first_line(report: &Report) -> String {
    report.to_text().lines().next().unwrap().to_owned()
}

#[test]
fn a_script_that_throws_is_the_first_line_with_its_place_whatever_the_noise() {
    let threw = report(&noisy(), |measured| {
        measured["warnings"] = json!(["steal", "exceptions"]);
        let load = &mut measured["load"];
        load["iterations"]["threw"] = 5000.into();
        load["exceptions"] = json!([
            {"message": "TypeError: cannot read property 'id' of undefined (script.js:3:9)", "count": 4990},
            {"message": "Error: other", "count": 10},
        ]);
    });
    let line = first_line(&threw);
    assert!(line.starts_with("BROKEN: the script threw in 100 %"), "{line}");
    assert!(line.contains("`fast`") && line.contains("(script.js:3:9)"), "{line}");
    assert_eq!(threw.conclusion(), Conclusion::SystemBroken);
    assert_eq!(threw.broken.len(), 1, "{:?}", threw.broken);
    // Without it, noise prevents a conclusion.
    let noisy = report(&noisy(), |measured| measured["warnings"] = json!(["steal"]));
    let ended = (noisy.broken.len(), noisy.conclusion());
    assert_eq!(ended, (0, Conclusion::CannotTell), "{}", noisy.to_text());
}

#[test]
fn more_than_one_percent_of_failed_checks_is_broken_unless_that_is_expected() {
    let failed = |measured: &mut Value| {
        let check = json!({"group": "", "name": "is 200", "passes": 4900, "fails": 100});
        let fine = json!({"group": "", "name": "is small", "passes": 4990, "fails": 10});
        measured["load"]["checks"] = json!([check, fine]);
    };
    let found = report(&noisy(), failed);
    let line = first_line(&found);
    assert!(
        line.starts_with("BROKEN: check `is 200` failed 2.00 % of the time with `fast`"),
        "{line}"
    );
    assert_eq!((found.broken.len(), found.conclusion()), (1, Conclusion::SystemBroken));
    let expected = noisy().replace("accept = [", "accept = [\"failed_checks\", ");
    let found = report(&expected, failed);
    assert_eq!((found.broken.len(), found.conclusion()), (0, Conclusion::Done));
}

#[test]
fn a_crash_is_broken_even_when_the_block_succeeds_after_it() {
    let text = two("serve = {}", "serve = { die_after = 1 }", 2, "");
    let crashed = Lab::new("get", &text).run();
    let line = first_line(&crashed);
    assert!(
        line.starts_with("BROKEN: `fast` in 3 of 3 rounds: the server ended under load"),
        "{line}"
    );
    assert_eq!(crashed.conclusion(), Conclusion::SystemBroken);
}

#[test]
fn a_leak_stands_below_the_verdict() {
    let leaky = report(&two("serve = {}", "serve = {}", 1, ""), |measured| {
        let steps = (0..8)
            .map(|at| json!({"requests": 600, "good": 600, "p95_ms": f64::from(at) * 0.0 + 3.0}));
        let load = &mut measured["load"];
        load["duration_seconds"] = 8.0.into();
        load["series"] = json!({"step_seconds": 1, "peak_good_per_second": 1.0, "steps": steps.collect::<Vec<_>>()});
        let memory =
            (0..8).map(|at| json!({"cpu_cores": 0.5, "rss_bytes": 200_000_000 + at * 5_000_000}));
        measured["server"]["steps"] = Value::Array(memory.collect());
    });
    let text = leaky.to_text();
    let second = text.lines().nth(1).unwrap();
    assert!(second.starts_with("Leak? Server memory of `fast`"), "{text}");
    assert!(second.contains("(6 of 6 rounds)"), "{second}");
    assert!(!second.contains("`slow`"), "{second}");
}

#[test]
fn a_p99_of_a_hundred_requests_gets_no_verdict_and_the_largest_value_never() {
    for (metric, count, word) in [
        ("http_req_duration.p99", 100, "undecided"),
        ("http_req_duration.p99", 5000, "refuted"),
        ("http_req_duration.max", 5000, "undecided"),
        ("http_req_duration.p95", 100, "undecided"),
    ] {
        let text = two("serve = {}", "serve = {}", 1, "").replace("http_req_duration.p50", metric);
        let lab = Lab::new("get", &text);
        lab.run();
        let told = stored(&lab, 6, |block, variant, measured| {
            let trend = &mut measured["load"]["trends"]["http_req_duration"];
            trend["count"] = count.into();
            for key in ["p95", "p99", "max"] {
                // Twice as slow, in every round.
                trend[key] =
                    (f64::from(100 + block) * if variant == "fast" { 2.0 } else { 1.0 }).into();
            }
        });
        let told = told.report();
        assert_eq!(told.verdict.unwrap().word(), word, "{metric} of {count}: {}", told.sentence());
        let row =
            told.variants[1].metrics.iter().find(|row| row.metric.id() == "http_req_duration.max");
        assert_eq!(row.unwrap().answer, Some(Answer::CannotTell));
    }
}
