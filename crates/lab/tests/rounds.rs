//! Rounds of a run.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use madang_lab::metric::{Metric, Statistic};
use madang_lab::progress::Progress;
use madang_lab::report::RunEnd;
use madang_lab::{Cancel, Conclusion, FailureKind, Options, Plan, Report, RunError, Warning};
use madang_testing::{Watch, until};

use crate::help::{self, Lab, measured, two};

const SLOW: &str = "serve = { delay_ms = 10 }";
const FAST: &str = "serve = { delay_ms = 1 }";

fn failures(report: &Report) -> Vec<FailureKind> {
    report.rounds.iter().filter_map(|round| Some(round.failure()?.kind)).collect()
}

#[test]
fn every_block_runs_every_variant_once_and_each_round_is_measured() {
    // Foreign CPU time needs two samples while the generator lives.
    let lab = Lab::new("get", &two(SLOW, FAST, 3, "").replace("\"300ms\"", "\"800ms\""));
    let report = lab.run();
    assert_eq!(report.ended, RunEnd::Complete);
    assert_eq!(report.rounds.len(), 6);
    for block in report.rounds.chunks(2) {
        let names: HashSet<&str> = block.iter().map(|round| round.variant.as_str()).collect();
        assert_eq!(names, HashSet::from(["slow", "fast"]));
    }
    for round in &report.rounds {
        let measured = measured(round);
        assert!(measured.load.requests.good > 0, "{round:?}");
        let server = measured.server.as_ref().unwrap();
        assert!(server.peak_rss_bytes > 0 && server.threads >= 3, "{server:?}");
        assert!(measured.machine.as_ref().unwrap().foreign_cores.is_some());
        assert!(measured.machine.as_ref().unwrap().lab_cores.is_some_and(|cores| cores > 0.0));
        let p50 = Metric::Latency(Statistic::P50).value_for_ratio(measured).unwrap();
        assert!(p50 >= if round.variant == "slow" { 10.0 } else { 1.0 }, "{p50}");
    }
}

#[test]
fn every_round_starts_with_the_same_data() {
    // The server adds a line to its journal at its start; the load requires a single one.
    let lab = Lab::new("journal", &two(SLOW, FAST, 2, "[data]\nother = \"text\"\n"));
    for round in &lab.run().rounds {
        let requests = measured(round).load.requests;
        assert!(requests.total > 0 && requests.good == requests.total, "{round:?}");
    }
}

#[test]
fn no_file_of_a_round_is_left_but_the_results() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    lab.run();
    let names = fs::read_dir(lab.out()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: HashSet<_> = names.map(|name| name.into_string().unwrap()).collect();
    let expected =
        ["junit.xml", "report.html", "report.json", "report.md", "rounds.jsonl", "run.json"];
    let expected = expected.map(str::to_owned);
    assert_eq!(names, HashSet::from(expected));
    let journal = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), 2);
    // Unknown when a line is written.
    assert!(journal.contains("\"measured\":") && !journal.contains("counted"), "{journal}");
}

#[test]
fn a_command_gets_a_free_port_and_a_fresh_directory() {
    let lab = Lab::new("journal", &two(&help::command(), &help::command(), 2, ""));
    for round in &lab.run().rounds {
        let requests = measured(round).load.requests;
        assert!(requests.total > 0 && requests.good == requests.total, "{round:?}");
    }
}

#[test]
fn a_url_is_loaded_but_not_observed() {
    let mut server = std::process::Command::new(help::FIXTURE)
        .args(["server", "--port", "0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let watch = Watch::over(&server);
    let stdout = server.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let url = line.trim().strip_prefix("listening ").unwrap();
    drop(watch);
    let lab = Lab::new("get", &two(SLOW, &format!("url = \"{url}/\""), 2, ""));
    let report = lab.run();
    server.kill().unwrap();
    server.wait().unwrap();
    let round = report.rounds.iter().find(|round| round.variant == "fast").unwrap();
    assert_eq!(measured(round).server, None);
    let json = lab.json();
    let memory = &json["variants"][1]["metrics"][8];
    assert_eq!(memory["metric"], "peak_memory");
    assert!(memory["no_ratio"].as_str().unwrap().contains("cannot be observed"), "{memory}");
}

#[test]
fn a_url_nobody_answers_at_stops_the_run_before_its_first_round() {
    let port = madang_stack::PortReservation::new().unwrap();
    let url = format!("http://127.0.0.1:{}", port.port());
    let lab = Lab::new("get", &two(SLOW, &format!("url = \"{url}\""), 2, ""));
    let error = lab.try_run(&Options::default(), &Cancel::default()).unwrap_err();
    let RunError::Nobody { variant, source } = &error else { panic!("{error:?}") };
    assert_eq!(variant, "fast");
    assert!(source.to_string().contains(&format!("nobody answers at {url}")), "{source}");
    assert!(!lab.out().exists());
}

#[test]
fn data_that_cannot_be_made_leave_no_directory() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, "[data]\nunpreparable = \"\"\n"));
    let error = lab.try_run(&Options::default(), &Cancel::default()).unwrap_err();
    assert!(matches!(error, RunError::Prepare(_)), "{error:?}");
    assert!(!lab.out().exists());
    // An existing directory stays, and is empty.
    fs::create_dir(lab.out()).unwrap();
    lab.try_run(&Options::default(), &Cancel::default()).unwrap_err();
    assert_eq!(fs::read_dir(lab.out()).unwrap().count(), 0);
}

