//! Any directories of scripts, run by k6 and here against one server behind all names: what is the same, what is refused,
//! and what differs. `scripts/parity DIR…` starts it, in a network that has nothing but this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use madang_load::{Config, ConfigFile, ExitStatus, Layer, Messages};
use serde_json::{Value, json};

use crate::server::Server;
use crate::{ENGINE_ERRORS, console, differences, exception, found, read};

/// Longest time of a run, in seconds: the iteration may take ten, and what comes before and after it as well.
const LIMIT: &str = "25";

const JSLIB: &str = "https://jslib.k6.io/";

/// What a child does, by variables.
const CHILD: &str = "MADANG_PARITY_CHILD";

enum Verdict {
    /// By k6, so that there is nothing to compare.
    NotRun(String),
    Same,
    Refused(String),
    /// As docs/LOAD.md says, and only so.
    Documented(&'static str),
    Different(String),
}

#[test]
fn third_party_scripts_do_what_they_do_in_k6() {
    let Some(directories) = std::env::var_os("MADANG_SCRIPTS") else { return };
    let k6 = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/bin/k6"));
    assert!(k6.exists(), "no {}: scripts/setup drills", k6.display());
    let mut verdicts = BTreeMap::new();
    for directory in std::env::split_paths(&directories) {
        let copies = tempfile::tempdir().unwrap();
        let (for_k6, for_madang) = (copies.path().join("k6"), copies.path().join("madang"));
        for copy in [&for_k6, &for_madang] {
            // Scripts of Go's cache may not be written, and nothing may be written through a link.
            let arguments = ["-rL", "--no-preserve=mode"];
            let copied = Command::new("cp").args(arguments).arg(&directory).arg(copy).status();
            if !copied.unwrap().success() {
                // It copies what it can; a link that leads nowhere, or into itself, is no script.
                println!("not all of {} could be copied", directory.display());
            }
            assert!(copy.is_dir(), "{} cannot be copied", directory.display());
        }
        for script in scripts(&for_k6) {
            use_originals(&script);
        }
        for script in scripts(&for_madang) {
            let name = script.strip_prefix(&for_madang).unwrap();
            let verdict = judge(k6, &for_k6.join(name), &script);
            let (word, why) = match &verdict {
                Verdict::NotRun(why) => ("k6 could not run it", why.as_str()),
                Verdict::Same => ("same", ""),
                Verdict::Refused(why) => ("refused by name", why.as_str()),
                Verdict::Documented(why) => ("different as documented", *why),
                Verdict::Different(why) => ("DIFFERENT", why.as_str()),
            };
            println!("{word}: {} {why}", name.display());
            verdicts.insert(directory.join(name), verdict);
        }
    }
    let count = |is: fn(&Verdict) -> bool| verdicts.values().filter(|one| is(one)).count();
    let not_run = count(|one| matches!(one, Verdict::NotRun(_)));
    let ran = verdicts.len() - not_run;
    let share = |count: usize| 100.0 * count as f64 / ran.max(1) as f64;
    let same = count(|one| matches!(one, Verdict::Same));
    let refused = count(|one| matches!(one, Verdict::Refused(_)));
    let documented = count(|one| matches!(one, Verdict::Documented(_)));
    let different = count(|one| matches!(one, Verdict::Different(_)));
    println!(
        "\n{} scripts; k6 could not run {not_run}. Of the other {ran}: same {same} ({:.1} %), \
         refused by name {refused} \
         ({:.1} %), different as documented {documented} ({:.1} %), \
         otherwise different {different} ({:.1} %)",
        verdicts.len(),
        share(same),
        share(refused),
        share(documented),
        share(different),
    );
    assert!(different == 0, "{different} of {ran} scripts are different");
}

/// All files below this one that a script could be, by the alphabet.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<PathBuf> = entries
        // Of a link this is the link's own: one into a directory may lead in a circle.
        .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path()),
            false => vec![entry.path()],
        })
        .filter(|path| {
            path.extension().is_some_and(|kind| ["js", "ts", "mjs"].iter().any(|one| kind == *one))
        })
        .collect();
    files.sort();
    files
}

