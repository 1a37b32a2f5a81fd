//! Runs that are reported again, and resumed runs.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use madang_lab::progress::{Progress, Silent};
use madang_lab::report::RunEnd;
use madang_lab::stored::StoredError;
use madang_lab::{Cancel, Conclusion, FailureKind, Options, Report, RoundRecord, RunError, Stored};

use crate::help::{FIXTURE, Lab, shell, two};
use crate::host::TestHost;

const SLOW: &str = "serve = { delay_ms = 2 }";
const FAST: &str = "serve = { delay_ms = 1 }";

/// Cancels after so many rounds.
struct StopAfter(usize, Cancel);

impl Progress for StopAfter {
    fn ended(&mut self, _: &RoundRecord) {
        self.0 -= 1;
        if self.0 == 0 {
            self.1.cancel();
        }
    }
}

fn interrupted_after(lab: &Lab, rounds: usize) -> Report {
    let cancel = Cancel::default();
    let finished = lab.try_run_with(&cancel, &mut StopAfter(rounds, cancel.clone())).unwrap();
    finished.written.unwrap();
    finished.report
}

fn resume(lab: &Lab) -> Result<Report, RunError> {
    let stored = Stored::read(&lab.out())?;
    let host = TestHost::new(Path::new(FIXTURE));
    let finished = madang_lab::resume(stored, &host, &Cancel::default(), &mut Silent)?;
    finished.written?;
    Ok(finished.report)
}

fn value(thing: &impl serde::Serialize) -> Value {
    serde_json::to_value(thing).unwrap()
}

/// Equal except for last digits, which JSON may change.
#[track_caller]
fn same(left: &Value, right: &Value) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            assert!(left.keys().eq(right.keys()), "{left:?} {right:?}");
            left.iter().for_each(|(key, value)| same(value, &right[key]));
        }
        (Value::Array(left), Value::Array(right)) => {
            assert_eq!(left.len(), right.len());
            left.iter().zip(right).for_each(|(left, right)| same(left, right));
        }
        (Value::Number(left), Value::Number(right)) => {
            let (left, right) = (left.as_f64().unwrap(), right.as_f64().unwrap());
            assert!((left - right).abs() <= 1e-12 * left.abs(), "{left} {right}");
        }
        _ => assert_eq!(left, right),
    }
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let lab = Lab::new("get", &two(SLOW, FAST, 3, ""));
    // The first round of the second block is the last.
    let first = interrupted_after(&lab, 3);
    assert_eq!((first.ended, first.complete_blocks), (RunEnd::Interrupted, 1));
    // As if killed: without a report, and with an incomplete line.
    fs::remove_file(lab.out().join("report.json")).unwrap();
    let journal = fs::OpenOptions::new().append(true).open(lab.out().join("rounds.jsonl"));
    journal.unwrap().write_all(b"{\"block\": 2, \"attem").unwrap();
    fs::create_dir_all(lab.out().join("work/round/data")).unwrap();

    let second = resume(&lab).unwrap();
    assert_eq!((second.ended, second.complete_blocks), (RunEnd::Complete, 3));
    assert_eq!((second.seed, &second.origin.started), (first.seed, &first.origin.started));
    assert_eq!(second.origin.resumed.len(), 1);
    for (kept, measured) in second.rounds.iter().zip(&first.rounds) {
        same(&value(kept), &value(measured));
    }
    let counted = second.rounds.iter().filter(|round| round.counted);
    let counted: Vec<(u32, u32)> = counted.map(|round| (round.block, round.attempt)).collect();
    assert_eq!(counted, [(1, 1), (1, 1), (2, 2), (2, 2), (3, 1), (3, 1)]);
    let lines = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), second.rounds.len());
    assert!(!lab.out().join("work").exists());
    assert_eq!(lab.json()["ended"]["state"], "complete");
    // Nothing is left to run: the report is written again.
    same(&value(&resume(&lab).unwrap().rounds), &value(&second.rounds));
}

