//! Generators that were the bottleneck, and the remaining conclusions.

use madang_lab::report::RunEnd;
use madang_lab::{Answer, Conclusion, Undecided, Verdict};

use crate::help::{Lab, stored, two};

const SERVE: &str = "serve = { delay_ms = 1 }";

#[test]
fn no_round_is_refused_for_a_generator_that_was_the_limit_and_nothing_is_said_of_two_such() {
    let text = two(SERVE, SERVE, 2, "").replace("http_req_duration.p50", "goodput");
    let lab = Lab::new("get limited", &text);
    let report = lab.run();
    assert_eq!((report.ended, report.rounds.len()), (RunEnd::Complete, 4));
    assert!(report.rounds.iter().all(|round| round.counted));
    assert_eq!(report.verdict, Some(Verdict::Undecided(Undecided::GeneratorLimited)));
    assert_eq!((report.conclusion(), report.complete_blocks), (Conclusion::CannotTell, 2));
    assert!(report.warnings.iter().any(|warning| warning.contains("the load generator")));
    assert!(lab.out().join("report.md").exists());
}

/// Six blocks with so many good requests per second, and these warnings of `fast`.
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

/// With a predicted "at least × 1.5": a slow generator makes goodput a lower bound, dropped iterations the times.
#[test]
fn only_what_follows_from_a_bound_is_reported() {
    for (warning, metric, why, answer) in [
        ("generator_limited", "goodput", Undecided::GeneratorLimited, Answer::Better),
        ("dropped", "http_req_duration.p50", Undecided::Dropped, Answer::Worse),
    ] {
        let (report, found) = with(warning, metric, 2.0);
        assert_eq!((report.verdict, found), (Some(Verdict::Supported), answer), "{warning}");
        let (report, found) = with(warning, metric, 0.5);
        let open = Some(Verdict::Undecided(why));
        assert_eq!((report.verdict, found), (open, Answer::CannotTell), "{warning}");
        // Only a slow generator causes exit code 3.
        let is_slow = why == Undecided::GeneratorLimited;
        let ended = if is_slow { Conclusion::CannotTell } else { Conclusion::Done };
        assert_eq!(report.conclusion(), ended, "{warning}");
    }
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