/// Those of them that k6 could be given: what others import has no iteration of its own.
fn scripts(directory: &Path) -> Vec<PathBuf> {
    let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let is_script = |path: &PathBuf| {
        let text = text(path);
        text.contains("export default")
            || text.contains("exports.default")
            || text.contains("scenarios")
    };
    files(directory).into_iter().filter(is_script).collect()
}

/// k6 would fetch the libraries of jslib.k6.io.
fn use_originals(script: &Path) {
    let (Some(originals), Ok(mut text)) = (crate::originals(), std::fs::read_to_string(script))
    else {
        return;
    };
    let (mut from, mut changed) = (0, false);
    while let Some(at) = text[from..].find(JSLIB).map(|at| from + at) {
        let end = text[at..].find(['\'', '"']).map_or(text.len(), |length| at + length);
        let name = text[at + JSLIB.len()..end].split('/').next().unwrap_or_default();
        let file = originals.join(format!("{name}.js"));
        if file.exists() {
            text.replace_range(at..end, file.to_str().unwrap());
            changed = true;
        }
        from = at + 1;
    }
    if changed {
        std::fs::write(script, text).unwrap();
    }
}

fn judge(k6: &Path, for_k6: &Path, for_madang: &Path) -> Verdict {
    let run_k6 = || {
        run(for_k6, |server, work| {
            let mut command = Command::new("timeout");
            command
                .args(["-k", "1", LIMIT])
                .arg(k6)
                .args([
                    "run", "--quiet", "--no-color", "--no-usage-report", "--address", "127.0.0.1:0",
                ])
                .args(["--user-agent", "k6", "-u", "1", "-i", "1", "-d", "10s"])
                .arg("--config")
                .arg(options(for_k6, server, work))
                .arg("--summary-export")
                .arg(work.join("export.json"))
                .arg(for_k6);
            let ran = command.current_dir(work).env("NO_COLOR", "1").output().unwrap();
            let messages = String::from_utf8_lossy(&ran.stderr).into_owned();
            (ran.status.code().unwrap_or(-1), messages)
        })
    };
    let (first, messages) = run_k6();
    if !matches!(first["exit_code"].as_i64(), Some(0 | 99 | 108 | 110)) {
        let last = messages.lines().find(|line| line.contains("level=error")).unwrap_or_default();
        return Verdict::NotRun(format!("({}) {last}", first["exit_code"]));
    }
    // The only iteration: what comes after the exception was not compared.
    let of_iteration = |line: &&str| line.contains(" executor=") && exception(line).is_some();
    if let Some(thrown) = messages.lines().find(of_iteration) {
        return Verdict::NotRun(format!("(it throws) {thrown}"));
    }
    let (here, messages) = run(for_madang, |server, work| {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "1", LIMIT])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "third_party::one_script", "--nocapture"])
            .env(CHILD, for_madang)
            .env("MADANG_PARITY_OPTIONS", options(for_madang, server, work));
        let ran = command.current_dir(work).output().unwrap();
        let told = read(&work.join("told.json")).unwrap_or_else(
            || json!({ "code": -1, "messages": [String::from_utf8_lossy(&ran.stderr)] }),
        );
        let messages: Vec<_> =
            told["messages"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        (told["code"].as_i64().unwrap() as i32, messages.join("\n"))
    });
    let refusal = |line: &&str| {
        console(line).is_none() && (line.contains("not supported") || line.contains("is refused"))
    };
    if here["exit_code"] == ExitStatus::InvalidConfig.code()
        && let Some(refusal) = messages.lines().find(refusal)
    {
        return Verdict::Refused(refusal.to_owned());
    }
    let mut runs = vec![first];
    let differ = |runs: &[Value], ordered: bool| {
        let first = in_order(&runs[0], ordered);
        let mut told = BTreeMap::new();
        differences("", &first, &in_order(&here, ordered), &mut told);
        for again in &runs[1..] {
            let mut of_k6 = BTreeMap::new();
            differences("", &first, &in_order(again, ordered), &mut of_k6);
            // What differs between two runs of k6 says nothing about another engine.
            told.retain(|path, _| !of_k6.contains_key(path));
        }
        told
    };
    // A value of two that is random is often the same a second time.
    for again in (0..9).rev() {
        // Requests of a batch, and messages of promises, have no order.
        if differ(&runs, true).is_empty() || differ(&runs, false).is_empty() {
            return Verdict::Same;
        }
        if again == 0 || documented(&differ(&runs, true)).is_some() {
            break;
        }
        runs.push(run_k6().0);
    }
    let told = differ(&runs, true);
    if let Some(why) = documented(&told) {
        return Verdict::Documented(why);
    }
    let told: String = told.into_values().take(4).collect();
    let errors: String =
        messages.lines().filter(|line| line.contains("level=error")).take(2).collect();
    Verdict::Different(format!("\n  {}\n  {errors}", told.chars().take(2000).collect::<String>()))
}

