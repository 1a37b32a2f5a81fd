//! `madang limit` as a person runs it: the real command, real load, servers whose limit is known.
//! What its page looks like is tested in `report.rs`.
//!
//! What a search finds depends on how busy the machine is; what it must never say does not. So these
//! tests bound every answer by what is impossible. Where others kept the generator from its starts the search
//! is made again, and one of [`ATTEMPTS`] has to find what there is.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

#[path = "limit/servers.rs"]
mod servers;

use madang_testing::Finish as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use servers::{Kind, server};

const MADANG: &str = env!("CARGO_BIN_EXE_madang");
/// A generous limit for what takes seconds.
const DEADLINE: Duration = Duration::from_secs(120);

/// Searches of which one is not disturbed.
const ATTEMPTS: usize = 5;

const PLAIN: &str = "
import http from 'k6/http';
import { check } from 'k6';
export const options = { vus: 3, iterations: 3 };
export default function () {
  check(http.get(`${__ENV.BASE_URL}/x`), { 'it works': (r) => r.status === 200 });
}
";

const STEERED: &str = "
import http from 'k6/http';
export const options = { scenarios: { all: {
  executor: 'constant-arrival-rate', rate: Number(__ENV.RATE), timeUnit: '1s',
  duration: __ENV.DURATION, preAllocatedVUs: Number(__ENV.VUS),
} } };
export default function () { http.get(`${__ENV.BASE_URL}/x`); }
";

/// A directory with a script.
struct Search(tempfile::TempDir);

impl Search {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("script.js"), script).unwrap();
        Self(dir)
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    /// On a machine as busy as it may be.
    fn command(&self, path: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(MADANG);
        command.arg("limit").arg(self.0.path().join(path)).arg("--out").arg(self.out());
        command.args(["--duration", "1s", "--warm-up", "200ms", "--resolution", "20%"]);
        command.args(["--accept", "steal", "--accept", "foreign_cpu"]).args(flags);
        // What a careless shell may have set must not change anything.
        command.env("K6_VUS", "nonsense").env("RATE", "1").current_dir(self.0.path());
        command
    }

    fn run(&self, path: &str, flags: &[&str]) -> Output {
        self.command(path, flags).finish()
    }
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)))
}

fn tries(report: &Value) -> &Vec<Value> {
    report["tries"].as_array().unwrap()
}

/// The rates at which a try held.
fn held(report: &Value) -> Vec<u64> {
    let held = tries(report).iter().filter(|one| one["missed"].is_null() && one["void"].is_null());
    held.map(|one| one["rate"].as_u64().unwrap()).collect()
}

/// Whether others kept the generator from starting even one iteration in time, four times in a row:
/// then nothing may be said of the server.
#[track_caller]
fn was_late(output: &Output) -> bool {
    let late = text(output).contains("the load generator gave way first");
    assert!(!late || output.status.code() == Some(3), "{}", text(output));
    late
}

/// Searches again while others keep the generator from its work.
#[track_caller]
fn undisturbed<T>(search: impl FnMut(usize) -> Option<T>) -> T {
    (0..ATTEMPTS).find_map(search).expect("others kept the generator from its starts every time")
}

/// Complete, and either a limit of the server's or said to be something else's.
#[track_caller]
fn assert_told(output: &Output, report: &Value) {
    let code = output.status.code();
    let variants = report["variants"].as_array().unwrap().iter();
    let because = variants.map(|one| &one["capacity"]["because"]);
    let hidden = because.filter(|why| !why.is_null() && *why != "max_rate").count();
    assert_eq!(code, Some(if hidden == 0 { 0 } else { 3 }), "{}", text(output));
    assert_eq!(report["ended"]["state"], "complete", "{report}");
}