#[test]
fn a_run_reported_again_concludes_the_same_without_its_script() {
    let lab = Lab::new("get", &two(SLOW, FAST, 2, ""));
    lab.run();
    let path = |name: &str| lab.out().join(name);
    let page = fs::read_to_string(path("report.md")).unwrap();
    let json = lab.json();
    for name in ["report.json", "report.md"] {
        fs::remove_file(path(name)).unwrap();
    }
    for name in ["script.js", "experiment.toml"] {
        fs::remove_file(lab.path().join(name)).unwrap();
    }
    let stored = Stored::read(&lab.out()).unwrap();
    assert!(stored.is_complete());
    madang_lab::report_again(&stored, None).unwrap();
    assert_eq!(fs::read_to_string(path("report.md")).unwrap(), page);
    same(&lab.json(), &json);
}

#[test]
fn a_run_that_was_killed_is_reported_as_unfinished() {
    let lab = Lab::new("get", &two(SLOW, FAST, 2, ""));
    interrupted_after(&lab, 3);
    // Missing in a killed run.
    let path = lab.out().join("run.json");
    let mut run: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    run["ended"] = Value::Null;
    run["finished"] = Value::Null;
    fs::write(&path, run.to_string()).unwrap();
    let report = Stored::read(&lab.out()).unwrap().report();
    assert_eq!((report.ended, report.complete_blocks), (RunEnd::Interrupted, 1));
    assert_eq!(
        (report.conclusion(), report.verdict.unwrap().word()),
        (Conclusion::Interrupted, "undecided")
    );
}

#[test]
fn a_block_that_stayed_broken_gets_new_attempts() {
    let fast = shell(&format!("if [ -e flag ]; then exec {FIXTURE} server --port $0; fi; exit 3"));
    let lab =
        Lab::new("get", &two(SLOW, &fast, 1, "").replace("[rounds]", "[rounds]\nretries = 0"));
    assert_eq!(lab.run().ended, RunEnd::Broken { block: 1, attempts: 1 });
    fs::write(lab.path().join("flag"), "").unwrap();
    let report = resume(&lab).unwrap();
    assert_eq!(report.ended, RunEnd::Complete);
    let failed =
        report.rounds.iter().filter_map(|round| Some((round.attempt, round.failure()?.kind)));
    assert_eq!(failed.collect::<Vec<_>>(), [(1, FailureKind::Start)]);
}

#[test]
fn what_changed_since_is_not_mixed_with_what_was_measured() {
    let lab = Lab::new("get", &two(SLOW, FAST, 2, ""));
    interrupted_after(&lab, 1);
    let journal = fs::read(lab.out().join("rounds.jsonl")).unwrap();
    fs::write(lab.path().join("script.js"), "get // faster").unwrap();
    let error = resume(&lab).unwrap_err();
    let RunError::Stored(StoredError::Changed(what)) = &error else { panic!("{error:?}") };
    assert!(what.len() == 1 && what[0].ends_with("/script.js`"), "{what:?}");
    fs::write(lab.path().join("script.js"), "get").unwrap();
    let text = fs::read_to_string(lab.path().join("experiment.toml")).unwrap();
    fs::write(lab.path().join("experiment.toml"), text.replace("vus = 2", "vus = 3")).unwrap();
    let error = resume(&lab).unwrap_err().to_string();
    assert!(error.contains("experiment.toml") && !error.contains("script"), "{error}");
    fs::remove_file(lab.path().join("experiment.toml")).unwrap();
    let error = resume(&lab).unwrap_err().to_string();
    assert!(error.contains("experiment.toml"), "{error}");
    assert_eq!(fs::read(lab.out().join("rounds.jsonl")).unwrap(), journal);
}