/// Cancels as soon as `sign` exists.
fn interrupted_at(lab: &Lab, sign: &str) -> Report {
    let cancel = Cancel::default();
    let sign = lab.out().join(sign);
    std::thread::scope(|scope| {
        let cancel = &cancel;
        scope.spawn(move || {
            until("the sign", || sign.exists().then_some(()));
            cancel.cancel();
        });
        lab.try_run(&Options::default(), cancel).unwrap()
    })
}

#[test]
fn a_run_can_be_interrupted_while_it_prepares_and_while_a_server_starts() {
    let endless = Lab::new("get", &two(SLOW, FAST, 1, "[data]\nendless = \"\"\n"));
    assert_eq!(interrupted_at(&endless, "work/template").ended, RunEnd::Interrupted);
    // Longer than any test may run.
    let silent = two("serve = { silent = true }", "serve = { silent = true }", 1, "")
        .replace("[rounds]", "[rounds]\nstart_limit = \"24h\"");
    let report = interrupted_at(&Lab::new("get", &silent), "logs");
    assert_eq!(report.ended, RunEnd::Interrupted);
}

#[test]
fn a_server_that_prints_without_end_breaks_its_round_and_fills_no_disk() {
    let text =
        two("serve = { babble = true }", SLOW, 1, "").replace("[rounds]", "[rounds]\nretries = 0");
    let report = Lab::new("get", &text).run();
    assert_eq!(failures(&report), [FailureKind::Output]);
    assert!(report.to_text().contains("printed more than 64 MiB"), "{}", report.to_text());
}

#[test]
fn cpu_used_since_the_last_look_counts() {
    // All of it falls between two samples, because the one request ends before the second.
    let text = two("serve = { burn_ms = 50 }", "serve = { burn_ms = 50 }", 1, "")
        .replace("warm_up = \"50ms\"", "warm_up = \"0s\"");
    for round in &Lab::new("once", &text).run().rounds {
        assert!(measured(round).server.as_ref().unwrap().cpu_seconds.unwrap() > 0.0, "{round:?}");
    }
}

/// Breaks the results directory in the middle of a run.
struct Saboteur(std::path::PathBuf);

impl Progress for Saboteur {
    fn ended(&mut self, _: &madang_lab::RoundRecord) {
        let target = self.0.join("report.json");
        if !target.exists() {
            fs::create_dir(target).unwrap();
        }
    }

    fn finish(&mut self) {
        fs::remove_dir(self.0.join("logs")).unwrap();
        fs::write(self.0.join("logs"), "").unwrap();
    }
}

#[test]
fn a_report_that_cannot_be_written_is_still_given() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    let finished = lab.try_run_with(&Cancel::default(), &mut Saboteur(lab.out())).unwrap();
    let error = finished.written.unwrap_err();
    assert!(matches!(&error, RunError::Write { path, .. } if path.ends_with("report.json")));
    assert_eq!(finished.report.complete_blocks, 1);
    let page = fs::read_to_string(lab.out().join("report.md")).unwrap();
    assert!(page.contains("cannot remove `"), "what could not be tidied up is a warning: {page}");
}

/// Replaces the journal by a full disk before it is opened.
struct FullJournal(std::path::PathBuf);

impl Progress for FullJournal {
    fn begin(&mut self, _: &Plan) {
        std::os::unix::fs::symlink("/dev/full", self.0.join("rounds.jsonl")).unwrap();
    }
}

