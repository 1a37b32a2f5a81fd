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
        let output = lab.run(&["--check"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{experiment}: {said}");
        assert!(code == 0 || said.contains("there is no program"), "{said}");
    }
}

#[test]
fn check_runs_nothing() {
    let lab = Lab::new(EXPERIMENT);
    let output = lab.run(&["--check"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("2 rounds"), "{}", text(&output.stdout));
    assert!(!lab.out().exists());
}

#[test]
fn what_the_generator_refuses_is_known_before_anything_runs() {
    let warm = EXPERIMENT.replace("blocks = 1", "blocks = 1\nwarm_up = \"1s\"");
    let hooked = EXPERIMENT.to_owned() + "[hooks]\nprepare = [\"touch\", \"made.txt\"]\n";
    let opens = "const made = open('made.txt');\n".to_owned() + SCRIPT;
    let counted = "export const options = { scenarios: { all: { executor: 'per-vu-iterations', vus: 1 } } };\n".to_owned() + SCRIPT;
    for (experiment, script, expected) in [
        (
            EXPERIMENT,
            "export default function () {",
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
    let output = lab.run(&["--check"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
