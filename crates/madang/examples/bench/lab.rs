//! The lab's own cost: watching servers in a round, and drawing a report afterwards.

use crate::stats::spread;
use crate::tools::madang;
use anyhow::{Context as _, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const BLOCKS: u64 = 5;
const REPORTS: usize = 5;
/// Four variants that differ, so that nothing is taken for a copy of another.
const EXPERIMENT: &str = r#"name = "lab"
question = "What does watching cost?"
reference = "a"
prediction = { metric = "http_req_duration.avg", variant = "b", ratio_at_most = 2 }
[data]
samples = true
[load]
script = "script.js"
[rounds]
warm_up = "100ms"
accept = ["generator_limited", "steal", "foreign_cpu"]
[observe]
metrics = ["madang_store_reads_total"]
[variants.a]
serve = {}
[variants.b]
serve = { "tracks.detail" = "full" }
[variants.c]
serve = { "http.compression" = "off" }
[variants.d]
serve = { "tracks.detail" = "full", "http.compression" = "off" }
"#;
const SCRIPT: &str = "import http from 'k6/http';
export const options = { scenarios: { s: { executor: 'constant-arrival-rate', rate: 200, duration: '2s', preAllocatedVUs: 20 } } };
export default function () { http.get(`${__ENV.BASE_URL}/v1/tracks`); }
";

/// A comparison of four servers of ours, and its report drawn again.
pub fn cost() -> anyhow::Result<String> {
    let work = TempDir::new()?;
    let (file, results) = (work.path().join("lab.toml"), work.path().join("results"));
    std::fs::write(work.path().join("script.js"), SCRIPT)?;
    std::fs::write(
        &file,
        EXPERIMENT.replace("[rounds]\n", &format!("[rounds]\nblocks = {BLOCKS}\n")),
    )?;
    compare(&[file.as_os_str(), "--out".as_ref(), results.as_os_str()])?;
    let shares = lab_shares(&results)?;
    ensure!(!shares.is_empty(), "no round says what watching cost");

    let mut seconds = Vec::new();
    for _ in 0..REPORTS {
        let begun = Instant::now();
        compare(&["--report".as_ref(), results.as_os_str()])?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    let size = std::fs::metadata(results.join("report.html"))?.len() as f64 / 1e6;
    Ok(format!(
        "### The lab itself\n\n`madang compare` of four servers of ours with demo data, their metrics pages and process trees watched, {BLOCKS} blocks, 200 requests/s for 2 s a round; then `madang compare --report` of the same, {REPORTS} times. Median (range).\n\n| | |\n|---|---|\n| watching, % of one core, {} rounds | {} |\n| drawing its report again ({size:.1} MB of HTML), s | {} |\n\n",
        shares.len(),
        spread(&shares, 2),
        spread(&seconds, 2),
    ))
}

/// Runs `madang compare`; "too noisy to tell" (3) is an answer too.
fn compare(args: &[&std::ffi::OsStr]) -> anyhow::Result<()> {
    let output =
        Command::new(madang()?).arg("compare").args(args).stdout(Stdio::null()).output()?;
    let told = matches!(output.status.code(), Some(0 | 3));
    ensure!(told, "compare: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Processor time of the lab in each round, in per cent of one core.
fn lab_shares(results: &Path) -> anyhow::Result<Vec<f64>> {
    let report = std::fs::read(results.join("report.json")).context("report.json")?;
    let report: serde_json::Value = serde_json::from_slice(&report)?;
    let rounds = report["rounds"].as_array().context("rounds of the report")?;
    Ok(rounds
        .iter()
        .filter_map(|round| round["measured"]["machine"]["lab_cores"].as_f64())
        .map(|cores| cores * 100.0)
        .collect())
}