/// Why it differs, if nothing else does.
fn documented(told: &BTreeMap<String, String>) -> Option<&'static str> {
    let all =
        |known: &dyn Fn(&str, &str) -> bool| told.iter().all(|(path, text)| known(path, text));
    // Such a text may also be the name of a check: then each side has one that the other has not.
    let renamed = |path: &str, [k6, madang]: [&str; 2]| {
        (k6 == "null" || madang == "null")
            && told.iter().any(|(other, text)| {
                other != path && same_exception(path, other) && sides(text) == Some([madang, k6])
            })
    };
    all(&|path, text| {
        sides(text).is_some_and(|both| same_exception(both[0], both[1]) || renamed(path, both))
    })
    .then_some("(the text of an exception)")
}

/// What [`differences`] tells of both, unless these are two lists, one longer than the other.
fn sides(told: &str) -> Option<[&str; 2]> {
    let side = |name: &str| told.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let both = [side("k6:     ")?, side("madang: ")?];
    (!both.iter().all(|side| side.starts_with('['))).then_some(both)
}

/// Whether both are the same up to an error of the same kind that the language's engine has put into words.
fn same_exception(k6: &str, madang: &str) -> bool {
    ENGINE_ERRORS.iter().any(|kind| {
        let before =
            |side: &'_ str| side.find(&format!("{kind}: ")).map(|at| side[..at].to_owned());
        before(k6).is_some() && before(k6) == before(madang)
    })
}

#[test]
fn only_the_engines_own_words_are_documented() {
    let told = |k6: &str, madang: &str| {
        let found = |text: &str| json!({ "console": [text], "checks": { text: [0, 1] } });
        let mut told = BTreeMap::new();
        differences("", &found(k6), &found(madang), &mut told);
        documented(&told)
    };
    let mut lists = BTreeMap::new();
    let line = "msg=\"failed: TypeError: x\"";
    differences("", &json!([line, line]), &json!([line]), &mut lists);
    assert!(documented(&lists).is_none());
    let text = "msg=\"failed: TypeError: Cannot read property 'x' of undefined\"";
    assert!(told(text, "msg=\"failed: TypeError: cannot read property 'x' of null\"").is_some());
    for other in [
        "msg=\"all is well\"",
        "msg=\"failed: Error: TypeError\"",
        "msg=\"failed: ReferenceError: x is not defined\"",
        "msg=\"otherwise: TypeError: cannot read property 'x' of null\"",
    ] {
        assert!(told(text, other).is_none(), "{other}");
        assert!(told(other, text).is_none(), "{other}");
    }
}

