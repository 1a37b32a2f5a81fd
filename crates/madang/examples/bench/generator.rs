//! The load engine against real k6: CPU of the generator for each request, and of scripts that compute.

use crate::stats::{ratios, spread};
use crate::tools::{k6, madang, supervisor, version};
use anyhow::{Context as _, ensure};
use madang_stack::nginx::{Nginx, StaticSite};
use madang_stack::{Output, Spec};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const ROUNDS: usize = 3;
const SCRIPT: &str = "import http from 'k6/http';
import { check } from 'k6';
export const options = { vus: 64, duration: '4s' };
export default function () {
  const res = http.get(`${__ENV.BASE_URL}/index.json`);
  check(res, { 'status is 200': (r) => r.status === 200 });
}
";

const HASHES: u32 = 50_000;

/// A script that computes: what a proof of work in a script costs. Nothing where k6 is not installed.
pub fn hashing() -> anyhow::Result<String> {
    let Some(name) = k6_name() else { return Ok(String::new()) };
    let work = TempDir::new()?;
    let scripts = ["sha", "none"].map(|name| work.path().join(format!("{name}.js")));
    // The same script without the work is what starting costs, and is taken off.
    for (script, count) in scripts.iter().zip([HASHES, 0]) {
        let text = format!(
            "import crypto from 'k6/crypto';\nexport default function () {{\n  let last = '';\n  for (let i = 0; i < {count}; i++) last = crypto.sha256(`message ${{i}}`, 'hex');\n}}\n"
        );
        std::fs::write(script, text)?;
    }
    let own = madang()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let cost = |program: &Path, args: &[&str]| -> anyhow::Result<f64> {
            let [hashing, nothing] = [0, 1].map(|at| cpu(program, args, &scripts[at], work.path()));
            Ok((hashing? - nothing?).max(0.0) * 1e6 / f64::from(HASHES))
        };
        let k = cost(Path::new(&k6()), &["run", "--quiet", "--no-usage-report"])?;
        let m = cost(&own, &["load", "--quiet"])?;
        if round > 0 {
            theirs.push(k);
            ours.push(m);
        }
    }
    Ok(format!(
        "### Hashing in a script\n\n{HASHES} × `crypto.sha256('message …', 'hex')` in one iteration, {ROUNDS} rounds in turn; CPU of the process without that of the same script hashing nothing. Median (range).\n\n| | µs a hash |\n|---|---|\n| {} | {} |\n| madang load | {} |\n| **ratio** | **{}** |\n\n",
        name,
        spread(&theirs, 2),
        spread(&ours, 2),
        spread(&ratios(&ours, &theirs), 2)
    ))
}

/// The same script in both, in turn, against nginx. Nothing where k6 is not installed.
pub fn against_k6() -> anyhow::Result<String> {
    let Some(name) = k6_name() else { return Ok(String::new()) };
    let work = TempDir::new()?;
    let script = work.path().join("script.js");
    std::fs::write(&script, SCRIPT)?;
    let (nginx, _dirs) = small_file(2)?;
    let own = madang()?;
    let (mut ours, mut theirs, mut our_rate, mut their_rate) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let k = run(
            Path::new(&k6()),
            &["run", "--quiet", "--no-usage-report"],
            &script,
            &nginx.url(),
            work.path(),
        )?;
        let m = run(&own, &["load", "--quiet"], &script, &nginx.url(), work.path())?;
        if round > 0 {
            theirs.push(k.0);
            their_rate.push(k.1);
            ours.push(m.0);
            our_rate.push(m.1);
        }
    }
    Ok(format!(
        "### Load engine against k6\n\n`http.get` + `check`, 64 VUs for 4 s against nginx with a small file, {ROUNDS} rounds in turn. CPU is user + system of the generator's process, start included. Median (range).\n\n| | generator CPU, µs a request | requests/s |\n|---|---|---|\n| {} | {} | {} |\n| madang load | {} | {} |\n| **ratio** | **{}** | |\n\n",
        name,
        spread(&theirs, 1),
        spread(&their_rate, 0),
        spread(&ours, 1),
        spread(&our_rate, 0),
        spread(&ratios(&ours, &theirs), 2)
    ))
}