#[test]
fn a_journal_that_cannot_be_written_is_a_warning() {
    let lab = Lab::new("get", &two(SLOW, FAST, 2, ""));
    let finished = lab.try_run_with(&Cancel::default(), &mut FullJournal(lab.out())).unwrap();
    finished.written.unwrap();
    assert_eq!(finished.report.complete_blocks, 2);
    let about = |warning: &&String| warning.contains("rounds.jsonl` is not complete");
    assert_eq!(finished.report.warnings.iter().filter(about).count(), 1);
}

#[test]
fn a_server_that_dies_under_load_breaks_its_round_and_is_never_dropped() {
    let lab = Lab::new("get", &two(SLOW, "serve = { die_after = 1 }", 2, ""));
    let report = lab.run();
    assert_eq!(report.ended, RunEnd::Broken { block: 1, attempts: 3 });
    assert_eq!(failures(&report), [FailureKind::ServerDied; 3]);
    assert_eq!(
        (report.conclusion(), report.verdict.unwrap().word()),
        (Conclusion::SystemBroken, "undecided")
    );
    let text = report.to_text();
    for part in ["exit code 9", "about to die", "block 1 broke 3 times"] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    let log = lab.out().join("logs/1-1-fast.server.log");
    assert!(fs::read_to_string(log).unwrap().contains("about to die"));
    assert!(report.rounds.iter().all(|round| !round.counted));
}

#[test]
fn a_server_that_dies_as_the_load_ends_has_died_under_load() {
    let text =
        two("serve = { die_after = 1 }", SLOW, 1, "").replace("[rounds]", "[rounds]\nretries = 0");
    let report = Lab::new("once", &text).run();
    assert_eq!(failures(&report), [FailureKind::ServerDied]);
}

#[test]
fn a_server_that_fails_when_it_is_stopped_is_a_warning() {
    let script = format!("trap 'kill $!; exit 5' TERM; {} server --port $0 & wait", help::FIXTURE);
    let report = Lab::new("get", &two(SLOW, &help::shell(&script), 1, "")).run();
    for round in &report.rounds {
        let unclean = measured(round).warnings.contains(&Warning::UncleanStop);
        assert_eq!(unclean, round.variant == "fast", "{round:?}");
    }
}

#[test]
fn a_block_that_breaks_once_is_run_again_and_counted() {
    // `flag` survives because it is outside of the rounds' directories.
    let fixture = help::FIXTURE;
    let script =
        format!("if [ -e flag ]; then exec {fixture} server --port $0; fi; touch flag; exit 3");
    let report = Lab::new("get", &two(SLOW, &help::shell(&script), 2, "")).run();
    assert_eq!(report.ended, RunEnd::Complete);
    assert_eq!(failures(&report), [FailureKind::Start]);
    assert_eq!(report.complete_blocks, 2);
    let counted: Vec<(u32, u32)> = report
        .rounds
        .iter()
        .filter(|round| round.counted)
        .map(|round| (round.block, round.attempt))
        .collect();
    assert_eq!(counted, [(1, 2), (1, 2), (2, 1), (2, 1)]);
    assert!(report.warnings.iter().any(|warning| warning.contains("exit code 3")));
}

#[test]
fn a_server_that_never_gets_ready_is_given_up_in_time() {
    let silent = "serve = { silent = true }";
    let text =
        two(SLOW, silent, 1, "").replace("[rounds]", "[rounds]\nstart_limit = \"3s\"\nretries = 0");
    let report = Lab::new("get", &text).run();
    assert_eq!(failures(&report), [FailureKind::StartLimit]);
    let text = report.to_text();
    assert!(text.contains("listening") && text.contains("the server's own words"), "{text}");
    assert!(text.contains("`start_limit` in [rounds] raises that"), "{text}");
}

#[test]
fn a_server_that_listens_elsewhere_is_not_told_to_take_longer() {
    // At a port of its choice.
    let elsewhere = format!(
        "command = [{:?}, \"server\", \"--port\", \"0\"]\nready = \"http://127.0.0.1:{{port}}/health\"",
        help::FIXTURE
    );
    let text = two(SLOW, &elsewhere, 1, "")
        .replace("[rounds]", "[rounds]\nstart_limit = \"3s\"\nretries = 0");
    let report = Lab::new("get", &text).run();
    assert_eq!(failures(&report), [FailureKind::StartLimit]);
    let text = report.to_text();
    assert!(
        text.contains("; it listens at port ") && text.contains("listen at `{port}`"),
        "{text}"
    );
    assert!(!text.contains("raises that"), "{text}");
}

