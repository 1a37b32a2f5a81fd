//! The table of exit codes: every command prints it, and each code has one cause. Those of
//! `compare`, `limit` and `load` are tested beside what causes them.

use crate::harness::{Madang, Setup};
use std::net::TcpListener;

const COMMANDS: [&str; 9] =
    ["serve", "admin", "config", "check", "import", "seed", "load", "compare", "limit"];

fn table(help: &str) -> &str {
    help.split_once("Exit codes:\n").unwrap_or_else(|| panic!("no table in {help}")).1
}

#[test]
fn every_command_prints_the_one_table() {
    let whole = Madang::new(["--help"]).succeeds().stdout;
    let whole = table(&whole);
    for code in [0, 1, 2, 3, 4, 5, 6, 7, 8, 99, 100, 101, 104, 105, 107, 108, 110, 130] {
        let line = |line: &str| line.trim_start().starts_with(&format!("{code}  "));
        assert!(whole.lines().any(line), "{code} is not in {whole}");
    }
    for command in COMMANDS {
        let help = Madang::new([command, "--help"]).succeeds().stdout;
        assert_eq!(table(&help), whole, "{command}");
        assert_eq!(help.matches("Exit codes").count(), 1, "{command}");
    }
}

#[test]
fn wrong_usage_is_2_wherever_it_is_found() {
    for args in [
        &["nonsense"][..],
        &["serve", "--nonsense"],
        &["serve", "--set", "nonsense=1"],
        &["compare", "nowhere.toml"],
        &["compare", "nowhere.toml", "--fail-on", "nonsense"],
        &["limit", "nowhere.toml", "--p95", "1s"],
    ] {
        Madang::new(args).fails_with(2);
    }
}

#[test]
fn a_taken_address_is_4_and_a_used_directory_5_and_an_unusable_store_6() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    Madang::new(["serve", "--listen", &address]).fails_with(4);

    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let server = Setup::new().data(dir.path()).start();
    Madang::new(["serve", "--listen", "127.0.0.1:0", "--data", data]).fails_with(5);
    server.stop();
    std::fs::write(
        dir.path().join("madang.db"),
        "not a database, and long enough to be read as one",
    )
    .unwrap();
    Madang::new(["serve", "--listen", "127.0.0.1:0", "--data", data]).fails_with(6);
}

#[test]
fn what_failed_in_part_is_1() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.gpx");
    std::fs::write(&file, "<gpx>").unwrap();
    Madang::import(&dir.path().join("data"), [file]).fails_with(1);
}

#[test]
fn load_ends_with_the_codes_of_k6() {
    let script = |text: &str, code: i32| {
        let load = Madang::new(["load", "script.js", "--quiet"]).file("script.js", text);
        load.fails_with(code);
    };
    let nothing = "export default function () {}";
    script(nothing, 0);
    let options = "import { Counter } from 'k6/metrics'; const c = new Counter('c');
        export const options = { thresholds: { c: ['count>1'] } };";
    script(&format!("{options} export default function () {{ c.add(1); }}"), 99);
    script(
        &format!(
            "export const options = {{ setupTimeout: '1ms' }};
        export function setup() {{ for (;;) {{}} }} {nothing}"
        ),
        100,
    );
    script(
        &format!(
            "export const options = {{ teardownTimeout: '1ms' }};
        export function teardown() {{ for (;;) {{}} }} {nothing}"
        ),
        101,
    );
    script(&format!("export const options = {{ vus: 'many' }}; {nothing}"), 104);
    script(&format!("throw new Error('at start'); {nothing}"), 107);
    let exec = "import exec from 'k6/execution';";
    script(&format!("{exec} export default function () {{ exec.test.abort(); }}"), 108);
    script(&format!("{exec} export default function () {{ exec.test.fail('x'); }}"), 110);
}
