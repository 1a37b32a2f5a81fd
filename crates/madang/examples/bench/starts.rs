//! The load engine's clock: how late iterations start at a fixed rate, beside a bare timer loop.

use crate::stats::{median, ratios, spread};
use crate::tools::madang;
use anyhow::{Context as _, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ROUNDS: usize = 3;
const RATE: u64 = 20_000;
const SECONDS: u64 = 4;
const VUS: u64 = 100;

/// 20,000 starts a second on one event loop; before and after it a loop that only sleeps until each
/// moment and reads the clock.
pub fn lag() -> anyhow::Result<String> {
    let work = TempDir::new()?;
    let script = work.path().join("script.js");
    std::fs::write(
        &script,
        format!(
            "export const options = {{ scenarios: {{ s: {{ executor: 'constant-arrival-rate', rate: {RATE}, duration: '{SECONDS}s', preAllocatedVUs: {VUS}, maxVUs: {VUS} }} }} }};\nexport default function () {{}}\n"
        ),
    )?;
    let (mut bare, mut engine) = (Vec::new(), Vec::new());
    let mut dropped = 0;
    for round in 0..=ROUNDS {
        // Both halves of the bare loop are as long together as the engine runs.
        let mut lags = bare_loop(SECONDS * RATE / 2);
        let ours = run(&script, work.path())?;
        lags.extend(bare_loop(SECONDS * RATE / 2));
        lags.sort_unstable();
        // The first round warms up.
        if round > 0 {
            bare.push((quantile(&lags, 0.5), quantile(&lags, 0.99)));
            engine.push((ours.p50, ours.p99));
            dropped += ours.dropped;
        }
    }
    let column = |rows: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        rows.iter().map(of).collect()
    };
    let row = |rows: &[(f64, f64)]| {
        format!("{} | {}", spread(&column(rows, |it| it.0), 3), spread(&column(rows, |it| it.1), 3))
    };
    let (p99, bare_p99) = (column(&engine, |it| it.1), column(&bare, |it| it.1));
    Ok(format!(
        "### Starts by the clock\n\n`constant-arrival-rate`, {RATE} starts/s for {SECONDS} s on one event loop and {VUS} virtual users, an empty iteration; a bare loop (sleep until the moment, read the clock) for 2 s before and after. {ROUNDS} rounds. How late a start is, ms, median (range). Dropped: {dropped}.\n\n| | median | p99 |\n|---|---|---|\n| bare timer loop | {} |\n| madang load | {} |\n| **ratio of p99** | | **{}** |\n\nMedian of the p99: {:.3} ms.\n\n",
        row(&bare),
        row(&engine),
        spread(&ratios(&p99, &bare_p99), 2),
        median(&p99),
    ))
}

/// By how much each of `count` moments was missed.
fn bare_loop(count: u64) -> Vec<Duration> {
    let start = Instant::now() + Duration::from_millis(5);
    (0..count)
        .map(|turn| {
            let due = start + Duration::from_nanos(turn * 1_000_000_000 / RATE);
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                std::thread::sleep(left);
            }
            due.elapsed()
        })
        .collect()
}

/// In milliseconds.
fn quantile(sorted: &[Duration], part: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1) as f64 * part) as usize;
    sorted.get(at).map_or(0.0, |lag| lag.as_secs_f64() * 1e3)
}

struct Lag {
    p50: f64,
    p99: f64,
    dropped: u64,
}

fn run(script: &Path, dir: &Path) -> anyhow::Result<Lag> {
    let report = dir.join("report.json");
    let output = Command::new(madang()?)
        .args(["load", "--quiet", "--no-summary", "--cpus", "1", "--report"])
        .arg(&report)
        .arg(script)
        .output()?;
    ensure!(output.status.success(), "load: {}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&report)?)?;
    let lag = &report["scenarios"]["s"]["open_model"]["start_lag_ms"];
    let figure = |name: &str| lag[name].as_f64().with_context(|| format!("{name} of the lag"));
    let dropped = report["iterations"]["dropped"].as_u64().context("dropped")?;
    let all = lag["count"].as_u64().context("count of the lag")? + dropped;
    ensure!(all == RATE * SECONDS, "{all} iterations instead of {}", RATE * SECONDS);
    Ok(Lag { p50: figure("p50")?, p99: figure("p99")?, dropped })
}
