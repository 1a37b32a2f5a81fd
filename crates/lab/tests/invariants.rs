//! Invariants: values, comparisons, and broken ones in the first lines.

use madang_lab::{Conclusion, FailureKind, Report};

use crate::help::{self, Lab, measured, two};

const SERVE: &str = "serve = { delay_ms = 1 }";
const ROWS: &str = "[data]\nsql = \"create table rows (n); insert into rows values (1), (2)\"\n";

/// An experiment of one block with these lines at its end.
fn lab(script: &str, lines: &str) -> Lab {
    Lab::new(script, &two(SERVE, SERVE, 1, lines))
}

fn invariant(lines: &str) -> String {
    format!("[[invariants]]\nname = \"it holds\"\n{lines}\n")
}

/// A hook that changes the database outside of the measurement.
fn drain(statement: &str) -> String {
    format!("[hooks]\ndrain = [{:?}, \"sql\", {statement:?}]\n", help::FIXTURE)
}

#[track_caller]
fn holds(report: &Report) {
    assert!(report.broken.is_empty(), "{}", report.to_text());
    assert_eq!(report.conclusion(), Conclusion::Done, "{}", report.to_text());
    let rounds: Vec<u32> = report.invariants.iter().map(|invariant| invariant.rounds).collect();
    assert!(rounds.iter().all(|rounds| *rounds >= 1), "{rounds:?}");
}

#[test]
fn a_query_is_compared_with_a_formula_over_its_value_before() {
    let lines = ROWS.to_owned()
        + &drain("insert into rows values (3)")
        + &invariant("sql = \"select count(*) from rows\"\nat_most = \"max(0, 5 - before)\"");
    let lab = lab("get", &lines);
    let report = lab.run();
    holds(&report);
    let json = lab.json();
    let checked = &json["rounds"][0]["measured"]["invariants"][0];
    assert_eq!((&checked["value"], &checked["before"]), (&3.0.into(), &2.0.into()));
    assert_eq!(checked["limits"][0]["limit"], 3.0);
    assert!(report.to_text().contains("The invariant held in every round."));
}

#[test]
fn a_broken_invariant_comes_first_with_its_rounds_and_makes_the_system_broken() {
    let lines = ROWS.to_owned()
        + &drain("insert into rows values (3)")
        + &invariant(
            "sql = \"select count(*) from rows\"\nchange = true\n\
             at_most = \"max(0, 2 - before)\"\nvariants = [\"fast\"]",
        );
    let lab = lab("get", &lines);
    let report = lab.run();
    assert_eq!(report.conclusion(), Conclusion::SystemBroken);
    assert_eq!((report.invariants[0].rounds, report.invariants[0].broken.len()), (1, 1));
    let text = report.to_text();
    let line = text.lines().next().unwrap();
    assert_eq!(line, "BROKEN: invariant in 1 of 1 rounds: it holds", "{text}");
    let values = "block 1, fast: 1 (before: 2), must be at most 0 = max(0, 2 - before)";
    assert!(text.lines().nth(1).unwrap().contains(values), "{text}");
    let page = std::fs::read_to_string(lab.out().join("report.md")).unwrap();
    let (broken, verdict) = (page.find("BROKEN"), page.find("Prediction: undecided"));
    assert!(broken.unwrap() < verdict.unwrap(), "{page}");
    assert_eq!(lab.json()["invariants"][0]["broken"][0]["variant"], "fast");
}

#[test]
fn counters_of_the_load_are_compared_with_the_server() {
    // Requests of the warm-up are in the data, and counted.
    let lines = "[values.requests]\nmetrics = 'requests_total{kind=\"any\"}'\n".to_owned()
        + &invariant(
            "http = \"/state\"\njson = \"counts.0.requests\"\nequals = \"after.requests\"\n\
             at_least = \"load.created + before.requests\"\nat_most = \"load.created\"",
        )
        + "[[invariants]]\nname = \"the warm-up counts, too\"\n\
           value = \"load.created - load.good_reqs\"\nat_least = 1\n\
           [[invariants]]\nname = \"some\"\nmetrics = \"requests_total\"\nchange = true\nat_least = 1\n\
           [observe]\nmetrics = [\"requests_total\"]\n";
    let lab = lab("get new Counter('created')", &lines);
    let report = lab.run();
    holds(&report);
    let said = "All 3 invariants held in every round. (counters of the load include setup() and the warm-up)";
    assert!(report.to_text().contains(said), "{}", report.to_text());
    for round in &report.rounds {
        let observed = &measured(round).observed[0];
        let load = measured(round).load.requests.total as f64;
        assert!(observed.change.unwrap() >= load, "{observed:?}");
    }
    assert!(report.to_text().contains("requests_total"), "{}", report.to_text());
}

/// Objects of the load need not exist before it.
#[test]
fn a_value_is_asked_before_the_load_only_where_that_is_needed() {
    let later = "create table made (n); insert into made values (7)";
    let asked = "sql = \"select n from made\"\n";
    let lines = |rest: &str| ROWS.to_owned() + &drain(later) + rest;
    let own = invariant(&format!("{asked}equals = 7"));
    holds(&lab("get", &lines(&own)).run());
    let named =
        format!("[values.made]\n{asked}{}", invariant("value = \"after.made\"\nequals = 7"));
    holds(&lab("get", &lines(&named)).run());
    for (rest, part) in [
        (
            invariant(&format!("{asked}change = true\nequals = 7")),
            "\"it holds\", asked before the load: ",
        ),
        (
            invariant("sql = \"select n from other\"\nequals = 7"),
            "\"it holds\", asked after the load: ",
        ),
        (named.replace("after.made", "before.made"), "[values.made], asked before the load: "),
    ] {
        let report = lab("get", &lines(&rest).replace("[rounds]", "[rounds]\nretries = 0")).run();
        let failure = report.rounds[0].failure().unwrap_or_else(|| panic!("{rest}"));
        assert!(failure.message.contains(part), "no {part:?} in: {failure:?}");
    }
}

#[test]
fn a_script_prints_its_number_and_knows_the_round() {
    let script = "script = [\"sh\", \"-c\", \"test -d $LAB_DATA_DIR && kill -0 $LAB_PID && echo ${#LAB_VARIANT}\"]\nequals = 4";
    holds(&lab("get", &invariant(script)).run());
}

#[test]
fn a_value_that_cannot_be_taken_breaks_the_round_and_says_why() {
    for (source, part) in [
        ("sql = \"select n from missing\"", "no such table"),
        ("metrics = \"other_total\"", "no series `other_total`"),
        ("http = \"/state\"\njson = \"count\"", "no `count`"),
        ("script = [\"echo\", \"many\"]", "no number but \"many\""),
        ("script = [\"sh\", \"-c\", \"echo why >&2; exit 3\"]", "exit code 3"),
        ("value = \"1 / load.dropped_iterations\"", "not a finite number"),
    ] {
        let lines = ROWS.to_owned() + &invariant(&format!("{source}\nequals = 1"));
        let lab = Lab::new(
            "get",
            &two(SERVE, SERVE, 1, &lines).replace("[rounds]", "[rounds]\nretries = 0"),
        );
        let report = lab.run();
        let failure = report.rounds[0].failure().unwrap_or_else(|| panic!("{source}"));
        assert_eq!(failure.kind, FailureKind::Value, "{failure:?}");
        assert!(failure.message.contains(part), "no {part:?} in: {failure:?}");
        assert_eq!(report.conclusion(), Conclusion::Failed);
    }
}
