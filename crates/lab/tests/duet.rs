//! Pairs: a variant and the reference loaded at the same time.

use std::fs;

use madang_lab::report::RunEnd;
use madang_lab::{Design, Options, Plan, Report, Stored, Undecided, Verdict, Warning};
use serde_json::Value;

use crate::help::{Lab, measured, two};

const SERVE: &str = "serve = {}";

fn with(design: &str, blocks: u32, rest: &str) -> String {
    two(SERVE, SERVE, blocks, rest)
        .replace("design = \"rounds\"\n", design)
        .replace("http_req_duration.p50", "cpu_per_good_request")
}

#[test]
fn both_of_a_pair_are_loaded_at_once_and_some_blocks_have_rounds_alone() {
    let report = Lab::new("get", &with("", 5, "")).run();
    assert_eq!((report.ended, report.complete_blocks), (RunEnd::Complete, 5), "{report:?}");
    let mut firsts = Vec::new();
    for block in 1..=5 {
        let of_block = report.rounds.iter().filter(|round| round.block == block && round.counted);
        let (pair, alone): (Vec<_>, Vec<_>) = of_block.partition(|round| round.beside.is_some());
        assert_eq!(alone.len(), if block % 4 == 1 { 2 } else { 0 }, "block {block}");
        let [one, other] = pair[..] else { panic!("block {block}: {pair:?}") };
        assert_eq!(one.beside.as_ref(), Some(&other.variant));
        assert_eq!(other.beside.as_ref(), Some(&one.variant));
        let (one_load, other_load) = (&measured(one).load, &measured(other).load);
        let start = one_load.started_at_seconds.max(other_load.started_at_seconds);
        let end = one_load.ended_at_seconds.min(other_load.ended_at_seconds);
        assert!(start < end, "block {block}: one after the other");
        firsts.push(one.variant.clone());
    }
    assert_ne!(firsts[0], firsts[1], "the first to be started changes");
    let row = report.variants[1].metrics.iter().find(|row| row.unit == "us").unwrap();
    assert_eq!(row.comparison.estimate().unwrap().blocks, 5);
    assert!(row.interference.is_some(), "two blocks have rounds alone");
}

#[test]
fn when_one_of_a_pair_breaks_the_other_is_given_up_and_nothing_is_said_of_it() {
    // The first round of `fast` runs alone.
    let hook = "[hooks]\nreset = [\"sh\", \"-c\", \"test $LAB_VARIANT = slow || \
                { test ! -e ran && touch ran; }\"]\n";
    let text = with("", 1, hook).replace("[rounds]", "[rounds]\nretries = 0");
    let report = Lab::new("get", &text).run();
    assert_eq!(report.ended, RunEnd::Broken { block: 1, attempts: 1 });
    let broken = report.rounds.iter().filter(|round| round.failure().is_some());
    let broken: Vec<_> = broken.map(|round| (&*round.variant, round.beside.as_deref())).collect();
    assert_eq!(broken, [("fast", Some("slow"))]);
    assert_eq!(report.rounds.len(), 3, "two alone, and one of the pair");
}

#[test]
fn a_pair_whose_loads_do_not_overlap_is_repeated_whole() {
    let report = Lab::new("get setup in loads 3", &with("", 1, "")).run();
    assert_eq!(report.ended, RunEnd::Complete);
    let (pairs, alone): (Vec<_>, Vec<_>) =
        report.rounds.iter().partition(|round| round.beside.is_some());
    assert_eq!((alone.len(), pairs.len()), (2, 4), "{:?}", report.warnings);
    let refused: Vec<&[Warning]> = pairs.iter().map(|round| &*round.refused).collect();
    assert_eq!(refused, [&[Warning::Apart][..], &[Warning::Apart], &[], &[]]);
    assert!(pairs.iter().all(|round| round.counted == round.refused.is_empty()));
}

#[test]
fn pairs_that_never_overlap_are_repeated_once_and_not_judged() {
    let report = Lab::new("get setup in loads 3 5 7 9", &with("", 2, "")).run();
    assert_eq!(report.ended, RunEnd::Complete);
    let pairs: Vec<_> = report.rounds.iter().filter(|round| round.beside.is_some()).collect();
    let refused: Vec<bool> = pairs.iter().map(|round| !round.refused.is_empty()).collect();
    assert_eq!(refused, [true, true, false, false, false, false], "{:?}", report.warnings);
    assert_eq!(report.headlines[0].doubt, Some(Undecided::Apart));
}

#[test]
fn pairs_whose_loads_have_overlapped_once_are_repeated_until_they_do_again() {
    // Two loads alone, a good pair, two that do not overlap, a good one.
    let report = Lab::new("get setup in loads 5 7", &with("", 2, "")).run();
    assert_eq!(report.ended, RunEnd::Complete);
    let pairs: Vec<_> = report.rounds.iter().filter(|round| round.beside.is_some()).collect();
    let refused: Vec<bool> = pairs.iter().map(|round| !round.refused.is_empty()).collect();
    assert_eq!(
        refused,
        [false, false, true, true, true, true, false, false],
        "{:?}",
        report.warnings
    );
    assert_ne!(report.headlines[0].doubt, Some(Undecided::Apart));
}

