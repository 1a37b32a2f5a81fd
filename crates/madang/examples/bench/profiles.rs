//! What optimising across crates gains: the program of `dist` against that of `release`.

use crate::serving::{TRACK, column};
use crate::stats::{ratios, spread};
use crate::tools::{Served, WrkRun, madang, wrk};
use anyhow::{Context as _, ensure};
use std::fmt::Write as _;
use std::path::PathBuf;

const ROUNDS: usize = 5;
const SECONDS: u32 = 3;

/// The program of the other profile, where cargo puts it.
fn release() -> anyhow::Result<PathBuf> {
    let own = madang()?;
    let file = own.parent().and_then(|dir| dir.parent()).map(|dir| dir.join("release/madang"));
    file.filter(|file| file.is_file()).context("no release/madang: cargo build --release -p madang")
}

pub fn dist_against_release() -> anyhow::Result<String> {
    let files = [release()?, madang()?];
    let mut runs: [Vec<WrkRun>; 2] = [Vec::new(), Vec::new()];
    let served = [Served::demo_of(&files[0])?, Served::demo_of(&files[1])?];
    for round in 0..=ROUNDS {
        for (at, one) in served.iter().enumerate() {
            let sample = || one.process.sample();
            let run = wrk(&format!("{}{TRACK}", one.url), 64, SECONDS, &[], &sample)?;
            ensure!(run.errors == 0.0, "{} errors", run.errors);
            // The first round warms both up.
            if round > 0 {
                runs[at].push(run);
            }
        }
    }
    let mut out = format!(
        "### What optimising across crates gains\n\nThe same cached track from the programs of both profiles, `wrk -t1 -c64 -d{SECONDS}s`, {ROUNDS} rounds in turn. Median (range).\n\n| profile | MB | requests/s | server CPU, µs a request |\n|---|---|---|---|\n"
    );
    let rate = |runs: &[WrkRun]| column(runs, |run| run.per_second);
    let cpu = |runs: &[WrkRun]| column(runs, |run| run.cpu_us);
    for (at, name) in ["`release`", "`dist` (LTO)"].into_iter().enumerate() {
        let size = std::fs::metadata(&files[at])?.len() as f64 / 1e6;
        let (rate, cpu) = (spread(&rate(&runs[at]), 0), spread(&cpu(&runs[at]), 2));
        writeln!(out, "| {name} | {size:.0} | {rate} | {cpu} |")?;
    }
    writeln!(
        out,
        "| **dist / release** | | **{}** | **{}** |",
        spread(&ratios(&rate(&runs[1]), &rate(&runs[0])), 2),
        spread(&ratios(&cpu(&runs[1]), &cpu(&runs[0])), 2)
    )?;
    Ok(out)
}
