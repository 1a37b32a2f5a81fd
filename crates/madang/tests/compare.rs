//! `madang compare` as a person runs it: the real command, its own server and its own load.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "compare/checked.rs"]
mod checked;
#[path = "compare/faults.rs"]
mod faults;
#[path = "compare/k6.rs"]
mod k6;

use madang_testing::Finish as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MADANG: &str = env!("CARGO_BIN_EXE_madang");
/// A generous limit for what takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(60);

const SCRIPT: &str = "
import http from 'k6/http';
import { check } from 'k6';
export default function () {
  const res = http.get(`${__ENV.BASE_URL}/v1/tracks/1?detail=${__ENV.DETAIL}`);
  check(res, {
    'a track': (r) => r.status === 200,
    'nothing of the shell': () => __ENV.SHELL_ONLY === undefined,
  });
}
";

const EXPERIMENT: &str = r#"
name = "small"
question = "Does the cache help?"
reference = "off"
prediction = { metric = "cpu_per_good_request", variant = "on", ratio_at_most = 1 }
[data]
samples = true
[load]
script = "script.js"
vus = 2
duration = "1s"
env = { DETAIL = "medium" }
[rounds]
blocks = 1
warm_up = "0s"
accept = ["steal", "foreign_cpu"]
[variants.off]
serve = { "cache.mode" = "off" }
[variants.on]
serve = {}
"#;

/// An experiment in a directory of its own.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new(experiment: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("script.js"), SCRIPT).unwrap();
        fs::write(dir.path().join("experiment.toml"), experiment).unwrap();
        Self(dir)
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(MADANG);
        command.arg("compare").arg(self.0.path()).arg("--out").arg(self.out()).args(flags);
        // What a careless shell may have set must not change a variant.
        command
            .env("MADANG_CACHE_MODE", "nonsense")
            .env("K6_VUS", "nonsense")
            .env("SHELL_ONLY", "1");
        command.current_dir(self.0.path());
        command
    }

    fn run(&self, flags: &[&str]) -> Output {
        self.command(flags).finish()
    }

    /// Starts a run and waits until its first round has a server and a load.
    fn in_mid_round(&self) -> Ended {
        let child = self.command(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let child = Ended(child);
        // The server, the load, and a supervisor each.
        until("no round began", || mentioning(&self.0.path().join("out/work/round")).len() == 4);
        child
    }
}

/// A run that is ended with its test, also by one that fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processes with this path in their command line.
fn mentioning(path: &Path) -> Vec<u32> {
    let wanted = path.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(wanted)
        })
        .collect()
}

