//! A run against an earlier one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use madang_lab::{
    Regression, Stored,
    baseline::{Word, check_same},
    metric::Metric,
};

use crate::help::{Lab, two};

fn experiment() -> Lab {
    Lab::new("get", &two("serve = { ballast_mb = 20 }", "serve = {}", 2, ""))
}

/// The run beside, with its rounds changed line by line.
fn changed(lab: &Lab, name: &str, change: impl Fn(usize, &mut serde_json::Value)) -> PathBuf {
    let dir = lab.path().join(name);
    fs::create_dir(&dir).unwrap();
    fs::copy(lab.out().join("run.json"), dir.join("run.json")).unwrap();
    let journal = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    let mut text = String::new();
    for (place, line) in journal.lines().enumerate() {
        let mut round: serde_json::Value = serde_json::from_str(line).unwrap();
        change(place, &mut round);
        text += &format!("{round}\n");
    }
    fs::write(dir.join("rounds.jsonl"), text).unwrap();
    dir
}

/// Times of which each round has the same but for a little.
fn steady(factor: f64) -> impl Fn(usize, &mut serde_json::Value) {
    move |place, round| {
        let factor = factor * (1.0 + 0.001 * place as f64);
        let measured = &mut round["measured"];
        measured["load"]["requests"] = serde_json::json!(
            {"total": 1000, "good": 1000, "failed": 0});
        for name in ["avg", "min", "max", "p50", "p90", "p95", "p99"] {
            measured["load"]["trends"]["http_req_duration"][name] = factor.into();
        }
        measured["server"]["cpu_seconds"] = 1.0.into();
        measured["server"]["peak_memory_bytes"] = 1_000_000.into();
    }
}

fn compared(baseline: &Path, run: &Path) -> Regression {
    let (baseline, run) = (Stored::read(baseline).unwrap(), Stored::read(run).unwrap());
    Regression::new(&baseline, &run, 0.05).unwrap()
}

#[test]
fn a_run_is_told_from_a_slower_one_and_not_from_itself() {
    let lab = experiment();
    lab.run();
    let same = changed(&lab, "same", steady(10.0));
    let slower = changed(&lab, "slower", steady(13.0));
    let equal = compared(&same, &same);
    assert_eq!((equal.word, equal.cannot_tell()), (Word::NotWorse, false), "{}", equal.to_text());
    let worse = compared(&same, &slower);
    assert_eq!((worse.word, worse.cannot_tell()), (Word::Worse, false), "{}", worse.to_text());
    let of = |metric: &Metric| {
        let row = worse.rows.iter().find(|row| row.metric == *metric).unwrap();
        row.word
    };
    assert_eq!(of(&Metric::PeakMemory), Word::NotWorse);
    let p95 = Metric::from_id("http_req_duration.p95").unwrap();
    assert_eq!(of(&p95), Word::Worse);
    assert!(worse.to_text().contains("Worse than the baseline."), "{}", worse.to_text());
    // Faster is not worse.
    assert!(!compared(&slower, &same).cannot_tell());
}

#[test]
fn fewer_good_requests_are_worse_although_the_number_is_smaller() {
    let lab = experiment();
    lab.run();
    let fewer = |place: usize, round: &mut serde_json::Value| {
        steady(10.0)(place, round);
        round["measured"]["load"]["requests"]["good"] = 995.into();
        round["measured"]["load"]["duration_seconds"] = (1.4 + 0.001 * place as f64).into();
    };
    let more = |place: usize, round: &mut serde_json::Value| {
        steady(10.0)(place, round);
        round["measured"]["load"]["duration_seconds"] = (1.0 + 0.001 * place as f64).into();
    };
    let (fewer, more) = (changed(&lab, "fewer", fewer), changed(&lab, "more", more));
    let worse = compared(&more, &fewer);
    let goodput = worse.rows.iter().find(|row| row.metric == Metric::Goodput).unwrap();
    assert_eq!(goodput.word, Word::Worse, "{}", worse.to_text());
    assert!(!compared(&fewer, &more).cannot_tell());
}