/// It may be the script of a later run.
#[test]
fn only_files_that_the_script_uses_hold_up_a_run_that_goes_on() {
    let lab = Lab::new("get", &two(SLOW, FAST, 2, ""));
    fs::create_dir(lab.path().join("parts")).unwrap();
    let write = |name: &str, text: &str| fs::write(lab.path().join(name), text).unwrap();
    let parts = [("parts/lib.js", "import '../deep.js'"), ("deep.js", "1"), ("names.txt", "2")];
    parts.iter().for_each(|(name, text)| write(name, text));
    write("beside.js", "3");
    let [lib, deep, names] = parts.map(|(name, _)| lab.path().join(name));
    let outline = serde_json::json!({
        "seconds": 1.0, "metrics": {}, "imports": [lib, deep], "opened": [names],
    });
    let mut experiment = lab.read().unwrap();
    experiment.apply_outline(&serde_json::from_value(outline).unwrap()).unwrap();
    assert!(experiment.sources.scripts.contains("import '../deep.js'"));
    let cancel = Cancel::default();
    let stop = &mut StopAfter(1, cancel.clone());
    lab.run_experiment(&experiment, &Options::default(), &cancel, stop).unwrap().written.unwrap();
    for (name, text) in parts {
        write(name, "another");
        let error = resume(&lab).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}` changed")), "{error}");
        fs::remove_file(lab.path().join(name)).unwrap();
        let error = resume(&lab).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}` (now missing)")), "{error}");
        write(name, text);
    }
    write("beside.js", "4");
    write("new.js", "5");
    assert_eq!(resume(&lab).unwrap().ended, RunEnd::Complete);
}

#[test]
fn a_program_or_file_that_became_another_is_not_mixed_with_what_was_measured() {
    let fixture = FIXTURE;
    let fast = "command = [\"sh\", \"start.sh\", \"--settings=settings.conf\", \"{port}\"]\n\
                ready = \"http://127.0.0.1:{port}/health\"";
    let data = "[data]\nfrom_here = \"rows.csv\"\nx = \"y\"\n";
    let lab = Lab::new("get", &two(SLOW, fast, 2, data));
    let files = [
        ("start.sh", format!("exec {fixture} server --port $2\n")),
        ("settings.conf", "size = 1\n".to_owned()),
        ("rows.csv", "1,2\n".to_owned()),
    ];
    let write = |name: &str, text: &str| fs::write(lab.path().join(name), text).unwrap();
    files.iter().for_each(|(name, text)| write(name, text));
    interrupted_after(&lab, 1);
    for (name, text) in &files {
        // Of the same length.
        write(name, &text.replace('1', "3").replace("exec", "true"));
        let error = resume(&lab).unwrap_err();
        let RunError::Stored(StoredError::Changed(what)) = &error else { panic!("{error:?}") };
        assert_eq!(what.len(), 1, "{what:?}");
        assert!(what[0].ends_with(&format!("/{name}`")), "{what:?}");
        fs::remove_file(lab.path().join(name)).unwrap();
        let error = resume(&lab).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        write(name, text);
    }
    assert_eq!(resume(&lab).unwrap().ended, RunEnd::Complete);
}

#[test]
fn a_resumed_run_warns_of_servers_whose_build_it_cannot_know() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    lab.run();
    let path = lab.out().join("run.json");
    let text = fs::read_to_string(&path).unwrap();
    let url = text.replace(FAST, "url = \\\"http://127.0.0.1:1\\\"");
    let warned = |text: &str| {
        fs::write(&path, text).unwrap();
        let warnings = Stored::read(&lab.out()).unwrap().report().warnings;
        warnings.iter().any(|line| line.contains("the server of `fast` was still the same"))
    };
    let resumed = |text: &str| text.replace("\"resumed\": []", "\"resumed\": [\"2026-01-01\"]");
    assert!(warned(&resumed(&url)));
    assert!(!warned(&url) && !warned(&resumed(&text)));
}