#[test]
fn a_server_never_seems_to_take_more_than_it_can() {
    // 20 ms one after another: 50 per second, at most.
    let url = server(Kind::Serial(Duration::from_millis(20)));
    for script in [PLAIN, STEERED] {
        let search = Search::new(script);
        let flags = ["--url", &url, "--p95", "150ms", "--errors", "0%", "--blocks", "1", "--json"];
        let output = search.run("script.js", &flags);
        let report = json(&output);
        assert_told(&output, &report);
        // 20 more than it can take wait for 400 ms at the end of the window.
        assert!(held(&report).iter().all(|rate| *rate < 70), "{report}");
        // Rates go up to where the goal must be missed.
        let last = tries(&report).iter().map(|one| one["rate"].as_u64().unwrap()).max().unwrap();
        assert!(last >= 10, "{report}");
        let written = fs::read_to_string(search.out().join("report.json")).unwrap();
        assert_eq!(written.as_bytes(), output.stdout);
        let page = fs::read_to_string(search.out().join("report.md")).unwrap();
        assert!(page.contains("## Every try"), "{page}");
        let rounds = fs::read_to_string(search.out().join("rounds.jsonl")).unwrap();
        assert_eq!(rounds.lines().count(), tries(&report).len());
        for one in tries(&report) {
            let asked = one["rate"].as_f64().unwrap();
            let seen = one["figures"]["arrivals_per_second"].as_f64().unwrap();
            assert!((seen / asked - 1.0).abs() < 0.5, "{one}");
        }
    }
}

#[test]
fn a_server_that_refuses_everything_takes_nothing() {
    let url = server(Kind::Refusing);
    let flags = ["--url", &url, "--errors", "10%", "--blocks", "1", "--from", "2"];
    let output = undisturbed(|_| {
        Some(Search::new(PLAIN).run("script.js", &flags)).filter(|output| !was_late(output))
    });
    let said = text(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.contains("did not reach the goal even at 1 iteration/s"), "{said}");
    assert!(said.contains("takes nothing at this promise"), "{said}");
    assert!(said.contains("(errors 100 %)") && said.contains("errors 1/1"), "{said}");
}

#[test]
fn the_highest_rate_allowed_is_no_limit_of_the_server() {
    let url = server(Kind::Serial(Duration::ZERO));
    let flags = ["--url", &url, "--errors", "0.5%", "--blocks", "1", "--max-rate", "20", "--json"];
    let output = undisturbed(|_| {
        Some(Search::new(PLAIN).run("script.js", &flags)).filter(|output| !was_late(output))
    });
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let capacity = &json(&output)["variants"][0]["capacity"];
    assert_eq!((&capacity["known"], &capacity["rate"]), (&"at_least".into(), &20.into()));
    assert_eq!(capacity["because"], "max_rate");
}

#[test]
fn too_few_virtual_users_are_no_limit_of_the_server() {
    let url = server(Kind::Serial(Duration::ZERO));
    let sleepy = PLAIN.replace(
        "export default function () {",
        "import { sleep } from 'k6';\n\
        export default function () {\n  sleep(1);",
    );
    let flags = ["--url", &url, "--errors", "0.5%", "--blocks", "1", "--vus", "8", "--json"];
    undisturbed(|_| {
        let output = Search::new(&sleepy).run("script.js", &flags);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        let report = json(&output);
        let capacity = &report["variants"][0]["capacity"];
        assert_eq!(capacity["known"], "at_least", "{report}");
        assert!(held(&report).iter().all(|rate| *rate <= 12), "{report}");
        // On a busy machine the generator itself may come first.
        let because = capacity["because"].as_str().unwrap();
        assert!(["virtual_users", "generator"].contains(&because), "{report}");
        (because == "virtual_users").then_some(())
    });
}

#[test]
fn only_a_script_that_follows_rate_and_duration_is_left_to_it() {
    let url = server(Kind::Serial(Duration::ZERO));
    let rate_twice = STEERED.replace("Number(__ENV.RATE)", "2 * __ENV.RATE");
    let deaf = STEERED.replace("Number(__ENV.RATE)", "__ENV.RATE ? 2 : 2");
    let short = STEERED.replace("__ENV.DURATION", "'400ms'");
    let apart = format!("const {{ RATE, ...rest }} = __ENV;{STEERED}")
        .replace("Number(__ENV.RATE)", "Number(RATE)");
    for (script, follows) in [
        (STEERED, true),
        (&apart, true),
        (&rate_twice, false),
        (&deaf, false),
        (&short, false),
        (PLAIN, false),
    ] {
        let output =
            Search::new(script).run("script.js", &["--url", &url, "--p95", "1s", "--check"]);
        assert_eq!(output.status.code(), Some(0), "{script}: {}", text(&output));
        assert_eq!(text(&output).contains("the script follows RATE"), follows, "{script}");
    }
}