/// So many of a thousand requests of each round are good, the first block's apart.
fn good(first: u32, others: u32, factor: f64) -> impl Fn(usize, &mut serde_json::Value) {
    move |place, round| {
        steady(factor)(place, round);
        let good = if round["block"] == 1 { first } else { others };
        round["measured"]["load"]["requests"]["good"] = good.into();
        // As in an open model: the load ends when it ends, however slow the server is.
        round["measured"]["load"]["duration_seconds"] = (1.0 + 0.001 * place as f64).into();
    }
}

fn word(regression: &Regression, metric: &Metric) -> Word {
    regression.rows.iter().find(|row| row.metric == *metric).unwrap().word
}

#[test]
fn errors_in_one_round_do_not_let_a_slow_build_pass() {
    let lab = experiment();
    lab.run();
    let fine = changed(&lab, "fine", good(1000, 1000, 10.0));
    let slow = changed(&lab, "slow", good(985, 1000, 500.0));
    let unknown = compared(&fine, &slow);
    assert_eq!(
        (unknown.word, unknown.cannot_tell()),
        (Word::Undecided, true),
        "{}",
        unknown.to_text()
    );
    let why = unknown.undecided_because.as_deref().unwrap();
    assert!(why.contains("the run cannot be judged by response time, p50 of `slow`"), "{why}");
    // Nor those of the baseline.
    let bad = changed(&lab, "bad", good(985, 1000, 10.0));
    let slow = changed(&lab, "slower", good(1000, 1000, 500.0));
    let unknown = compared(&bad, &slow);
    assert!(unknown.cannot_tell(), "{}", unknown.to_text());
    assert!(unknown.to_text().contains("the baseline cannot be judged"), "{}", unknown.to_text());
    // A value that is not there at all.
    let unobserved = changed(&lab, "unobserved", |place, round| {
        good(1000, 1000, 10.0)(place, round);
        round["measured"]["server"] = serde_json::Value::Null;
    });
    let unknown = compared(&fine, &unobserved);
    assert!(unknown.cannot_tell(), "{}", unknown.to_text());
    // What neither can be judged by is no reason.
    let neither = compared(&unobserved, &unobserved);
    assert_eq!(
        (neither.word, neither.cannot_tell()),
        (Word::Undecided, false),
        "{}",
        neither.to_text()
    );
}

#[test]
fn a_smaller_share_of_good_requests_is_worse() {
    let lab = experiment();
    lab.run();
    let fine = changed(&lab, "fine", good(1000, 1000, 10.0));
    // Less than is allowed, and below 99 %.
    let below = changed(&lab, "below", good(980, 980, 10.0));
    let worse = compared(&fine, &below);
    assert_eq!(word(&worse, &Metric::GoodShare), Word::Worse, "{}", worse.to_text());
    assert_eq!(word(&worse, &Metric::Goodput), Word::NotWorse, "{}", worse.to_text());
    assert_eq!((worse.word, worse.cannot_tell()), (Word::Worse, false), "{}", worse.to_text());
    // Below it all along: by more than is allowed, down to none at all.
    for (name, fewer) in [("fewer", 800), ("none", 0)] {
        let fewer = changed(&lab, name, good(fewer, fewer, 10.0));
        let worse = compared(&below, &fewer);
        assert_eq!(word(&worse, &Metric::GoodShare), Word::Worse, "{}", worse.to_text());
        assert_eq!(worse.word, Word::Worse, "{}", worse.to_text());
        assert_eq!(word(&compared(&fewer, &below), &Metric::GoodShare), Word::NotWorse);
    }
}

#[test]
fn a_single_block_on_either_side_decides_nothing() {
    let lab = experiment();
    lab.run();
    let full = changed(&lab, "full", steady(10.0));
    let single = changed(&lab, "single", steady(10.0));
    let journal = fs::read_to_string(single.join("rounds.jsonl")).unwrap();
    let first: Vec<&str> = journal.lines().take(2).collect();
    fs::write(single.join("rounds.jsonl"), first.join("\n") + "\n").unwrap();
    let run = fs::read_to_string(single.join("run.json")).unwrap();
    fs::write(single.join("run.json"), run.replace("\"blocks\": 2", "\"blocks\": 1")).unwrap();
    for (baseline, run) in [(&full, &single), (&single, &full), (&single, &single)] {
        let unknown = compared(baseline, run);
        assert_eq!((unknown.word, unknown.cannot_tell()), (Word::Undecided, true));
        let text = unknown.to_text();
        assert!(text.contains("no value could be decided"), "{text}");
    }
}

