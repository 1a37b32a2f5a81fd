//! Signals. They go to a whole process, so the run that gets them is a process of its own: this
//! test binary again, told by an environment variable to run one script.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use madang_load::report::Report;
use madang_load::{Config, OutputSpec, run};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Answer, Server};

const SCRIPT: &str = "MADANG_LOAD_TEST_SCRIPT";
/// Where the child writes single values, if anywhere.
const OUTPUT: &str = "MADANG_LOAD_TEST_OUTPUT";
/// How the child says that it was stopped by a signal.
const ABORTED: i32 = 3;
/// Far more than a signal needs to work; a run that ignores it would take 10 minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test by itself: what the child process does.
#[test]
fn as_a_child_runs_the_script_it_is_told() {
    let Some(script) = std::env::var_os(SCRIPT) else { return };
    let script = PathBuf::from(script);
    let report = Some(script.with_extension("json"));
    let environment = std::env::vars().collect();
    let output = std::env::var(OUTPUT).ok();
    let outputs = output.iter().map(|text| OutputSpec::parse(text, |_| None).unwrap()).collect();
    let outcome = run(&Config { script, report, environment, outputs, ..Config::default() });
    let aborted = outcome.status == madang_load::ExitStatus::ExternalAbort;
    std::process::exit(if aborted { ABORTED } else { 1 });
}

/// This test binary, as a process that runs `script`.
pub fn child(script: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "signals::as_a_child_runs_the_script_it_is_told", "--nocapture"])
        .env(SCRIPT, script);
    command
}

fn start(script: &Path, url: &str) -> Child {
    child(script)
        .env("URL", url)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

fn ended(mut child: Child) -> ExitStatus {
    let mut status = None;
    wait_until("the run ends after the signal", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Two virtual users: one waits for ever for its answer, one computes for ever. Each sends a request more after its first
/// answer.
const STUBBORN: &str = "import http from 'k6/http';
    export const options = { vus: 2, duration: '10m' };
    export default function () { http.get(__ENV.URL); if (__VU === 1) http.get(__ENV.URL + '/hang'); \
    http.asyncRequest('GET', __ENV.URL + '/hang'); while (true) {} }";

#[test]
fn a_signal_stops_the_run_with_code_105_and_what_was_measured() {
    for which in [Signal::INT, Signal::TERM] {
        let server = Server::start(|request| match request.path() {
            "/hang" => Answer::Hang,
            _ => crate::support::ok("x"),
        });
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script.js");
        std::fs::write(&script, STUBBORN).unwrap();
        let child = start(&script, &server.url(""));
        let hanging = || server.requests().iter().filter(|one| one.path() == "/hang").count();
        wait_until("both virtual users are at work", || hanging() == 2);
        signal(&child, which);
        assert_eq!(ended(child).code(), Some(ABORTED));
        let report = std::fs::read_to_string(script.with_extension("json")).unwrap();
        let report: Report = serde_json::from_str(&report).unwrap();
        assert!(report.aborted);
        assert_eq!((report.requests.total, report.iterations.interrupted), (2, 2));
    }
}

/// A directory with a script in it.
fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script.js");
    std::fs::write(&script, text).unwrap();
    (directory, script)
}

#[test]
fn a_signal_interrupts_an_endless_summary() {
    let server = Server::start(|_| crate::support::ok("x"));
    let (_directory, script) = script(
        "import http from 'k6/http';
         export default function () {}
         export function handleSummary() { http.get(__ENV.URL); while (true) {} }",
    );
    let child = start(&script, &server.url(""));
    wait_until("the summary is made", || !server.requests().is_empty());
    signal(&child, Signal::INT);
    assert_eq!(ended(child).code(), Some(ABORTED));
    assert!(script.with_extension("json").exists());
}

#[test]
fn a_second_signal_ends_a_program_that_writes_its_last_values() {
    // A database that is made and then never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (_directory, script) = script("export default function () {}");
    let database = format!("influxdb=http://{}", listener.local_addr().unwrap());
    let mut child = child(&script)
        .env(OUTPUT, format!("{database}/db?pushInterval=1h"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut created, _) = listener.accept().unwrap();
    assert!(created.read(&mut [0; 4096]).unwrap() > 0);
    created.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let _last_values = listener.accept().unwrap();
    signal(&child, Signal::INT);
    let first = Instant::now();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let waits = |line: &String| line.contains("another signal ends this at once");
    let told = lines.find(waits).expect("what it waits for");
    assert!(told.contains("InfluxDBv1 (http://"), "{told}");
    // Sooner it would be the same request.
    wait_until("time passes", || first.elapsed() > Duration::from_millis(700));
    signal(&child, Signal::INT);
    assert_eq!(ended(child).signal(), Some(Signal::ABORT.as_raw()));
    assert!(!lines.any(|line| waits(&line)), "once");
}

#[test]
fn a_signal_interrupts_init_code() {
    let (_directory, script) = script("console.log('begun'); while (true) {}");
    let mut child = child(&script)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("begun")));
    signal(&child, Signal::INT);
    assert_eq!(ended(child).code(), Some(ABORTED));
}
