//! A generator that was the limit, and what may still be said.

use madang_lab::{Answer, Conclusion, Undecided, Verdict, report::Ended};

use crate::help::{Lab, stored, two};

const SERVE: &str = "serve = { delay_ms = 1 }";

#[test]
fn no_round_is_refused_for_a_generator_that_was_the_limit_and_nothing_is_said_of_two_such() {
    let text = two(SERVE, SERVE, 2, "").replace("http_req_duration.p50", "goodput");
    let lab = Lab::new("get limited", &text);
    let report = lab.run();
    assert_eq!((report.ended, report.rounds.len()), (Ended::Complete, 4));
    assert!(report.rounds.iter().all(|round| round.counted));
    assert_eq!(report.verdict, Some(Verdict::Undecided(Undecided::GeneratorLimited)));
    assert_eq!((report.conclusion(), report.complete_blocks), (Conclusion::CannotTell, 2));
    assert!(report.warnings.iter().any(|warning| warning.contains("the load generator")));
    assert!(lab.out().join("report.md").exists());
}

/// Six blocks of rounds with so many good requests each second, and these warnings of `fast`.
fn with(warning: &str, metric: &str, fast: f64) -> (madang_lab::Report, Answer) {
    let text = two(SERVE, SERVE, 1, "")
        .replace("http_req_duration.p50", metric)
        .replace("ratio_at_most = 0.5", "ratio_at_least = 1.5");
    let lab = Lab::new("get", &text);
    lab.run();
    let stored = stored(&lab, 6, |block, variant, measured| {
        let is_fast = variant == "fast";
        let value = f64::from(1000 + block) * if is_fast { fast } else { 1.0 };
        let load = &mut measured["load"];
        load["requests"] =
            serde_json::json!({"total": value as u64, "good": value as u64, "failed": 0});
        load["duration_seconds"] = 1.0.into();
        load["trends"]["http_req_duration"]["p50"] = value.into();
        load["trends"]["http_req_duration"]["count"] = 10_000.into();
        if is_fast {
            measured["warnings"] = serde_json::json!([warning]);
        }
    });
    let report = stored.report();
    let answer = report.answer;
    (report, answer)
}

#[test]
fn a_variant_whose_generator_was_the_limit_answers_at_least_as_many() {
    let (report, answer) = with("generator_limited", "goodput", 2.0);
    assert_eq!((report.verdict, answer), (Some(Verdict::Supported), Answer::Better));
    let (report, answer) = with("generator_limited", "goodput", 0.5);
    let untold = Some(Verdict::Undecided(Undecided::GeneratorLimited));
    assert_eq!((report.verdict, answer), (untold, Answer::CannotTell), "it may be faster");
}

#[test]
fn a_variant_that_dropped_iterations_is_at_least_as_slow_as_was_seen() {
    let (report, answer) = with("dropped", "http_req_duration.p50", 2.0);
    assert_eq!((report.verdict, answer), (Some(Verdict::Supported), Answer::Worse));
    let (report, answer) = with("dropped", "http_req_duration.p50", 0.5);
    let untold = Some(Verdict::Undecided(Undecided::Dropped));
    assert_eq!((report.verdict, answer), (untold, Answer::CannotTell), "the slowest are missing");
    assert_eq!(report.conclusion(), Conclusion::Done);
}

#[test]
fn a_bound_on_the_worse_side_does_not_show_that_a_threshold_holds() {
    let (report, answer) = with("dropped", "http_req_duration.p50", 1.02);
    assert_eq!(answer, Answer::Worse);
    assert_eq!(report.is_worse_by(0.01), Some(true));
    assert_eq!(report.is_worse_by(0.05), None, "the true difference may be larger");
    let (report, _) = with("shared_cpus", "http_req_duration.p50", 1.02);
    assert_eq!(report.is_worse_by(0.05), Some(false));
}
