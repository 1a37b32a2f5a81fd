//! What is known before the first round.

use std::fs;

use super::{EXPERIMENT, Lab, SCRIPT, text};

#[test]
fn a_program_that_is_not_there_is_known_before_anything_runs_unless_a_hook_makes_it() {
    let file = |program: &str| {
        let server = format!("command = [\"{program}\"]\nready = \"http://127.0.0.1:{{port}}/\"\n");
        EXPERIMENT.replace("serve = { \"cache.mode\" = \"off\" }", &server)
    };
    let made = file("./made") + "[hooks]\nprepare = [\"touch\", \"made\"]\n";
    for (experiment, code) in [
        (file("python33"), 2),
        (file("./script.js"), 2),
        (file("./none"), 2),
        (file("sleep"), 0),
        (made, 0),
    ] {
        let lab = Lab::new(&experiment);
        let output = lab.run(&["--check", "--blocks", "2"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{experiment}: {said}");
        assert!(code == 0 || said.contains("there is no program"), "{said}");
    }
}

#[test]
fn check_runs_nothing() {
    let lab = Lab::new(EXPERIMENT);
    let output = lab.run(&["--check", "--blocks", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("6 rounds"), "{}", text(&output.stdout));
    assert!(!lab.out().exists());
    // One block gives no interval.
    let output = lab.run(&["--check"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("one block gives no interval") && said.lines().count() == 1, "{said}");
}

#[test]
fn what_the_generator_refuses_is_known_before_anything_runs() {
    let warm = EXPERIMENT.replace("\"0s\"", "\"1s\"");
    let hooked = EXPERIMENT.to_owned() + "[hooks]\nprepare = [\"touch\", \"made.txt\"]\n";
    let opens = "const made = open('made.txt');\n".to_owned() + SCRIPT;
    let counted = "export const options = { scenarios: { all: { executor: 'per-vu-iterations', vus: 1 } } };\n".to_owned() + SCRIPT;
    for (experiment, script, expected) in [
        (
            EXPERIMENT,
            "export default function () { __ENV.DETAIL",
            "[variants.off]: the load generator refuses it (exit code 107)",
        ),
        (EXPERIMENT, &opens, "made.txt"),
        (&warm.replace("vus = 2\nduration = \"1s\"\n", ""), &counted, "per-vu-iterations"),
    ] {
        let lab = Lab::new(experiment);
        fs::write(lab.0.path().join("script.js"), script).unwrap();
        for flags in [&["--check"][..], &[]] {
            let output = lab.run(flags);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{script}: {said}");
            assert!(said.contains(expected), "no {expected:?} in: {said}");
            assert_eq!(said.matches("[variants.").count(), 1, "once for both: {said}");
            assert!(!lab.out().exists(), "{script}");
        }
    }
    // What a hook is to make before the load cannot be missed beforehand.
    let lab = Lab::new(&hooked);
    fs::write(lab.0.path().join("script.js"), opens).unwrap();
    let output = lab.run(&["--check", "--blocks", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Otherwise all rounds are run before anybody says so.
#[test]
fn what_the_script_cannot_have_is_known_before_anything_runs() {
    let script = "import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
        const names = { hits: new Counter('hits'), level: new Gauge('level'), part: new Rate('part') };
        export const options = { thresholds: { 'times{kind:a}': ['max>=0'] } };
        const times = new Trend('times', true), text = 'kind';\n"
        .to_owned()
        + SCRIPT;
    let run = |experiment: &str, flags: &[&str]| {
        let lab = Lab::new(experiment);
        fs::write(lab.0.path().join("script.js"), &script).unwrap();
        let output = lab.run(flags);
        (output.status.code(), text(&output.stderr))
    };
    let claim = |metric: &str| EXPERIMENT.replace("cpu_per_good_request", metric);
    let observed =
        |metric: &str| EXPERIMENT.to_owned() + &format!("[observe]\nload = [\"{metric}\"]\n");
    let invariant = |value: &str| {
        format!(
            "{EXPERIMENT}[[invariants]]\nname = \"n\"\nvalue = \"load.{value}\"\nat_least = 0\n"
        )
    };
    let during = |at: &str| {
        format!(
            "{EXPERIMENT}[hooks]\nduring = [\n  {{ at = \"{at}\", command = [\"true\"] }},\n]\n"
        )
    };
    for (experiment, expected) in [
        (claim("hits.p95"), ":5: `hits.p95`: `hits` is a counter: `.count` or `.rate`"),
        (claim("level.rate"), ":5: `level.rate`: `level` is a gauge: `.value`"),
        (claim("part.p95"), ":5: `part.p95`: `part` is a rate: `.rate`"),
        (claim("times.rate"), ":5: `times.rate`: `times` is a trend: `.avg`"),
        (claim("times{kind:a}.value"), ":5: `times{kind:a}.value`: `times` is a trend"),
        // It stands in the script, and is none of its metrics.
        (claim("kind.count"), ":5: no metric `kind`: the script makes `"),
        (observed("hits.max"), ":22: `hits.max`: `hits` is a counter"),
        (invariant("times"), ":23: `times`: `times` is a trend"),
        (
            during("1s"),
            ":23: `at` in [hooks.during] is 1 s, but the load starts nothing any more after 1 s",
        ),
    ] {
        for flags in [&["--check"][..], &[]] {
            let (code, said) = run(&experiment, flags);
            assert_eq!(code, Some(2), "{experiment}: {said}");
            assert!(said.contains(expected), "no {expected:?} in: {said}");
        }
    }
    for experiment in [
        claim("hits.rate"),
        claim("times.p95"),
        claim("times{kind:a}.max"),
        observed("level.max"),
        invariant("hits"),
        during("900ms"),
    ] {
        let (code, said) = run(&experiment, &["--check", "--blocks", "2"]);
        assert_eq!(code, Some(0), "{experiment}: {said}");
    }
}

#[test]
fn every_wrong_file_of_a_directory_is_told() {
    let lab = Lab::new(EXPERIMENT);
    let dir = lab.0.path();
    fs::rename(dir.join("experiment.toml"), dir.join("good.toml")).unwrap();
    fs::write(dir.join("first.toml"), EXPERIMENT.replace("blocks = 1", "blocks = 0")).unwrap();
    fs::write(dir.join("second.toml"), EXPERIMENT.replace("= \"off\" }", "= \"of\" }")).unwrap();
    let output = lab.run(&["--check", "--blocks", "2"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("first.toml:") && said.contains("second.toml:"), "{said}");
    assert!(!said.contains("good.toml"), "{said}");
}