#[test]
fn a_server_that_stops_answering_beyond_a_rate_is_to_blame_and_not_waited_for() {
    if !madang_testing::drill!() {
        return;
    }
    let url = server(Kind::Hanging(40));
    let flags = ["--url", &url, "--p95", "150ms", "--blocks", "1", "--json"];
    undisturbed(|_| {
        let output = Search::new(PLAIN).run("script.js", &flags);
        let report = json(&output);
        assert_told(&output, &report);
        // At 48 a second the 41st comes after 0.85 s of 1.2 s, and none after it is answered.
        assert!(held(&report).iter().all(|rate| *rate <= 48), "{report}");
        // Half a minute of waiting is more than ten times as long as anything took.
        let longest = tries(&report).iter().map(|one| one["took_seconds"].as_f64().unwrap());
        assert!(longest.fold(0.0, f64::max) < 25.0, "{report}");
        let server = &report["variants"][0];
        // What the generator spoils on a busy machine is said to be its own.
        if server["capacity"]["because"] == "generator" {
            return None;
        }
        assert_eq!(server["capacity"]["known"], "exactly", "{report}");
        assert_eq!(server["gave_way"][0], serde_json::json!(["errors", 1]), "{report}");
        Some(())
    });
}

/// nginx that lets a known number of requests a second through, whatever the machine: a bucket of 8
/// that leaks at the rate (`limit_req`), and 503 beyond it.
const LIMITED: &str = include_str!("limited/experiment.toml");
const START: &str = include_str!("limited/start.sh");

/// Of `rate` a second over a window, `allowed` a second and a bucket get through; the rest is errors.
fn most(allowed: f64, seconds: f64, errors: f64) -> f64 {
    (allowed + 9.0 / seconds) / (1.0 - errors)
}

fn limited(flags: &[&str]) -> (Search, Output) {
    let search = Search::new(PLAIN);
    fs::write(search.0.path().join("experiment.toml"), LIMITED).unwrap();
    fs::write(search.0.path().join("start.sh"), START).unwrap();
    let flags = [&["--errors", "2%", "--max-dropped", "100%", "--from", "20"], flags].concat();
    let output = search.run("", &flags);
    (search, output)
}

/// No try held at a rate that nginx cannot have let through.
#[track_caller]
fn assert_never_above(report: &Value) {
    let above = tries(report).iter().filter(|one| {
        let allowed = if one["variant"] == "forty" { 40.0 } else { 80.0 };
        one["missed"].is_null()
            && one["void"].is_null()
            && one["rate"].as_f64().unwrap() > most(allowed, 1.0, 0.02) * 1.05
    });
    assert_eq!(above.count(), 0, "{report}");
}

/// Whether the limit of a variant was found, near where it is. What the generator spoils on a busy machine
/// is said to be its own.
#[track_caller]
fn is_found(report: &Value, place: usize, allowed: f64) -> bool {
    let variant = &report["variants"][place];
    if variant["capacity"]["known"] != "exactly" {
        return false;
    }
    let rate = variant["capacity"]["rate"].as_f64().unwrap();
    let highest = most(allowed, 1.0, 0.02) * 1.1;
    assert!((allowed * 0.7..highest).contains(&rate), "{variant}");
    assert_eq!(variant["gave_way"][0][0], "errors", "{variant}");
    true
}

#[test]
fn the_limit_of_an_nginx_that_was_told_its_limit_is_found() {
    if !madang_testing::drill!() {
        return;
    }
    let flags = ["--blocks", "2", "--max-rate", "200", "--json"];
    let (search, output, report) = undisturbed(|_| {
        let (search, output) = limited(&flags);
        let report = json(&output);
        assert_told(&output, &report);
        assert_never_above(&report);
        let is_found =
            [(0, 40.0), (1, 80.0)].map(|(place, allowed)| is_found(&report, place, allowed));
        (is_found == [true; 2]).then_some((search, output, report))
    });
    let ratio = report["variants"][1]["versus"]["ratio"]["ratio"].as_f64().unwrap();
    assert!((1.3..3.0).contains(&ratio), "{report}");
    assert_eq!(wrong(&report), None);
    let read = |file: &str| fs::read_to_string(search.out().join(file)).unwrap();
    // Reported again, it is the same, whatever language it was reported in between. Reading a number
    // back may cost its last digit, so it is the second report that is compared to the last byte.
    let again = |flags: &[&str]| {
        let mut command = Command::new(MADANG);
        command.args(["limit", "--report"]).arg(search.out()).args(flags);
        command.finish()
    };
    assert_eq!(again(&[]).status.code(), output.status.code());
    let (old, page) = (read("report.json"), read("report.html"));
    let korean = again(&["--lang", "ko"]);
    let said = text(&korean);
    assert!(said.contains("초당 반복") && !said.contains("takes"), "{said}");
    assert!(read("report.html").contains("<html lang=\"ko\">"));
    let korean: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(wrong(&korean), None);
    assert_eq!(korean["variants"][0]["capacity"], report["variants"][0]["capacity"]);
    assert_eq!(again(&[]).status.code(), output.status.code());
    assert_eq!((read("report.json"), read("report.html")), (old, page));
}