#[test]
fn a_line_torn_inside_a_character_is_left_out() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    lab.run();
    let path = lab.out().join("rounds.jsonl");
    let whole = fs::read(&path).unwrap();
    let torn = [&whole, &b"{\"block\": 2, \"why\": \""[..], &"\u{b2ec}".as_bytes()[..2]].concat();
    fs::write(&path, &torn).unwrap();
    let stored = Stored::read(&lab.out()).unwrap();
    assert!(stored.is_complete());
    assert_eq!(resume(&lab).unwrap().ended, RunEnd::Complete);
    assert_eq!(fs::read(&path).unwrap(), whole);
    // A complete line is not an incomplete one.
    fs::write(&path, [&torn, &b"\n"[..]].concat()).unwrap();
    let error = Stored::read(&lab.out()).unwrap_err().to_string();
    assert!(error.contains("rounds.jsonl"), "{error}");
}

/// Two journals in one file would count rounds twice, or rounds of another run.
#[test]
fn rounds_that_the_run_cannot_have_made_are_refused_with_their_line() {
    let lab = Lab::new("get", &two(SLOW, FAST, 2, ""));
    lab.run();
    let path = lab.out().join("rounds.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let first = whole.lines().next().unwrap();
    let other = |key: &str, value: Value| {
        let mut round: Value = serde_json::from_str(first).unwrap();
        round[key] = value;
        round.to_string()
    };
    for (line, expected) in [
        (first.to_owned(), "rounds.jsonl`:5: this is no round of this run: block 1, attempt 1 of"),
        (
            other("variant", "third".into()),
            ":5: this is no round of this run: the run has no variant `third`",
        ),
        (other("block", 3.into()), ":5: this is no round of this run: the run has no block 3"),
    ] {
        fs::write(&path, format!("{whole}{line}\n")).unwrap();
        let error = Stored::read(&lab.out()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&path, whole).unwrap();
    assert!(Stored::read(&lab.out()).unwrap().is_complete());
}

/// Tries to resume and to report the run that it observes.
struct Impatient<'l>(&'l Lab, Vec<Option<RunError>>);

impl Progress for Impatient<'_> {
    fn ended(&mut self, _: &RoundRecord) {
        let stored = Stored::read(&self.0.out()).unwrap();
        self.1.push(resume(self.0).err());
        self.1.push(madang_lab::report_again(&stored, None).err());
    }
}

#[test]
fn a_run_that_is_still_going_cannot_be_resumed_or_reported() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    let mut impatient = Impatient(&lab, Vec::new());
    let finished = lab.try_run_with(&Cancel::default(), &mut impatient).unwrap();
    let in_use = |refused: &Option<RunError>| matches!(refused, Some(RunError::InUse(_)));
    assert!(impatient.1.len() == 4 && impatient.1.iter().all(in_use), "{:?}", impatient.1);
    assert_eq!(finished.report.ended, RunEnd::Complete);
    let stored = Stored::read(&lab.out()).unwrap();
    assert_eq!(madang_lab::report_again(&stored, None).unwrap().ended, RunEnd::Complete);
}

#[test]
fn what_is_no_stored_run_is_refused_by_name() {
    let empty = tempfile::tempdir().unwrap();
    let said = |dir: &Path| {
        let error = Stored::read(dir).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", cause.unwrap_or_default())
    };
    assert!(said(empty.path()).contains("cannot read `run.json`"), "{}", said(empty.path()));
    for (text, expected) in [
        ("{", "cannot understand"),
        ("{\"format\": 99}", "has format 99"),
        ("{\"format\": 1}", "missing field"),
        ("[]", "cannot understand"),
    ] {
        fs::write(empty.path().join("run.json"), text).unwrap();
        assert!(said(empty.path()).contains(expected), "{text}: {}", said(empty.path()));
    }
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    lab.run();
    let journal = lab.out().join("rounds.jsonl");
    fs::write(&journal, "{\"block\": 1}\n").unwrap();
    assert!(said(&lab.out()).contains("rounds.jsonl"), "{}", said(&lab.out()));
}
