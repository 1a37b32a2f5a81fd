//! Scripts that were run by k6 once: the same requests, checks, metrics, messages and exit code have to come here.
//!
//! `expected/` holds what k6 v1.8.1 did. A drill runs k6 again and compares; with `BLESS=1` it writes those files.
//!
//! ```sh
//! MADANG_DRILLS=1 cargo test -p madang-load --test parity
//! ```
//!
//! Scripts of others are compared by `scripts/parity DIR…`.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod redis;
mod secure;
mod server;
mod sockets;
mod stapled;
mod third_party;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use madang_load::{Config, Layer, LogFormat, Messages, OutputSpec};
use serde_json::{Value, json};
use server::Server;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity").join(name)
}

/// The scripts by name, without those that others import.
fn scripts() -> BTreeMap<String, PathBuf> {
    let files = std::fs::read_dir(directory("scripts")).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| {
        path.extension().is_some_and(|extension| extension == "js" || extension == "ts")
    });
    let mut scripts: BTreeMap<_, _> = scripts
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    if redis::program().is_none() {
        scripts.remove("redis");
        let package = env!("CARGO_PKG_NAME");
        madang_testing::left_out("skipped", package, false, "no redis-server for one script");
    }
    scripts
}

/// What a run did, without what differs from run to run.
fn found(server: &Server, code: i32, export: Option<&Value>, messages: &[String]) -> Value {
    let said: Vec<&str> = messages.iter().filter_map(|line| console(line)).collect();
    let thrown: Vec<String> = messages.iter().filter_map(|line| exception(line)).collect();
    let mut found = json!({
        "exit_code": code,
        "console": said,
        "requests": server.requests(),
        "root_group": export.map(|export| group(&export["root_group"])),
        "metrics": export.map(|export| metrics(&export["metrics"])),
    });
    if !thrown.is_empty() {
        found["exceptions"] = json!(thrown);
    }
    found
}

/// Level and text of a line that the script has written.
fn console(line: &str) -> Option<&str> {
    let line = line.trim_end().strip_suffix(" source=console")?;
    line.find("level=").map(|at| &line[at..])
}

/// What the script has thrown and not caught: the first line of its text, without the engine's own words.
fn exception(line: &str) -> Option<String> {
    if console(line).is_some() || !line.contains("level=error") {
        return None;
    }
    let from = line.find("msg=\"")? + "msg=".len();
    // Go quotes as JSON does, but for bytes that are not printable.
    let quoted = serde_json::Deserializer::from_str(&line[from..]).into_iter::<String>().next();
    let text = quoted?.unwrap_or_else(|_| line[from + 1..].replace("\\n", "\n"));
    // Not all of them have a `source`: a rejected promise has none in k6, nor has `handleSummary()` that throws.
    if !line.contains(" source=stacktrace")
        && !text.contains("\n\tat ")
        && !text.starts_with("Uncaught ")
    {
        return None;
    }
    let first = text.lines().next().unwrap_or_default();
    let first = first.trim_start_matches("Uncaught (in promise) ").trim_start_matches("Uncaught ");
    let kind = first.split(':').next().unwrap_or_default();
    Some(match first.strip_prefix("GoError") {
        _ if ENGINE_ERRORS.contains(&kind) => format!("{kind}: …"),
        Some(rest) => format!("Error{rest}"),
        None => first.to_owned(),
    })
}

/// Errors that the engine of the language throws, in words of its own.
const ENGINE_ERRORS: [&str; 4] = ["TypeError", "ReferenceError", "SyntaxError", "RangeError"];

/// Checks and groups by name.
fn group(group: &Value) -> Value {
    let children = |name: &str| group[name].as_object().cloned().unwrap_or_default();
    let checks: BTreeMap<String, Value> = children("checks")
        .iter()
        .map(|(name, check)| (name.clone(), json!([check["passes"], check["fails"]])))
        .collect();
    let groups: BTreeMap<String, Value> =
        children("groups").iter().map(|(name, inner)| (name.clone(), self::group(inner))).collect();
    json!({ "checks": checks, "groups": groups })
}