/// The published schema of the report.
fn wrong(report: &Value) -> Option<String> {
    let schema = include_str!("../../../experiments/limit.schema.json");
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("limit.schema.json", serde_json::from_str(schema).unwrap()).unwrap();
    let index = compiler.compile("limit.schema.json", &mut schemas).unwrap();
    schemas.validate(report, index).err().map(|error| format!("{error:#}"))
}

/// What is stored of a search that was killed after its first tries is gone on from: the tries that
/// are there are not made again, and the answer is that of one search.
#[test]
fn a_killed_search_goes_on_where_it_was() {
    if !madang_testing::drill!() {
        return;
    }
    let url = server(Kind::Refusing);
    let search = Search::new(PLAIN);
    let flags = ["--url", &url, "--errors", "10%", "--blocks", "2", "--from", "8", "--json"];
    let whole = json(&search.run("script.js", &flags));
    let journal = search.out().join("rounds.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    let kept: Vec<&str> = lines.lines().take(3).collect();
    // The last line was torn.
    fs::write(&journal, format!("{}\n{{\"block\": 1, \"att", kept.join("\n"))).unwrap();
    let go_on = |flags: &[&str]| {
        let mut command = Command::new(MADANG);
        command.args(["limit", "--json"]).args(flags).arg(search.out()).finish()
    };
    let part = go_on(&["--report"]);
    assert_eq!(part.status.code(), Some(130), "{}", text(&part));
    let part = json(&part);
    assert_eq!(part["ended"]["state"], "interrupted");
    assert_eq!(tries(&part)[..], tries(&whole)[..3]);
    assert_eq!(wrong(&part), None);
    let resumed = go_on(&["--resume"]);
    let resumed_report = json(&resumed);
    // All that is left undone is refused too, unless others kept the generator from its starts.
    let capacity = &resumed_report["variants"][0]["capacity"];
    let late = capacity["because"] == "generator";
    assert_eq!(resumed.status.code(), Some(if late { 3 } else { 8 }), "{}", text(&resumed));
    assert!(late || capacity["known"] == "nothing", "{}", text(&resumed));
    assert_eq!(tries(&resumed_report)[..3], tries(&whole)[..3]);
    assert_eq!(resumed_report["resumed"].as_array().unwrap().len(), 1);
    let written = fs::read_to_string(&journal).unwrap();
    assert_eq!(written.lines().count(), tries(&resumed_report).len());
    assert_eq!(wrong(&resumed_report), None);
    // Another script is another search.
    fs::write(search.0.path().join("script.js"), format!("{PLAIN}\n// changed")).unwrap();
    let refused = go_on(&["--resume"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("/script.js` changed since"), "{}", text(&refused));
    // What another version tried is not taken for what this one would have.
    let altered = written.replacen("\"attempt\":2", "\"attempt\":7", 1);
    assert_ne!(altered, written);
    fs::write(&journal, altered).unwrap();
    let refused = go_on(&["--report"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("do not follow"), "{}", text(&refused));
    // Nor a search for a comparison.
    let output = Command::new(MADANG).args(["compare", "--report"]).arg(search.out()).finish();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("is of madang limit"), "{}", text(&output));
}

const EXPERIMENT: &str = r#"
name = "two"
question = "Which takes more?"
reference = "one"
prediction = { metric = "goodput", variant = "two", ratio_at_least = 1 }
[load]
script = "script.js"
[rounds]
blocks = 2
[variants.one]
serve = { "cache.mode" = "off" }
[variants.two]
serve = {}
"#;

fn experiment() -> Search {
    let page = PLAIN.replace("/x", "/v1/tracks");
    let search = Search::new(&page);
    fs::write(search.0.path().join("experiment.toml"), EXPERIMENT).unwrap();
    search
}

#[test]
fn variants_of_this_server_are_searched_in_turn_and_compared() {
    let search = experiment();
    let flags = ["--p95", "5s", "--blocks", "2", "--max-rate", "20", "--json", "--seed", "3"];
    let output = search.run("", &flags);
    let report = json(&output);
    assert_told(&output, &report);
    assert_eq!(report["ended"]["state"], "complete");
    // Neither got to its limit, so there is nothing to compare.
    let two = &report["variants"][1];
    assert!(two["versus"]["no_ratio"].as_str().unwrap().contains("gave way"), "{two}");
    let order: Vec<&str> =
        tries(&report).iter().map(|one| one["variant"].as_str().unwrap()).collect();
    assert_ne!(order[0], order[1], "tries of the two alternate: {order:?}");
    let fresh = tries(&report).iter().filter(|one| one["figures"]["goodput"].as_f64() > Some(0.0));
    assert_eq!(fresh.count(), order.len());
    // A server that does little may use less than the kernel's clock counts.
    assert!(tries(&report).iter().all(|one| one["server_cores"].is_f64()), "{report}");
    assert!(!search.out().join("work").exists());
}

#[test]
fn an_interrupt_keeps_what_was_found() {
    let search = experiment();
    let mut command = search.command("", &["--p95", "5s", "--max-rate", "11", "--blocks", "1000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found =
        lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("or more; about"));
    assert!(found.is_some(), "it ended by itself");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // The pipe is read to its end, so that nobody waits for a reader.
    let rest = lines.map(|line| line.unwrap()).collect::<Vec<_>>().join("\n");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < DEADLINE, "it did not end");
        std::thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(status.code(), Some(130), "{rest}");
    let report = fs::read_to_string(search.out().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["ended"]["state"], "interrupted");
    let found = report["variants"].as_array().unwrap().iter();
    assert!(found.flat_map(|one| one["searches"].as_array().unwrap()).count() >= 1, "{report}");
}

#[test]
fn wrong_flags_and_files_are_named_before_anything_runs() {
    let search = experiment();
    let none = Command::new(MADANG).args(["limit", "--report", "/none"]).finish();
    assert_eq!(none.status.code(), Some(2), "{}", text(&none));
    assert!(text(&none).contains("no stored run"), "{}", text(&none));
    fs::write(search.0.path().join("broken.js"), "export default function () {").unwrap();
    let url = ["--url", "http://127.0.0.1:1"];
    for (path, flags, expected) in [
        ("", &[][..], "--p95"),
        ("", &["--p95", "200"], "with its unit"),
        ("", &["--p95", "0ms"], "longer than zero"),
        ("", &["--errors", "0.1"], "a percentage such as 0.1%"),
        ("", &["--errors", "200%"], "a percentage such as 0.1%"),
        (
            "",
            &["--p95", "1s", "--variant", "three"],
            "no variant `three`: the experiment has one, two",
        ),
        ("", &["--p95", "1s", "--from", "50", "--max-rate", "20"], "--from must not be above"),
        ("", &["--p95", "1s", "--accept", "noise"], "accepted are steal and foreign_cpu"),
        ("", &["--p95", "1s", "--lang", "fr"], "accepted are `en` and `ko`"),
        ("", &["--p95", "1s", "--quick"], "[load.quick]"),
        ("", &["--p95", "1s", url[0], url[1]], "--url belongs to a script"),
        ("script.js", &["--p95", "1s"], "needs --url"),
        ("script.js", &["--p95", "1s", "--url", "nonsense"], "`url`"),
        ("none.js", &["--p95", "1s", url[0], url[1]], "none.js"),
        ("none.toml", &["--p95", "1s"], "none.toml"),
        ("broken.js", &["--p95", "1s", url[0], url[1]], "SyntaxError"),
    ] {
        let output = search.run(path, flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", text(&output));
        assert!(text(&output).contains(expected), "no {expected:?} in: {}", text(&output));
        assert!(!search.out().exists(), "{flags:?}");
    }
    let file = search.0.path().join("experiment.toml");
    let typo = "[[invariants]]\nname = \"n\"\nvalue = \"load.creatd\"\nat_least = 0\n";
    fs::write(&file, format!("{EXPERIMENT}{typo}")).unwrap();
    let output = search.run("", &["--p95", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("no metric `creatd`"), "{}", text(&output));
    assert!(!search.out().exists());
    fs::write(&file, EXPERIMENT).unwrap();
    let output = search.run("", &["--p95", "1s", "--check"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(
        text(&output).contains("variants: one, two; the script's default"),
        "{}",
        text(&output)
    );
    // Nobody answers there: nothing was run.
    let output = search.run("script.js", &["--p95", "1s", url[0], url[1]]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("nobody answers"), "{}", text(&output));
    assert!(!search.out().exists());
}