#[track_caller]
fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn variants_of_this_server_are_compared_under_a_real_script() {
    let lab = Lab::new(EXPERIMENT);
    let output = lab.run(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"], "undecided", "one block decides nothing");
    // Without a pair whose loads did not overlap on a busy machine.
    let rounds = json["rounds"].as_array().unwrap().iter();
    let counted: Vec<_> = rounds.filter(|round| round["counted"] == true).collect();
    assert_eq!(counted.len(), 4, "each alone, and both as a pair");
    for round in counted {
        let requests = &round["measured"]["load"]["requests"];
        assert!(requests["good"].as_u64().unwrap() > 0, "{round}");
        assert_eq!(requests["good"], requests["total"], "{round}");
        assert!(round["measured"]["server"]["peak_rss_bytes"].as_u64().unwrap() > 0, "{round}");
    }
    let written = fs::read_to_string(lab.out().join("report.json")).unwrap();
    assert_eq!(written, text(&output.stdout));
    // Who wants more than a verdict says so.
    for (what, code) in [("undecided", 7), ("refuted", 0)] {
        let again = on_results(&["--report", lab.out().to_str().unwrap(), "--fail-on", what]);
        assert_eq!(again.status.code(), Some(code), "{what}: {}", text_of(&again));
    }
}

#[test]
fn a_wrong_file_setting_or_datum_is_named_before_anything_runs() {
    for (find, replace, expected) in [
        ("blocks = 1", "blokcs = 1", "unknown key `blokcs`"),
        ("\"cache.mode\" = \"off\"", "\"cache.mood\" = \"off\"", "cache.mood"),
        ("\"cache.mode\" = \"off\"", "\"cache.mode\" = \"of\"", "[variants.off]"),
        ("\"cache.mode\" = \"off\"", "cache.mode = \"of\"", "invalid value `cache.mode = of`"),
        ("\"cache.mode\" = \"off\"", "cache.mood = \"off\"", "cache.mood"),
        ("= \"off\" }", "= \"off\", cache.mode = \"on\" }", "`cache.mode`"),
        ("samples = true", "smaples = true", "accepted are `samples`, `tracks`, `seed`"),
        ("samples = true", "seed = { users = [1] }", "`users`"),
        ("samples = true", "seed = { user = 1 }", "--user"),
        ("samples = true", "tracks = [\"none.gpx\"]", "none.gpx"),
    ] {
        let lab = Lab::new(&EXPERIMENT.replace(find, replace));
        for flags in [&["--check"][..], &[]] {
            let output = lab.run(flags);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{replace}: {said}");
            assert!(said.contains(expected), "no {expected:?} in: {said}");
            assert!(!said.contains("flag"), "nobody typed a flag: {said}");
            assert!(!lab.out().exists(), "{replace}");
        }
    }
    let output = Lab::new(EXPERIMENT).run(&["--quick"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("[load.quick]"), "{}", text(&output.stderr));
}

#[test]
fn an_error_names_its_file_and_its_cause_once() {
    let lab = Lab::new(EXPERIMENT);
    let missing = lab.0.path().join("missing.toml");
    let output = Command::new(MADANG).arg("compare").arg(&missing).finish();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(missing.to_str().unwrap()), "{said}");
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
    // A file stands where the directory of the results should be made.
    fs::write(lab.out(), "").unwrap();
    let said = text(&lab.run(&[]).stderr);
    assert!(said.contains(lab.out().to_str().unwrap()), "{said}");
    assert_eq!(said.matches("(os error").count(), 1, "{said}");
}

#[test]
fn what_must_hold_is_asked_of_the_store_and_the_metrics_of_this_server() {
    let lines = r#"
[observe]
metrics = ["madang_store_reads_total"]
[[invariants]]
name = "no track is lost"
sql = "select count(*) from tracks"
equals = "before"
at_least = 1
[[invariants]]
name = "every good answer was counted"
metrics = 'madang_http_server_requests_total{status="200"}'
change = true
at_least = "load.good_reqs"
[[invariants]]
name = "the list tells as many as there are"
http = "/v1/tracks?limit=100"
json = "items.#"
at_least = 1
[hooks]
during = { at = "300ms", signal = "KILL", restart = true }
"#;
    // A counter begins at zero again in the server that is started again.
    // One that is there from the start: the load may end before this server has answered a request.
    let killed = lines.replace("\"load.good_reqs\"", "\"-1000000 * (before + 1)\"");
    let killed = killed
        .replace("madang_http_server_requests_total{status=\"200\"}", "madang_store_reads_total");
    let killed = EXPERIMENT.to_owned() + &killed;
    // While nobody serves, checks fail; that has to be said.
    let output = Lab::new(&killed).run(&["--json"]);
    assert_eq!(output.status.code(), Some(8), "{}", text_of(&output));
    let killed = killed.replace("accept = [", "accept = [\"failed_checks\", ");
    let output = Lab::new(&killed).run(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // A round that broke was run again, and has nothing measured.
    let rounds = json["rounds"].as_array().unwrap().iter();
    let measured: Vec<_> = rounds.filter(|round| !round["measured"].is_null()).collect();
    assert!(measured.len() >= 2, "{json}");
    for round in measured {
        let what = round["measured"]["events"][0]["what"].as_str();
        assert!(what.is_some_and(|what| what.contains("SIGKILL")), "{round}");
    }

    let (quiet, _) = lines.split_once("[hooks]").unwrap();
    let lab = Lab::new(&(EXPERIMENT.to_owned() + quiet));
    let output = lab.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let said = text(&output.stdout);
    assert!(said.contains("All 3 invariants held in every round."), "{said}");
    assert!(said.contains("madang_store_reads_total"), "{said}");

    let broken = EXPERIMENT.to_owned() + &quiet.replace("at_least = 1\n", "at_least = 1000\n");
    let output = Lab::new(&broken).run(&[]);
    assert_eq!(output.status.code(), Some(8), "{}", text_of(&output));
    let said = text(&output.stdout);
    assert!(said.contains("BROKEN: invariant in "), "{said}");
    assert!(said.contains(" rounds: no track is lost"), "{said}");
}

fn text_of(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn a_seeded_store_is_the_same_in_every_round_and_asked_before_and_after() {
    let seed = "seed = { users = 3, schedules_per_user = 7, shared_hash = true }";
    let text = EXPERIMENT.replace("samples = true", &format!("samples = true\n{seed}"));
    let lines = "[[invariants]]\nname = \"nobody added any\"\n\
                 sql = \"select count(*) from schedules\"\nequals = \"max(21, before)\"\n";
    let output = Lab::new(&(text + lines)).run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(text_of(&output).contains("The invariant held"), "{}", text_of(&output));
}

/// The samples have neighbours of the same names, whose password nobody knows.
#[test]
fn seeded_users_can_log_in_beside_the_samples() {
    let seed = "seed = { users = 30, shared_hash = true }";
    let text = EXPERIMENT
        .replace("samples = true", &format!("samples = true\n{seed}"))
        .replace("vus = 2\nduration = \"1s\"\nenv = { DETAIL = \"medium\" }\n", "");
    let lines = "[[invariants]]\nname = \"the samples are there\"\n\
                 sql = \"select count(*) from tracks\"\nat_least = 1\n";
    let lab = Lab::new(&(text + lines));
    let script = "
        import http from 'k6/http';
        import { check } from 'k6';
        export const options = { vus: 1, iterations: 30, thresholds: { checks: ['rate==1'] } };
        export default function () {
          const nickname = `user-${String(__ITER + 1).padStart(4, '0')}`;
          const body = JSON.stringify({ nickname, password: 'madang-seed' });
          const headers = { 'Content-Type': 'application/json' };
          const res = http.post(`${__ENV.BASE_URL}/v1/auth/user/login`, body, { headers });
          check(res, { 'is let in': (r) => r.status === 200 });
        }";
    fs::write(lab.0.path().join("script.js"), script).unwrap();
    let output = lab.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let rounds = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    for line in rounds.lines() {
        let round: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(round["measured"]["load"]["status_codes"], serde_json::json!({ "200": 30 }));
    }
}

#[test]
fn a_directory_of_several_files_is_several_experiments() {
    let lab = Lab::new(EXPERIMENT);
    let dir = lab.0.path();
    fs::rename(dir.join("experiment.toml"), dir.join("first.toml")).unwrap();
    let second = EXPERIMENT.replace("\"small\"", "\"smaller\"");
    fs::write(dir.join("second.toml"), second.replace("blocks = 1", "blocks = 0")).unwrap();
    let output = lab.run(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text(&output.stderr).contains("second.toml:"), "{}", text_of(&output));
    assert!(!lab.out().exists(), "nothing runs while any file is wrong");
    fs::write(dir.join("second.toml"), second).unwrap();
    let output = lab.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    for name in ["small", "smaller"] {
        assert!(lab.out().join(name).join("report.json").exists(), "{name}");
    }
}

#[test]
fn load_check_requests_nothing_and_says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let check = |script: &str, flags: &[&str]| {
        fs::write(dir.path().join("script.js"), script).unwrap();
        let mut command = Command::new(MADANG);
        command.arg("load").arg(dir.path().join("script.js")).arg("--check").args(flags);
        command.finish()
    };
    // Would throw if it ran.
    let fine = "export const options = { thresholds: { http_req_duration: ['p(95)<200'] } };
        export function setup() { throw new Error('ran'); }
        export default function () { throw new Error('ran'); }";
    let output = check(fine, &[]);
    assert_eq!((output.status.code(), text_of(&output)), (Some(0), String::new()));
    for (script, flags, code, expected) in [
        (fine, &["--vus", "0"][..], 104, "vus"),
        ("export function other() {}", &[], 104, "default"),
        ("throw new Error('early'); export default function () {}", &[], 107, "early"),
        ("import x from 'k6/nothing'; export default function () {}", &[], 107, "k6/nothing"),
        (
            "export const options = { thresholds: { http_reqs: ['p(95)<2'] } }; export default () => {};",
            &[],
            104,
            "http_reqs",
        ),
    ] {
        let output = check(script, flags);
        assert_eq!(output.status.code(), Some(code), "{script}: {}", text_of(&output));
        assert!(text_of(&output).contains(expected), "no {expected:?} in: {}", text_of(&output));
    }
}

#[test]
fn an_interrupt_stops_in_order_and_keeps_what_was_measured() {
    let lab = Lab::new(&EXPERIMENT.replace("\"1s\"", "\"10m\""));
    let mut child = lab.in_mid_round();
    send(&child.0, rustix::process::Signal::INT);
    assert_eq!(exit_code(&mut child.0), Some(130));
    assert!(mentioning(lab.0.path()).is_empty());
    let report = fs::read_to_string(lab.out().join("report.json")).unwrap();
    assert!(report.contains("\"interrupted\""), "{report}");
}

/// `--report` and the like, without the experiment's path.
fn on_results(flags: &[&str]) -> Output {
    Command::new(MADANG).arg("compare").args(flags).finish()
}

#[test]
fn a_killed_run_goes_on_and_is_reported_again() {
    // Long enough to be killed in the second round, whichever comes when.
    let lab = Lab::new(&EXPERIMENT.replace("blocks = 1", "blocks = 2").replace("\"1s\"", "\"2s\""));
    let mut child = lab.in_mid_round();
    let journal = lab.out().join("rounds.jsonl");
    until("no round ended", || fs::read_to_string(&journal).is_ok_and(|text| text.ends_with('\n')));
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    until("processes are left", || mentioning(lab.0.path()).is_empty());
    for half in ["report.json", "report.md", "report.html"] {
        assert!(!lab.out().join(half).exists(), "{half}");
    }
    let out = lab.out();
    let out = out.to_str().unwrap();
    let report = on_results(&["--report", out]);
    assert_eq!(report.status.code(), Some(130), "{}", text_of(&report));
    let resumed = on_results(&["--resume", out]);
    assert_eq!(resumed.status.code(), Some(0), "{}", text_of(&resumed));
    assert!(text(&resumed.stderr).contains("2 of 2 blocks complete"), "{}", text_of(&resumed));

    let again = on_results(&["--report", out, "--json"]);
    assert_eq!(again.status.code(), Some(0), "{}", text_of(&again));
    let json: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(json["ended"]["state"], "complete");
    assert_eq!(json["resumed"].as_array().unwrap().len(), 1);
}

#[test]
fn stored_runs_that_are_none_are_wrong_usage() {
    let empty = tempfile::tempdir().unwrap();
    let dir = empty.path().to_str().unwrap();
    for flags in [
        &["--report", dir][..],
        &["--resume", dir],
        &["--report", dir, "--quick"],
        &["--report", dir, "--resume", dir],
        &[],
    ] {
        let output = on_results(flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", text_of(&output));
    }
    let said = text(&on_results(&["--report", dir]).stderr);
    assert!(said.contains("run.json"), "{said}");
}

fn send(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

#[track_caller]
fn exit_code(child: &mut Child) -> Option<i32> {
    let exit = std::cell::OnceCell::new();
    let child = std::cell::RefCell::new(child);
    until("it did not end", || {
        let ended = child.borrow_mut().try_wait().unwrap();
        ended.is_some_and(|status| exit.set(status.code()).is_ok())
    });
    exit.get().copied().flatten()
}

#[test]
fn an_interrupt_is_obeyed_when_nobody_reads_stderr() {
    let lab = Lab::new(&EXPERIMENT.replace("\"1s\"", "\"10m\""));
    let mut child = lab.in_mid_round();
    drop(child.0.stderr.take());
    send(&child.0, rustix::process::Signal::INT);
    assert_eq!(exit_code(&mut child.0), Some(130));
    assert!(lab.out().join("report.json").exists());
}

#[test]
fn two_signals_at_once_are_one_wish() {
    let lab = Lab::new(&EXPERIMENT.replace("\"1s\"", "\"10m\""));
    let mut child = lab.in_mid_round();
    // As `timeout` does it.
    send(&child.0, rustix::process::Signal::TERM);
    send(&child.0, rustix::process::Signal::INT);
    assert_eq!(exit_code(&mut child.0), Some(130));
    assert!(lab.out().join("report.json").exists());
}

#[test]
fn a_seed_is_a_number_every_reader_of_json_can_hold() {
    let lab = Lab::new(EXPERIMENT);
    let codes = ["9007199254740991", "9007199254740992"]
        .map(|seed| lab.run(&["--check", "--blocks", "2", "--seed", seed]).status.code());
    assert_eq!(codes, [Some(0), Some(2)]);
}

#[test]
fn settings_may_be_nested_tables() {
    let lab = Lab::new(&EXPERIMENT.replace("\"cache.mode\" =", "cache.mode ="));
    let output = lab.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn kill_9_leaves_no_process() {
    let lab = Lab::new(&EXPERIMENT.replace("\"1s\"", "\"10m\""));
    let mut child = lab.in_mid_round();
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    until("processes are left", || mentioning(lab.0.path()).is_empty());
}

/// What is put right in the experiment's file or its script is another run.
#[test]
fn resuming_is_offered_where_it_can_work() {
    let broken = EXPERIMENT.replace("[rounds]", "[rounds]\nretries = 0");
    let throws = format!("export function setup() {{ throw new Error('early'); }}\n{SCRIPT}");
    let command = |command: &str| {
        let ready = "ready = \"http://127.0.0.1:{port}/\"";
        broken.replace("serve = {}", &format!("command = {command}\n{ready}"))
    };
    let (never, ends) = (command("[\"sleep\", \"60\"]"), command("[\"sh\", \"-c\", \"exit 3\"]"));
    let never = never.replace("retries = 0", "retries = 0\nstart_limit = \"1s\"");
    for (experiment, script, code, offered) in [
        (&broken, throws.as_str(), 1, None),
        // Only another `start_limit` would help, and that is another experiment.
        (&never, SCRIPT, 8, None),
        (&ends, SCRIPT, 8, Some("if it can be put right without")),
    ] {
        let lab = Lab::new(experiment);
        fs::write(lab.0.path().join("script.js"), script).unwrap();
        let output = lab.run(&[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("--resume"), offered.is_some(), "{said}");
        assert!(said.contains(offered.unwrap_or_default()), "{said}");
    }
}

/// A server in Python that has to do so much for each request, and answers `/` with 404.
const SERVER: &str = "
import hashlib, http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        for _ in range(int(sys.argv[2])):
            hashlib.sha256(b'madang').digest()
        body = b'{}'
        self.send_response(200 if self.path == '/one' else 404)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";

#[test]
fn two_commands_and_a_script_are_enough_and_the_worse_one_fails_the_command() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("server.py"), SERVER).unwrap();
    let script = "
        import http from 'k6/http';
        export const options = { vus: 2, duration: '2s' };
        export default function () { http.get(`${__ENV.BASE_URL}/one`); }";
    fs::write(dir.path().join("load.js"), script).unwrap();
    let run = |head: &str, flags: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_madang"))
            .current_dir(dir.path())
            .args(["compare", "--script", "load.js"])
            .args(["--base", "python3 server.py {port} 10", "--head", head])
            .args(flags)
            .output()
            .unwrap()
    };
    let flags = ["--blocks", "3", "--fail-on", "worse:20%", "--out", "out"];
    let worse = run("python3 server.py {port} 10000", &flags);
    let said = text_of(&worse);
    assert_eq!(worse.status.code(), Some(7), "{said}");
    let first = text(&worse.stdout).lines().next().unwrap().to_owned();
    assert!(first.starts_with("WORSE: head needs ") && first.contains("CPU per request"), "{said}");
    assert!(first.contains("3 pairs, "), "{said}");
    let report = fs::read_to_string(dir.path().join("out/report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&json["answer"], &json["variant"]), (&"worse".into(), &"head".into()), "{said}");
    let cpu = &json["metrics"]["cpu_per_good_request"];
    assert!(cpu["low"].as_f64().unwrap() > 1.2 && cpu["answer"] == "worse", "{cpu}");
    assert!(json["verdict"].is_null() && json["settings"]["design"] == "duet", "{said}");

    // There is no file that could have changed, so the run can be resumed; here nothing is left to do.
    let resumed = Command::new(env!("CARGO_BIN_EXE_madang"))
        .current_dir(dir.path())
        .args(["compare", "--resume", "out", "--json"])
        .output()
        .unwrap();
    assert_eq!(resumed.status.code(), Some(0), "{}", text_of(&resumed));
    let json: serde_json::Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!((&json["answer"], &json["complete_blocks"]), (&"worse".into(), &3.into()));

    let nothing = run("false", &["--check"]);
    let said = text_of(&nothing);
    assert_eq!(nothing.status.code(), Some(2), "{said}");
    assert!(said.contains("needs `{port}` in its `command`"), "{said}");
    let missing = Command::new(env!("CARGO_BIN_EXE_madang"))
        .current_dir(dir.path())
        .args(["compare", "--script", "load.js", "--base", "x {port}"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(text_of(&missing).contains("--head is missing"), "{}", text_of(&missing));
}

#[test]
fn init_writes_a_file_that_is_right_and_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("server.py"), SERVER).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_madang"));
        command.current_dir(dir.path()).args(args).output().unwrap()
    };
    let made = run(&["init", "--out", "bench/compare.toml"]);
    assert_eq!(made.status.code(), Some(0), "{}", text_of(&made));
    assert!(dir.path().join("bench/load.js").exists(), "{}", text_of(&made));
    let checked = run(&["compare", "bench/compare.toml", "--check"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text_of(&checked));
    let file = fs::read_to_string(dir.path().join("bench/compare.toml")).unwrap();
    assert!(file.contains("cd '..' && exec 'python3' 'server.py' '{port}'"), "{file}");
    let again = run(&["init", "--out", "bench/compare.toml"]);
    assert_eq!(again.status.code(), Some(2), "{}", text_of(&again));
    // A script that is there is taken.
    fs::write(
        dir.path().join("mine.js"),
        "import http from 'k6/http';\nexport default function () {}",
    )
    .unwrap();
    assert_eq!(run(&["init"]).status.code(), Some(0));
    let file = fs::read_to_string(dir.path().join("compare.toml")).unwrap();
    assert!(
        file.contains("script = \"mine.js\"") && !dir.path().join("load.js").exists(),
        "{file}"
    );
}
