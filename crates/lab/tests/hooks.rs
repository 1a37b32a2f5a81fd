//! Commands and signals around and during a round.

use std::fs;

use madang_lab::report::RunEnd;
use madang_lab::{Cancel, Conclusion, FailureKind, Options, RunError};

use crate::help::{self, Lab, measured, two};

const SERVE: &str = "serve = { delay_ms = 1 }";

/// `script` with `until FILE` for an action during the load, however late the lab learns of its window.
fn hooks(script: &str, lines: &str) -> Lab {
    let text = two(SERVE, SERVE, 1, &format!("[hooks]\n{lines}\n"));
    Lab::new(script, &text.replace("[rounds]", "[rounds]\nretries = 0"))
}

#[test]
fn hooks_run_in_their_order_and_know_the_round() {
    let say = |what: &str| {
        format!(
            "[\"sh\", \"-c\", \"echo {what} $LAB_BLOCK $LAB_VARIANT ${{LAB_BASE_URL:+up}} >> trace; \
             touch {what}\"]"
        )
    };
    let lines = format!(
        "prepare = {}\nreset = {}\ndrain = {}\nduring = [{{ at = \"100ms\", command = {} }}]",
        say("prepare"),
        say("reset"),
        say("drain"),
        say("during")
    );
    let lab = hooks("get until during", &lines);
    let report = lab.run();
    assert_eq!(report.ended, RunEnd::Complete, "{}", report.to_text());
    let trace = fs::read_to_string(lab.path().join("trace")).unwrap();
    let mut expected = vec!["prepare".to_owned()];
    for round in &report.rounds {
        for what in ["reset", "during", "drain"] {
            expected.push(format!("{what} 1 {} up", round.variant));
        }
    }
    assert_eq!(trace.lines().collect::<Vec<_>>(), expected);
    let event = &measured(&report.rounds[0]).events[0];
    assert!(event.at_seconds >= 0.1 && event.what.starts_with("started `sh -c"), "{event:?}");
}

/// A script that first logs in two hundred users has not started its load by then.
#[test]
fn what_happens_during_the_load_is_counted_from_its_window_and_not_from_the_setup() {
    let now = "[\"sh\", \"-c\", \"date +%s.%N > $LAB_VARIANT; touch seen\"]";
    let during = format!("during = {{ at = \"50ms\", command = {now} }}");
    let lab = hooks("get setup for a second until seen", &during);
    for round in &lab.run().rounds {
        let (load, events) = (&measured(round).load, &measured(round).events);
        let when = fs::read_to_string(lab.path().join(&round.variant)).unwrap();
        let after = when.trim().parse::<f64>().unwrap() - load.started_at_seconds;
        assert!(after >= 0.05, "{after} s after the start");
        // The command reads the clock after its start. Counted from the setup, which takes a second, that is much later.
        let at = events[0].at_seconds;
        assert!((0.05..after + 0.5).contains(&at), "{after} {:?}", events[0]);
    }
}

#[test]
fn prepare_adds_to_the_data_of_every_round() {
    // The load requires a journal with a single start, so another line makes every request bad.
    let lines = "prepare = [\"sh\", \"-c\", \"echo more > $LAB_DATA_DIR/journal\"]";
    for round in &hooks("journal", lines).run().rounds {
        assert_eq!(measured(round).load.requests.good, 0, "{round:?}");
    }
}

#[test]
fn a_server_killed_in_mid_round_comes_back_at_its_address_with_its_data() {
    let lines = format!(
        "during = [{{ at = \"100ms\", signal = \"KILL\", restart = true }}, {}]",
        "{ at = \"100ms\", command = [\"touch\", \"seen\"] }"
    );
    let journal = "[[invariants]]\nname = \"two starts on the same data\"\n\
                   script = [\"sh\", \"-c\", \"wc -l < $LAB_DATA_DIR/journal\"]\nequals = 2\n";
    let lab = hooks("get until seen", &format!("{lines}\n{journal}"));
    let report = lab.run();
    assert_eq!(report.conclusion(), Conclusion::Done, "{}", report.to_text());
    for round in &report.rounds {
        let measured = measured(round);
        let statuses = &measured.load.status_codes;
        assert!(statuses.contains_key("0"), "nobody noticed: {statuses:?}");
        assert!(measured.events[0].what.contains("SIGKILL"), "{:?}", measured.events);
        assert!(measured.server.as_ref().unwrap().peak_rss_bytes > 0);
    }
}

#[test]
fn a_command_variant_comes_back_on_its_port() {
    let command = help::command();
    let lines = "[hooks]\nduring = [{ at = \"100ms\", signal = \"TERM\", restart = true }, \
                 { at = \"100ms\", command = [\"touch\", \"seen\"] }]\n";
    let report = Lab::new("get until seen", &two(&command, &command, 1, lines)).run();
    assert_eq!(report.ended, RunEnd::Complete, "{}", report.to_text());
}

#[test]
fn a_server_that_dies_of_a_signal_without_restart_has_died_under_load() {
    let lab = hooks("get until nobody", "during = { at = \"0s\", signal = \"KILL\" }");
    let report = lab.run();
    assert_eq!(report.rounds[0].failure().unwrap().kind, FailureKind::ServerDied);
}

#[test]
fn a_hook_that_fails_or_comes_too_late_breaks_the_round_and_says_why() {
    let fail = "[\"sh\", \"-c\", \"touch seen; echo sorry >&2; exit 3\"]";
    let during = format!("during = {{ at = \"0s\", command = {fail} }}");
    for (script, lines, part) in [
        ("get", format!("reset = {fail}"), "sorry"),
        ("get", format!("drain = {fail}"), "exit code 3"),
        ("get until seen", during, "sorry"),
        ("get", "reset = [\"/no/such/program\"]".to_owned(), "/no/such/program"),
        ("get", "reset = [\"sleep\", \"60\"]\ntime_limit = \"200ms\"".to_owned(), "`sleep 60`"),
        ("get", "during = { at = \"1h\", signal = \"HUP\" }".to_owned(), "ended before"),
    ] {
        let report = hooks(script, &lines).run();
        let failure = report.rounds[0].failure().unwrap_or_else(|| panic!("{lines}"));
        assert_eq!(failure.kind, FailureKind::Hook, "{failure:?}");
        assert!(failure.message.contains(part), "no {part:?} in: {failure:?}");
    }
    let lab = hooks("get", &format!("prepare = {fail}"));
    let error = lab.try_run(&Options::default(), &Cancel::default()).unwrap_err();
    assert!(matches!(error, RunError::Prepare(_)), "{error:?}");
    assert!(!lab.out().exists());
}