/// Memory of virtual users that make a request, check it and sleep for a second. Nothing where k6 is not installed.
pub fn memory() -> anyhow::Result<String> {
    let Some(name) = k6_name() else { return Ok(String::new()) };
    let work = TempDir::new()?;
    let (nginx, _dirs) = small_file(1)?;
    let own = madang()?;
    let mut rows = String::new();
    for (users, seconds, rounds) in [(1_000, 12, 3), (10_000, 40, 1)] {
        let script = work.path().join("script.js");
        std::fs::write(
            &script,
            SCRIPT
                .replace("{ check }", "{ check, sleep }")
                .replace(
                    "vus: 64, duration: '4s'",
                    &format!("vus: {users}, duration: '{seconds}s'"),
                )
                .replace("200 });\n", "200 });\n  sleep(1);\n"),
        )?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let k6 = k6();
            theirs.push(resident(
                Path::new(&k6),
                &["run", "--quiet", "--no-usage-report"],
                &script,
                &nginx.url(),
            )?);
            ours.push(resident(&own, &["load", "--quiet"], &script, &nginx.url())?);
        }
        rows += &format!(
            "| {users} | {} | {} | **{}** |\n",
            spread(&theirs, 0),
            spread(&ours, 0),
            spread(&ratios(&ours, &theirs), 2)
        );
    }
    Ok(format!(
        "### Memory of virtual users against k6\n\n`http.get`, `check`, `sleep(1)` against nginx with a small file; MB resident: the median of four samples a second in the second half of a run. 3 runs of 12 s in turn with 1,000 virtual users, one of 40 s with 10,000. Median (range).\n\n| virtual users | {name} | madang load | ratio |\n|---|---|---|---|\n{rows}\n"
    ))
}

/// nginx with a small file, and the directories it needs.
fn small_file(workers: usize) -> anyhow::Result<(Nginx, [TempDir; 2])> {
    let (config, site) = (TempDir::new()?, TempDir::new()?);
    std::fs::write(site.path().join("index.json"), r#"{"ok":true}"#)?;
    let root = site.path().to_owned();
    let nginx = Nginx::static_site(&supervisor()?, config.path(), &StaticSite { root, workers })?;
    Ok((nginx, [config, site]))
}

/// Resident megabytes of a run.
fn resident(program: &Path, args: &[&str], script: &Path, url: &str) -> anyhow::Result<f64> {
    let spec = Spec::new(program)
        .args(args)
        .args(["-e", &format!("BASE_URL={url}")])
        .arg(script)
        .stderr(Output::Capture);
    let process = supervisor()?.spawn(&spec)?;
    let mut samples = Vec::new();
    let exit = loop {
        match process.wait(Duration::from_millis(250)) {
            Some(exit) => break exit,
            None => samples.push(process.sample()?.rss_bytes),
        }
    };
    ensure!(exit.is_success(), "{} failed: {}", program.display(), process.stderr_tail());
    let mut late = samples.split_off(samples.len() / 2);
    late.sort_unstable();
    Ok(*late.get(late.len() / 2).context("a run of more than 250 ms")? as f64 / 1e6)
}

/// CPU in µs for each request, and requests each second.
fn run(
    program: &Path,
    args: &[&str],
    script: &Path,
    url: &str,
    dir: &Path,
) -> anyhow::Result<(f64, f64)> {
    let export = dir.join("summary.json");
    let export_and_url = [OsStr::new("--summary-export"), export.as_os_str(), OsStr::new("-e")];
    let url = format!("BASE_URL={url}");
    let mut all: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    all.extend(export_and_url);
    all.push(OsStr::new(&url));
    let cpu = cpu(program, &all, script, dir)?;
    let summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&export)?)?;
    let figure = |name: &str| {
        summary["metrics"]["http_reqs"][name].as_f64().context("http_reqs in the summary")
    };
    Ok((cpu * 1e6 / figure("count")?, figure("rate")?))
}

/// k6 by its name and version, where it is installed.
pub fn k6_name() -> Option<String> {
    let version = version(&k6(), &["version"]);
    let name = version.split(" (").next().unwrap_or("k6").to_owned();
    (!version.contains("not found")).then_some(name)
}

/// Processor time of a run in seconds.
pub fn cpu(
    program: &Path,
    args: &[impl AsRef<OsStr>],
    script: &Path,
    dir: &Path,
) -> anyhow::Result<f64> {
    // bash's `times` line is user and system time of finished children: no other tool is needed.
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg("\"$@\" >/dev/null 2>\"$0\"; code=$?; times; exit $code")
        .arg(dir.join("stderr"));
    command.arg(program).args(args).arg(script);
    let output = command.output().context("bash")?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        program.display(),
        std::fs::read_to_string(dir.join("stderr")).unwrap_or_default()
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let children = text.lines().nth(1).context("times")?;
    Ok(children.split_whitespace().filter_map(minutes).sum())
}

/// `1m2.345s` in seconds.
fn minutes(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
}
