//! Servers without a good response, always or sometimes. Zero is less than any prediction, and no response time.

use madang_lab::{Conclusion, Report, Undecided, Verdict};
use serde_json::{Value, json};

use crate::help::{Lab, stored, two};

const BROKEN: Verdict = Verdict::Undecided(Undecided::NothingGood);

/// Claims about the second variant, and their verdicts when these blocks of it are broken.
struct Case {
    lab: Lab,
    claims: Vec<String>,
}

impl Case {
    fn new(claims: &[&str]) -> Self {
        let one = "prediction = { metric = \"http_req_duration.p50\", variant = \"fast\", ratio_at_most = 0.5 }";
        let claims: Vec<String> = claims.iter().map(|claim| (*claim).to_owned()).collect();
        let claim = |claim: &String| {
            let (metric, bound) = claim.split_once(' ').unwrap();
            format!("[[prediction]]\nmetric = \"{metric}\"\nvariant = \"fast\"\n{bound}\n")
        };
        let text: String = claims.iter().map(claim).collect();
        let text = two("serve = {}", "serve = {}", 1, "").replace(one, &text);
        let lab = Lab::new("get", &text);
        lab.run();
        Self { lab, claims }
    }

    fn report(&self, blocks: u32, change: impl Fn(u32, &str, &mut Value)) -> Report {
        let report = stored(&self.lab, blocks, |block, variant, measured| {
            let load = &mut measured["load"];
            load["requests"] = json!({"total": 1000, "good": 990 + block % 7, "failed": 0});
            load["duration_seconds"] = 1.0.into();
            change(block, variant, measured);
        });
        report.report()
    }

    #[track_caller]
    fn assert(&self, report: &Report, expected: &[Verdict]) {
        let found = report.predictions.iter().map(|answer| answer.verdict);
        for ((claim, found), expected) in self.claims.iter().zip(found).zip(expected) {
            assert_eq!(found, *expected, "{claim}: {}", report.sentence());
        }
        assert_eq!(report.predictions.len(), expected.len());
    }
}

fn nothing(measured: &mut Value) {
    measured["load"]["requests"]["good"] = 0.into();
}

#[test]
fn what_never_answers_well_refutes_every_promise_and_wins_nothing() {
    let case = Case::new(&[
        "goodput at_least = 100",
        "goodput ratio_at_least = 0.9",
        "goodput difference_below = 0.1",
        "good_reqs.rate ratio_at_least = 0.9",
        "good_share at_least = 0.99",
        "good_share ratio_at_least = 0.1",
        "cpu_per_good_request at_most = 1000000",
        "cpu_per_good_request ratio_at_most = 10",
        "http_req_duration.p95 ratio_at_most = 10",
        "http_req_duration.p95 at_most = 10000",
    ]);
    let broken = |_, variant: &str, measured: &mut Value| {
        if variant == "fast" {
            nothing(measured);
        }
    };
    let report = case.report(6, broken);
    let mut expected = vec![Verdict::Refuted; 6];
    expected.extend([BROKEN; 4]);
    case.assert(&report, &expected);
    let text = report.to_text();
    assert!(text.contains("×0 in 6 of 6 blocks (no request was good"), "{text}");
    assert!(text.contains("not a single request was good"), "{text}");
    assert!(text.contains("0 req/s") && !text.contains("too small"), "{text}");
    assert_eq!(
        (report.verdict, report.conclusion()),
        (Some(Verdict::Refuted), Conclusion::SystemBroken)
    );
    // One block only reports that it is broken.
    assert_eq!(case.report(1, broken).conclusion(), Conclusion::SystemBroken);
}

#[test]
fn a_noisy_machine_is_no_excuse_for_answering_nothing() {
    let case = Case::new(&["goodput at_least = 100", "goodput ratio_at_least = 0.9"]);
    let noisy = |is_broken: bool| {
        case.report(6, |_, variant, measured| {
            // Warnings that the experiment does not accept, in rounds that were not refused any more.
            measured["warnings"] = json!(["no_budget"]);
            if variant == "fast" && is_broken {
                nothing(measured);
            }
        })
    };
    let sound = noisy(false);
    let noise = Verdict::Undecided(Undecided::MachineTooNoisy);
    case.assert(&sound, &[noise; 2]);
    assert_eq!(sound.conclusion(), Conclusion::CannotTell);
    case.assert(&noisy(true), &[Verdict::Refuted; 2]);
}

#[test]
fn what_answers_only_after_some_starts_is_never_as_good_and_fails_the_command() {
    let case = Case::new(&[
        "goodput at_least = 100",
        "goodput ratio_at_least = 0.9",
        "good_share at_least = 0.4",
        "cpu_per_good_request ratio_at_most = 10",
        "http_req_duration.p95 ratio_at_most = 10",
    ]);
    let every = |nth: u32| {
        move |block: u32, variant: &str, measured: &mut Value| {
            if variant == "fast" && block.is_multiple_of(nth) {
                nothing(measured);
            }
        }
    };
    for (blocks, nth) in [(4, 2), (20, 20)] {
        let report = case.report(blocks, every(nth));
        case.assert(&report, &[BROKEN; 5]);
        assert_eq!(report.conclusion(), Conclusion::SystemBroken);
        let text = report.to_text();
        assert!(text.contains(&format!("×0 in {} of {blocks} blocks", blocks / nth)), "{text}");
        assert!(text.contains("in the others"), "{text}");
    }
    // Nine of ten starts: the median needs no assumption.
    let report = case.report(10, |block, variant, measured| {
        if block != 5 {
            every(1)(block, variant, measured);
        }
    });
    let expected = [BROKEN, Verdict::Refuted, Verdict::Refuted, BROKEN, BROKEN];
    let found = report.predictions[1].verdict;
    assert_eq!(found, expected[1], "{}", report.sentence());
    case.assert(&report, &expected);
}

#[test]
fn a_reference_that_answers_nothing_is_told_as_well() {
    let case =
        Case::new(&["goodput ratio_at_least = 0.9", "http_req_duration.p95 ratio_at_most = 10"]);
    let report = case.report(6, |_, variant, measured| {
        if variant == "slow" {
            nothing(measured);
        }
    });
    case.assert(&report, &[Verdict::Supported, BROKEN]);
    let both = case.report(6, |_, _, measured| nothing(measured));
    case.assert(&both, &[BROKEN; 2]);
}

#[test]
fn errors_that_are_gone_are_fewer() {
    let case = Case::new(&[
        "http_req_failed.rate ratio_at_most = 0.5",
        "http_req_failed.rate ratio_at_least = 0.5",
    ]);
    let report = case.report(6, |_, variant, measured| {
        measured["load"]["requests"]["failed"] = u32::from(variant == "slow").into();
    });
    case.assert(&report, &[Verdict::Supported, Verdict::Refuted]);
    assert_eq!(report.conclusion(), Conclusion::Done);
}

#[test]
fn the_share_of_good_requests_is_a_row_where_it_is_predicted() {
    let case = Case::new(&["good_share at_least = 0.98"]);
    let report = case.report(6, |_, _, _| {});
    case.assert(&report, &[Verdict::Supported]);
    assert!(report.to_text().contains("share of good requests"), "{}", report.to_text());
}