#[test]
fn exceptions_are_told_without_the_engines_words() {
    let line = |text: &str, fields: &str| {
        exception(&format!("time=\"2026\" level=error msg={} {fields}", json!(text)))
    };
    let thrown = "executor=shared-iterations scenario=default source=stacktrace";
    let first = |text: &str, fields: &str| line(text, fields).unwrap_or_default();
    assert_eq!(
        first("Error: of \"mine\"\n\tat default (a.js:1:2(3))\n", thrown),
        "Error: of \"mine\""
    );
    assert_eq!(first("TypeError: no x\n\tat default (a.js:1:2(3))\n", thrown), "TypeError: …");
    assert_eq!(first("GoError: EOF\n\tat go.k6.io/k6 (native)\n", thrown), "Error: EOF");
    assert_eq!(first("Uncaught (in promise) Error: late", "executor=x"), "Error: late");
    assert_eq!(first("Error: t\n\tat handleSummary (a.js:1:2(3))\n", ""), "Error: t");
    assert_eq!(first("x\n\tat default (a.js:1:2(3))\n", thrown), first("Uncaught x", thrown));
    assert_eq!(line("some thresholds have failed", ""), None);
    assert_eq!(line("Error: printed\n\tat default (a.js:1:2(3))", "source=console"), None);
}

/// With what has no order sorted, unless the order counts.
fn in_order(found: &Value, ordered: bool) -> Value {
    let mut found = found.clone();
    if !ordered {
        for name in ["requests", "console", "exceptions"] {
            if let Some(list) = found.get_mut(name).and_then(Value::as_array_mut) {
                list.sort_by_key(ToString::to_string);
            }
        }
    }
    found
}

/// What a run did, and its messages.
fn run(script: &Path, start: impl FnOnce(&Server, &Path) -> (i32, String)) -> (Value, String) {
    let work = tempfile::tempdir().unwrap();
    let server = Server::of_anything();
    let (code, messages) = start(&server, work.path());
    let lines: Vec<String> = messages.lines().map(str::to_owned).collect();
    let export = read(&work.path().join("export.json"));
    let mut found = found(&server, code, export.as_ref(), &lines);
    let place = script.parent().unwrap().display().to_string();
    let text = found.to_string().replace(&place, "PLACE");
    found = serde_json::from_str(&text).unwrap();
    (found, messages)
}

/// A file of options: all names that the script has are this server's.
fn options(script: &Path, server: &Server, work: &Path) -> PathBuf {
    let directory = script.parent().unwrap();
    let mut hosts: BTreeMap<String, String> = BTreeMap::new();
    for file in files(directory) {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for (at, _) in text.match_indices("://") {
            let rest = &text[at + 3..];
            let rest = rest
                .rsplit_once('@')
                .filter(|(user, _)| !user.contains(['/', '\'', '"', '`', '\n']))
                .map_or(rest, |(_, rest)| rest);
            let host = rest
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))
                .next()
                .unwrap_or_default();
            // Neither `...` nor what is a number of a port.
            if host.contains(|c: char| c.is_ascii_alphabetic()) && !host.contains("..") {
                hosts.insert(host.to_ascii_lowercase(), server.address());
            }
        }
    }
    // What a variable that is not set comes to.
    hosts.insert("undefined".to_owned(), server.address());
    hosts.insert("localhost".to_owned(), server.address());
    let path = work.join("options.json");
    let document = json!({ "hosts": hosts, "insecureSkipTLSVerify": true });
    std::fs::write(&path, document.to_string()).unwrap();
    path
}

/// The process of one run: a script may write files, and never end.
#[test]
fn one_script() {
    let Some(script) = std::env::var_os(CHILD) else { return };
    let options = PathBuf::from(std::env::var_os("MADANG_PARITY_OPTIONS").unwrap());
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let flags = [("K6_VUS", "1"), ("K6_ITERATIONS", "1"), ("K6_DURATION", "10s")];
    let flag = |name: &str| {
        flags.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let outcome = madang_load::run(&Config {
        script: script.into(),
        defaults: ConfigFile::parse(&std::fs::read_to_string(options).unwrap()).unwrap().options,
        overrides: Layer {
            user_agent: Some("k6".to_owned()),
            ..Layer::from_environment(flag).unwrap()
        },
        environment: std::env::vars().filter(|(name, _)| !name.starts_with("MADANG_")).collect(),
        quiet: true,
        no_color: true,
        summary_export: Some("export.json".into()),
        messages: Messages::Keep(lines.clone()),
        ..Config::default()
    });
    let told = json!({ "code": outcome.status.code(), "messages": *lines.lock().unwrap() });
    std::fs::write("told.json", told.to_string()).unwrap();
}