#[test]
fn a_run_without_its_budget_is_not_compared_with_one_that_had_it() {
    let accept = ["\"generator_limited\"]", "\"generator_limited\", \"no_budget\"]"];
    let text = two("serve = { ballast_mb = 20 }", "serve = {}", 2, "");
    let lab = Lab::new("get", &text.replace(accept[0], accept[1]));
    lab.run();
    let without = |place: usize, round: &mut serde_json::Value| {
        steady(10.0)(place, round);
        if round["variant"] == "fast" {
            round["measured"]["warnings"] = serde_json::json!(["no_budget"]);
        }
    };
    let (with, without) = (changed(&lab, "a", steady(10.0)), changed(&lab, "b", without));
    for (baseline, run) in [(&with, &without), (&without, &with)] {
        let unknown = compared(baseline, run);
        assert_eq!((unknown.word, unknown.cannot_tell()), (Word::Undecided, true));
        assert!(unknown.to_text().contains("the budget of `fast`"), "{}", unknown.to_text());
    }
    assert!(!compared(&without, &without).cannot_tell());
}

#[test]
fn another_machine_or_an_unfinished_run_decides_nothing() {
    let lab = experiment();
    lab.run();
    let (same, slower) = (changed(&lab, "a", steady(10.0)), changed(&lab, "b", steady(13.0)));
    let text = fs::read_to_string(slower.join("run.json")).unwrap();
    let elsewhere = text.replacen("\"cpus\":", "\"cpus\": 77, \"was\":", 1);
    fs::write(slower.join("run.json"), elsewhere).unwrap();
    let unknown = compared(&same, &slower);
    assert_eq!(
        (unknown.word, unknown.cannot_tell()),
        (Word::Undecided, true),
        "{}",
        unknown.to_text()
    );
    assert!(unknown.to_text().contains("different machines"), "{}", unknown.to_text());
    fs::write(slower.join("run.json"), text).unwrap();
    let journal = fs::read_to_string(slower.join("rounds.jsonl")).unwrap();
    let first: Vec<&str> = journal.lines().take(3).collect();
    fs::write(slower.join("rounds.jsonl"), first.join("\n") + "\n").unwrap();
    let run = fs::read_to_string(slower.join("run.json")).unwrap();
    fs::write(slower.join("run.json"), run.replace("\"complete\"", "\"interrupted\"")).unwrap();
    assert!(compared(&same, &slower).cannot_tell());
}

#[test]
fn runs_of_different_loads_are_refused() {
    let lab = experiment();
    lab.run();
    let (one, other) = (changed(&lab, "a", steady(1.0)), changed(&lab, "b", steady(1.0)));
    let text = fs::read_to_string(other.join("run.json")).unwrap();
    fs::write(other.join("run.json"), text.replace("vus = 2", "vus = 3")).unwrap();
    let (one, other) = (Stored::read(&one).unwrap(), Stored::read(&other).unwrap());
    let error = Regression::new(&one, &other, 0.05).unwrap_err().to_string();
    assert!(error.contains("the loads") && !error.contains("variants"), "{error}");
}

#[test]
fn what_the_script_imports_is_the_load_and_a_server_beside_it_is_not() {
    let lab = Lab::new("get './shared.js'", &two("serve = {}", "serve = {}", 1, ""));
    let write = |name: &str, text: &str| fs::write(lab.path().join(name), text).unwrap();
    write("shared.js", "export const path = '/';");
    write("server.js", "// the build of last week");
    lab.run();
    let stored = Stored::read(&lab.out()).unwrap();
    let differs = || check_same(&stored, &lab.read().unwrap(), &stored.plan).err();
    write("server.js", "// the build of today");
    assert!(differs().is_none());
    write("shared.js", "export const path = '/other';");
    let error = differs().unwrap().to_string();
    assert!(error.ends_with("the scripts differ"), "{error}");
}