/// Counts, and results of thresholds. Of what is a time, only that it was measured.
fn metrics(metrics: &Value) -> Value {
    let told = metrics.as_object().unwrap().iter().filter(|(name, _)| {
        !["data_sent", "data_received", "vus", "vus_max"].contains(&name.as_str())
    });
    let told: BTreeMap<String, Value> = told
        .map(|(name, metric)| {
            let mut kept = json!({});
            for field in ["count", "passes", "fails", "thresholds"] {
                if !metric[field].is_null() {
                    kept[field] = metric[field].clone();
                }
            }
            (name.clone(), kept)
        })
        .collect();
    json!(told)
}

/// Whether the single values of a script are compared, too: they are many.
fn has_outputs(script: &Path) -> bool {
    script.file_stem().unwrap().to_str().unwrap().starts_with("outputs")
}

/// The directory of the originals of jslib.k6.io, as `k6-utils.js`; k6 is compared with them where there is one.
fn originals() -> Option<PathBuf> {
    std::env::var_os("MADANG_JSLIB").map(PathBuf::from)
}

/// The script for k6, in which libraries that are built in here are files: k6 would fetch them.
fn for_k6(script: &Path, work: &Path) -> PathBuf {
    const HOST: &str = "https://jslib.k6.io/";
    const CHAI: &str = concat!(
        "const module = { exports: {} }, exports = module.exports;\n",
        include_str!("../../src/script/jslib/chai.min.js"),
        include_str!("../../src/script/jslib/k6chaijs.js"),
    );
    let mut text = std::fs::read_to_string(script).unwrap();
    if !text.contains(HOST) {
        return script.to_owned();
    }
    std::fs::write(work.join("k6chaijs.js"), CHAI).unwrap();
    while let Some(at) = text.find(HOST) {
        let end = at + text[at..].find('\'').unwrap();
        let name = text[at + HOST.len()..end].split('/').next().unwrap().to_owned();
        if let Some(originals) = originals().filter(|_| name != "k6chaijs") {
            let file = format!("{name}.js");
            std::fs::copy(originals.join(&file), work.join(&file)).unwrap();
        }
        text.replace_range(at..end, &format!("./{name}.js"));
    }
    std::fs::write(work.join("script.js"), text).unwrap();
    work.join("script.js")
}

/// What the environment says of proxies, for the script that is about them.
fn proxies(script: &Path, server: &Server) -> Vec<(&'static str, String)> {
    if script.file_stem().unwrap() != "proxies" {
        return Vec::new();
    }
    let proxy = server.url().replace("http://", "http://user:pass@");
    let direct = "direct.example".to_owned();
    vec![("HTTP_PROXY", proxy.clone()), ("HTTPS_PROXY", proxy), ("NO_PROXY", direct)]
}

/// Further servers for a script that needs them, and what it knows of them.
#[derive(Default)]
struct Beside {
    variables: Vec<(String, String)>,
    _redis: Option<redis::Redis>,
}

impl Beside {
    fn start(script: &Path, server: &Server, work: &Path) -> Self {
        match script.file_stem().unwrap().to_str() {
            Some(name) if name.starts_with("tls") => {
                Self { variables: secure::start(server.log()), _redis: None }
            }
            Some(name) if name.starts_with("handle_summary") => {
                std::fs::create_dir(work.join("written")).unwrap();
                let out = work.join("written").display().to_string();
                Self { variables: vec![("OUT".to_owned(), out)], _redis: None }
            }
            Some("outputs_ocsp" | "ocsp_in_batches") => {
                Self { variables: stapled::start(), _redis: None }
            }
            Some("redis") => {
                let server = redis::Redis::start();
                let variables = vec![("REDIS".to_owned(), server.address())];
                Self { variables, _redis: Some(server) }
            }
            _ => Self::default(),
        }
    }
}

/// Whether it has the summary in its own hands, and writes files.
fn handles_summary(script: &Path) -> bool {
    script.file_stem().unwrap().to_str().unwrap().starts_with("handle_summary")
}

/// What `handleSummary()` has written, by name.
fn add_written(found: &mut Value, work: &Path) {
    let Ok(files) = std::fs::read_dir(work.join("written")) else { return };
    let text = |path: PathBuf| String::from_utf8(std::fs::read(path).unwrap()).unwrap();
    found["written"] = files
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().to_str().unwrap().to_owned(), json!(text(entry.path()))))
        .collect();
}