#[test]
fn a_script_that_fails_breaks_the_round_with_its_message() {
    let text = two(SLOW, FAST, 1, "").replace("[rounds]", "[rounds]\nretries = 1");
    let report = Lab::new("fail", &text).run();
    assert_eq!(failures(&report), [FailureKind::Load; 2]);
    assert!(report.to_text().contains("oops is not defined"), "{}", report.to_text());
}

#[test]
fn a_load_that_never_ends_is_given_up_in_time() {
    let limits = "[rounds]\ntime_limit = \"400ms\"\nretries = 0";
    let report = Lab::new("hang", &two(SLOW, FAST, 1, "").replace("[rounds]", limits)).run();
    assert_eq!(failures(&report), [FailureKind::TimeLimit]);
    assert!(report.to_text().contains("`time_limit`"), "{}", report.to_text());
}

#[test]
fn a_crossed_threshold_or_a_mark_of_failure_is_a_warning_not_a_broken_round() {
    for (script, warning) in
        [("threshold", Warning::Thresholds), ("marked", Warning::MarkedAsFailed)]
    {
        let report = Lab::new(script, &two(SLOW, FAST, 1, "")).run();
        assert_eq!(report.ended, RunEnd::Complete, "{script}");
        for round in &report.rounds {
            let warnings = &measured(round).warnings;
            assert!(warnings.contains(&warning), "{script}: {warnings:?}");
        }
    }
}

#[test]
fn an_interrupted_run_keeps_its_complete_blocks() {
    // The first server cancels the run when the load of the second block reaches it.
    let lab = Lab::new("hang", &two(SLOW, FAST, 5, ""));
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let journal = lab.out().join("work/round-1");
        let cancel = &cancel;
        scope.spawn(move || {
            until("the first round", || journal.exists().then_some(()));
            cancel.cancel();
        });
        let report = lab.try_run(&Options::default(), cancel).unwrap();
        assert_eq!(report.ended, RunEnd::Interrupted);
        assert_eq!((report.conclusion(), report.complete_blocks), (Conclusion::Interrupted, 0));
        assert_eq!(report.verdict.unwrap().word(), "undecided");
    });
    assert_eq!(lab.json()["ended"]["state"], "interrupted");
}

#[test]
fn the_order_within_blocks_is_random_and_repeated_by_its_seed() {
    let lab = Lab::new("get", &two(SLOW, FAST, 3, "[variants.third]\nserve = {}\n"));
    let experiment = lab.read().unwrap();
    let orders = |seed| {
        let options = Options { seed: Some(seed), ..Options::default() };
        let plan = Plan::new(&experiment, &options).unwrap();
        (1..=60).map(|block| plan.order(block)).collect::<Vec<_>>()
    };
    assert_eq!(orders(7), orders(7));
    assert_ne!(orders(7), orders(8));
    // Three variants have six orders: sixty blocks miss one with a chance below 1 in 9,000. The seed is fixed.
    assert_eq!(orders(7).into_iter().collect::<HashSet<_>>().len(), 6);
}

#[test]
fn results_are_never_overwritten() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    lab.run();
    let again = lab.try_run(&Options::default(), &Cancel::default());
    assert!(matches!(again, Err(RunError::NotEmpty(_))), "{again:?}");
}

#[test]
fn quick_mode_uses_the_quick_settings_and_needs_some() {
    let quick = "[load.quick]\nduration = \"100ms\"\nenv = { A = \"2\" }\n[rounds.quick]\nblocks = 1\n\
                 [load.env]\nA = \"1\"\nB = \"1\"\n";
    let lab = Lab::new("get __ENV.A __ENV.B", &two(SLOW, FAST, 9, quick));
    let options = Options { quick: true, ..Options::default() };
    let report = lab.run_with(&options);
    assert_eq!(report.rounds.len(), 2);
    assert_eq!(report.settings.duration, Some(Duration::from_millis(100)));
    let env = [("B".to_owned(), "1".to_owned()), ("A".to_owned(), "2".to_owned())];
    assert_eq!(report.settings.env, env);

    let without = Lab::new("get", &two(SLOW, FAST, 9, "")).read().unwrap();
    assert!(Plan::new(&without, &options).is_err());
    let blocks = Options { blocks: Some(4), ..Options::default() };
    assert_eq!(Plan::new(&without, &blocks).unwrap().settings.blocks, 4);
}
