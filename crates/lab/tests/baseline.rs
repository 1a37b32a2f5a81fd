//! A run against an earlier one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use madang_lab::{Regression, Stored, baseline::Word, metric::Metric};

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
        measured["server"]["peak_rss_bytes"] = 1_000_000.into();
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
    assert_eq!((equal.word, equal.exit_code()), (Word::NotWorse, 0), "{}", equal.to_text());
    let worse = compared(&same, &slower);
    assert_eq!((worse.word, worse.exit_code()), (Word::Worse, 4), "{}", worse.to_text());
    let of = |metric: &Metric| {
        let row = worse.rows.iter().find(|row| row.metric == *metric).unwrap();
        row.word
    };
    assert_eq!(of(&Metric::PeakRss), Word::NotWorse);
    let p95 = Metric::from_id("http_req_duration.p95").unwrap();
    assert_eq!(of(&p95), Word::Worse);
    assert!(worse.to_text().contains("Worse than the baseline."), "{}", worse.to_text());
    // Faster is not worse.
    assert_eq!(compared(&slower, &same).exit_code(), 0);
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
    assert_eq!(compared(&fewer, &more).exit_code(), 0);
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
    assert_eq!((unknown.word, unknown.exit_code()), (Word::Undecided, 3), "{}", unknown.to_text());
    assert!(unknown.to_text().contains("different machines"), "{}", unknown.to_text());
    fs::write(slower.join("run.json"), text).unwrap();
    let journal = fs::read_to_string(slower.join("rounds.jsonl")).unwrap();
    let first: Vec<&str> = journal.lines().take(3).collect();
    fs::write(slower.join("rounds.jsonl"), first.join("\n") + "\n").unwrap();
    let run = fs::read_to_string(slower.join("run.json")).unwrap();
    fs::write(slower.join("run.json"), run.replace("\"complete\"", "\"interrupted\"")).unwrap();
    assert_eq!(compared(&same, &slower).exit_code(), 3);
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