/// A run of both designs; `cpu` maps block, variant and whether it ran alone to CPU time.
fn stored(cpu: impl Fn(u32, &str, bool) -> f64) -> Report {
    let lab = Lab::new("get", &with("design = \"both\"\n", 1, "").replace("= 0.5", "= 0.95"));
    lab.run();
    let dir = tempfile::tempdir().unwrap();
    let run = fs::read_to_string(lab.out().join("run.json")).unwrap();
    let run = run.replace("\\nblocks = 1\\n", "\\nblocks = 6\\n");
    fs::write(dir.path().join("run.json"), run.replace("\"blocks\": 1", "\"blocks\": 6")).unwrap();
    let journal = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    let mut text = String::new();
    for block in 1..=6 {
        for line in journal.lines() {
            let mut round: Value = serde_json::from_str(line).unwrap();
            let is_alone = round.get("beside").is_none();
            let variant = round["variant"].as_str().unwrap().to_owned();
            round["block"] = block.into();
            if round.get("refused").is_some() {
                continue;
            }
            let measured = &mut round["measured"];
            measured["warnings"] = Value::Array(Vec::new());
            measured["load"]["requests"]["good"] = measured["load"]["requests"]["total"].clone();
            let used = measured["load"]["requests"]["good"].as_f64().unwrap();
            let cpu = cpu(block, &variant, is_alone) * used * 1e-6;
            measured["server"]["cpu_seconds"] = cpu.into();
            text += &format!("{round}\n");
        }
    }
    fs::write(dir.path().join("rounds.jsonl"), text).unwrap();
    Stored::read(dir.path()).unwrap().report()
}

#[test]
fn a_claim_smaller_than_what_pairs_change_is_not_decided() {
    let wobble = |block: u32| 1.0 + f64::from(block % 3) * 0.002;
    let same = |block: u32, variant: &str, _: bool| match variant {
        "fast" => 90.0 * wobble(block),
        _ => 100.0,
    };
    assert_eq!(stored(same).verdict, Some(Verdict::Supported), "pairs and rounds alone agree");
    let other = |block: u32, variant: &str, is_alone: bool| match (variant, is_alone) {
        ("fast", true) => 98.0 * wobble(block),
        ("fast", false) => 90.0 * wobble(block),
        _ => 100.0,
    };
    let report = stored(other);
    assert_eq!(
        report.verdict,
        Some(Verdict::Undecided(Undecided::Interference)),
        "{}",
        report.to_text()
    );
    let far = |block: u32, variant: &str, is_alone: bool| match (variant, is_alone) {
        ("fast", true) => 52.0 * wobble(block),
        ("fast", false) => 50.0 * wobble(block),
        _ => 100.0,
    };
    assert_eq!(stored(far).verdict, Some(Verdict::Supported), "half is far from 0.95");
}

#[test]
fn a_threshold_nearer_than_what_pairs_change_cannot_be_decided() {
    let wobble = |block: u32| 1.0 + f64::from(block % 3) * 0.001;
    let is_worse_by = |alone: f64, share: f64| {
        let report = stored(move |block, variant, is_alone| match (variant, is_alone) {
            ("fast", true) => alone * wobble(block),
            ("fast", false) => 106.0 * wobble(block),
            _ => 100.0,
        });
        let row = report.variants[1].metrics.iter().find(|row| row.unit == "us");
        row.unwrap().is_worse_by(share)
    };
    assert_eq!(is_worse_by(106.0, 0.05), Some(true));
    // Rounds alone are worse by 2 %, so pairs do not decide about 5 %.
    assert_eq!(is_worse_by(102.0, 0.05), None);
    assert_eq!(is_worse_by(102.0, 0.0), Some(true));
    assert_eq!(is_worse_by(102.0, 0.2), Some(false));
}

#[test]
fn predictions_choose_the_design_and_the_file_may() {
    let design = |text: &str| {
        let experiment = Lab::new("get", text).read().unwrap();
        Plan::new(&experiment, &Options::default()).unwrap().settings.design
    };
    assert_eq!(design(&with("", 1, "")), Design::Duet);
    assert_eq!(design(&two(SERVE, SERVE, 1, "").replace("design", "#")), Design::Rounds);
    assert_eq!(design(&with("design = \"rounds\"\n", 1, "")), Design::Rounds);
    let during = "[[hooks.during]]\nat = \"50ms\"\nsignal = \"CONT\"\n";
    assert_eq!(design(&with("", 1, during)), Design::Rounds, "it would strike one of two");
    let latency = "prediction = [{ metric = \"goodput\", variant = \"fast\", ratio_at_least = 1 }, { metric = \
                   \"cpu_per_good_request\"";
    let mixed =
        with("", 1, "").replace("prediction = { metric = \"cpu_per_good_request\"", latency);
    assert_eq!(design(&mixed.replace("= 0.5 }", "= 0.5 }]")), Design::Both);
}

#[test]
fn a_design_that_does_not_exist_or_cannot_be_is_a_mistake() {
    let mistake = |text: &str| Lab::new("get", text).read().unwrap_err().to_string();
    let said = mistake(&with("design = \"duett\"\n", 1, ""));
    assert!(said.contains("`design` must be one of `duet`, `rounds`, `both`"), "{said}");
    let url = two("url = \"http://127.0.0.1:1\"", SERVE, 1, "").replace("\"rounds\"", "\"duet\"");
    let said = mistake(&url);
    assert!(said.contains("`design` must be \"rounds\": the cost of a `url`"), "{said}");
}