/// What `--log-output` and `--log-format` are given, for the scripts that are about them.
fn log(script: &Path, work: &Path) -> Option<(String, &'static str)> {
    let file = format!("file={}", work.join("log").display());
    match script.file_stem().unwrap().to_str()? {
        "logs_text" => Some((file, "text")),
        "logs_json" => Some((file + ",level=warning", "json")),
        "logs_raw" => Some((file + ",level=Info", "raw")),
        _ => None,
    }
}

/// The lines of that file, with the same time in all.
fn add_log(found: &mut Value, work: &Path) {
    let Ok(text) = std::fs::read_to_string(work.join("log")) else { return };
    let timeless = |line: &str| {
        let at =
            ["time=\"", "\"time\":\""].iter().find_map(|key| Some(line.find(key)? + key.len()));
        let Some(at) = at else { return line.to_owned() };
        let length = line[at..].find('"').unwrap();
        format!("{}TIME{}", &line[..at], &line[at + length..])
    };
    found["log"] = text.lines().map(timeless).collect();
}

/// What `--out` is given for the files in this directory.
fn outputs(work: &Path) -> [String; 2] {
    ["json", "csv"].map(|kind| format!("{kind}={}", work.join(kind).display()))
}

/// The lines of both files, but their times and what is measured in time or bytes.
fn add_outputs(found: &mut Value, work: &Path, server: &Server) {
    let lines = |name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(work.join(name)).unwrap();
        let text = text.replace(&server.url(), "URL");
        // Numbers of virtual users come once a second.
        let told = text.lines().filter(|line| !line.contains("\"vus") && !line.starts_with("vus"));
        told.map(str::to_owned).collect()
    };
    let counts = |text: &str| {
        ["http_reqs", "http_req_failed", "checks", "iterations", "own"]
            .iter()
            .any(|name| text.starts_with(name))
    };
    let json = lines("json").into_iter().map(|line| {
        let Some((before, rest)) = line.split_once("\"time\":") else { return line };
        let (value, tags) = rest.split_once(",\"tags\":").unwrap();
        let value = value.split_once(',').unwrap().1;
        let counts = counts(before.trim_start_matches("{\"metric\":\""));
        format!("{before}{}{tags}", if counts { value } else { "" })
    });
    let csv = lines("csv").into_iter().map(|line| {
        let fields: Vec<&str> = line.splitn(4, ',').collect();
        let value = if counts(fields[0]) { fields[2] } else { "" };
        format!("{},{value},{}", fields[0], fields[3])
    });
    found["json"] = json.collect();
    found["csv"] = csv.collect();
}

fn of_madang(script: &Path) -> Value {
    let server = Server::start();
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let work = tempfile::tempdir().unwrap();
    let export = work.path().join("export.json");
    let variables = proxies(script, &server);
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    };
    let log = log(script, work.path());
    let beside = Beside::start(script, &server, work.path());
    let outcome = madang_load::run(&Config {
        script: script.to_owned(),
        environment: std::iter::once(("URL".to_owned(), server.url()))
            .chain(beside.variables.clone())
            .collect(),
        overrides: Layer {
            user_agent: Some("k6".to_owned()),
            ..Layer::from_environment(variable).unwrap()
        },
        quiet: true,
        no_summary: !handles_summary(script),
        no_color: true,
        summary_export: Some(export.clone()),
        messages: match &log {
            Some((output, _)) => Messages::parse(output).unwrap(),
            None => Messages::Keep(lines.clone()),
        },
        log_format: log.map_or(LogFormat::Text, |(_, format)| LogFormat::parse(format).unwrap()),
        outputs: outputs(work.path())
            .iter()
            .filter(|_| has_outputs(script))
            .map(|output| OutputSpec::parse(output, |_| None).unwrap())
            .collect(),
        ..Config::default()
    });
    let messages = lines.lock().unwrap().clone();
    let code = i32::from(outcome.status.code());
    let mut found = found(&server, code, read(&export).as_ref(), &messages);
    if has_outputs(script) {
        add_outputs(&mut found, work.path(), &server);
    }
    add_log(&mut found, work.path());
    add_written(&mut found, work.path());
    assert!(found["exit_code"] != 104, "{}: {messages:?}", script.display());
    found
}

