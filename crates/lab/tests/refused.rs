//! Rounds that were disturbed, or limited by the generator, are repeated instead of counted.

use madang_lab::{Conclusion, Undecided, Verdict, Warning, report::Ended};

use crate::help::{Lab, two};

const SERVE: &str = "serve = { delay_ms = 1 }";

/// As `two`, but with rounds refused when the generator was the limit. What other tests do to the
/// machine is still accepted.
fn strict(blocks: u32) -> String {
    two(SERVE, SERVE, blocks, "").replace(", \"generator_limited\"", "")
}

#[test]
fn a_round_limited_by_the_generator_is_refused_and_repeated() {
    let lab = Lab::new("get limited unless flag", &strict(2));
    let report = lab.run();
    assert_eq!(report.ended, Ended::Complete);
    assert_eq!(report.rounds.len(), 5, "one more than two blocks of two");
    let first = &report.rounds[0];
    assert_eq!(first.refused, [Warning::GeneratorLimited]);
    assert!(!first.counted && report.rounds[1..].iter().all(|round| round.counted));
    assert_eq!(report.rounds[1].variant, first.variant, "repeated at once");
    assert_eq!(report.complete_blocks, 2);
    let about =
        |warning: &&String| warning.contains("was refused and repeated: the load generator");
    assert_eq!(report.warnings.iter().filter(about).count(), 1, "{:?}", report.warnings);
    assert_eq!(lab.json()["rounds"][0]["refused"][0], "generator_limited");
    assert_ne!(report.conclusion(), Conclusion::CannotTell);
}

#[test]
fn a_saturated_generator_never_gives_a_verdict() {
    let lab = Lab::new("get limited", &strict(2));
    let report = lab.run();
    // Two of four rounds may be repeated; then they are taken as they come.
    assert_eq!(report.rounds.len(), 6);
    assert_eq!(report.rounds.iter().filter(|round| !round.refused.is_empty()).count(), 2);
    assert_eq!(report.verdict, Verdict::Undecided(Undecided::GeneratorLimited));
    assert_eq!((report.conclusion(), report.complete_blocks), (Conclusion::CannotTell, 2));
    assert!(report.sentence.contains("generator"), "{}", report.sentence);
    assert!(lab.out().join("report.md").exists());
}

#[test]
fn what_the_experiment_accepts_is_a_warning_only() {
    let report = Lab::new("get limited", &two(SERVE, SERVE, 1, "")).run();
    assert_eq!(report.rounds.len(), 2);
    assert!(report.warnings.iter().any(|warning| warning.contains("the load generator")));
    assert_ne!(report.conclusion(), Conclusion::CannotTell);
}
