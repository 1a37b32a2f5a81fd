//! `madang load` as a command: what its environment and its standard input say.

use crate::harness::Madang;
use crate::harness::command::{clean, program};

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let script = "export const options = { vuss: 1, thresholds: { none: ['avg'] } };
        export default function () {}";
    let wrong = |args: &[&str]| {
        let load = Madang::new([&["load", "script.js", "--dns=x"], args].concat());
        let load = load.env("K6_HOSTS", "a").env("K6_VUS", "many").env("K6_NO_COLOR", "maybe");
        load.file("script.js", script).fails_with(104).stderr
    };
    let of_command =
        ["`K6_HOSTS` is not supported yet; ", "option `K6_VUS`: ", "option `dns`: ", "K6_NO_COLOR"];
    let of_script = ["unknown option `vuss`", "option `thresholds.none`: "];
    let told = wrong(&["--check"]);
    for part in of_command.iter().chain(&of_script) {
        assert_eq!(told.lines().filter(|line| line.contains(part)).count(), 1, "{part}: {told}");
    }
    assert_eq!(told.lines().count(), of_command.len() + of_script.len(), "{told}");
    assert_eq!(wrong(&[]).lines().count(), of_command.len());
}

#[test]
fn a_script_may_come_from_standard_input() {
    let script = "import { said } from './said.js'; console.log(`${said} ${typeof __ENV.PATH}`);
        export default function () {}";
    let run = |system: &str| {
        let mut shell = clean("sh");
        shell.args(["-c", "exec \"$1\" load --quiet run - < script.js", "sh", program()]);
        let load = Madang::from_command(shell).env("K6_INCLUDE_SYSTEM_ENV_VARS", system);
        load.file("script.js", script)
            .file("said.js", "export const said = 'yes'")
            .succeeds()
            .stderr
    };
    assert!(run("").contains("yes string"), "{}", run(""));
    assert!(run("false").contains("yes undefined"));
}