fn read(path: &Path) -> Option<Value> {
    let text = std::fs::read(path).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

fn of_k6(k6: &Path, script: &Path) -> Value {
    let server = Server::start();
    let work = tempfile::tempdir().unwrap();
    let export = work.path().join("export.json");
    let beside = Beside::start(script, &server, work.path());
    let ran = Command::new(k6)
        .args(["run", "--quiet", "--no-color", "--no-usage-report", "--address", "127.0.0.1:0"])
        .args(["--user-agent", "k6", "--env", &format!("URL={}", server.url())])
        .args(beside.variables.iter().map(|(name, url)| format!("--env={name}={url}")))
        .arg("--summary-export")
        .arg(&export)
        .args(
            outputs(work.path())
                .iter()
                .filter(|_| has_outputs(script))
                .flat_map(|output| ["--out", output]),
        )
        .args(
            log(script, work.path())
                .iter()
                .flat_map(|(output, format)| ["--log-output", output, "--log-format", format]),
        )
        .arg(for_k6(script, work.path()))
        .env("NO_COLOR", "1")
        .envs(proxies(script, &server))
        .output()
        .unwrap();
    let messages: Vec<_> =
        String::from_utf8_lossy(&ran.stderr).lines().map(str::to_owned).collect();
    let mut found = found(&server, ran.status.code().unwrap(), read(&export).as_ref(), &messages);
    if has_outputs(script) {
        add_outputs(&mut found, work.path(), &server);
    }
    add_log(&mut found, work.path());
    add_written(&mut found, work.path());
    found
}

/// Where two documents differ, by path.
fn differences(path: &str, expected: &Value, found: &Value, told: &mut BTreeMap<String, String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let names: std::collections::BTreeSet<_> =
                expected.keys().chain(found.keys()).collect();
            for name in names {
                let side =
                    |of: &serde_json::Map<String, Value>| of.get(name).cloned().unwrap_or_default();
                differences(&format!("{path}/{name}"), &side(expected), &side(found), told);
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
                differences(&format!("{path}/{at}"), expected, found, told);
            }
        }
        _ if expected == found => {}
        _ => {
            let text = format!("{path}\n    k6:     {expected}\n    madang: {found}\n");
            told.insert(path.to_owned(), text);
        }
    }
}

/// What is different here, and known to be: docs/LOAD.md says why.
const DIFFERENT: [&str; 1] = ["outputs_tags/root_group/checks/is 200"];

fn expectation(name: &str) -> PathBuf {
    directory("expected").join(format!("{name}.json"))
}

#[test]
fn scripts_do_what_they_did_in_k6() {
    let mut told = BTreeMap::new();
    let scripts = scripts();
    assert!(scripts.len() > 15, "{scripts:?}");
    for (name, path) in scripts {
        let expected =
            read(&expectation(&name)).unwrap_or_else(|| panic!("{name}: no expectation"));
        differences(&name, &expected, &of_madang(&path), &mut told);
    }
    for known in DIFFERENT {
        assert!(told.remove(known).is_some(), "{known} is no longer different");
    }
    assert!(told.is_empty(), "{}", told.into_values().collect::<String>());
}

#[test]
fn k6_still_does_what_is_expected() {
    if !madang_testing::drill!() {
        return;
    }
    // As `make drills` installs it.
    let k6 = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/bin/k6"));
    if !k6.exists() {
        madang_testing::skip!(false, "no k6: it needs Go to be installed");
        return;
    }
    let mut told = BTreeMap::new();
    let mut scripts = scripts();
    if originals().is_none() {
        scripts.retain(|name, _| !name.starts_with("jslib"));
        let package = env!("CARGO_PKG_NAME");
        madang_testing::left_out("skipped", package, false, "no originals of jslib (MADANG_JSLIB)");
    }
    for (name, path) in scripts {
        // Twice: what differs between two runs of k6 says nothing about another engine.
        let (first, second) = (of_k6(k6, &path), of_k6(k6, &path));
        differences(&format!("{name} (two runs of k6)"), &first, &second, &mut told);
        let file = expectation(&name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, serde_json::to_string_pretty(&first).unwrap() + "\n").unwrap();
        }
        let expected = read(&file).unwrap_or_else(|| panic!("{name}: no expectation"));
        differences(&format!("{name} (expected beside k6)"), &expected, &first, &mut told);
    }
    assert!(told.is_empty(), "{}", told.into_values().collect::<String>());
}
