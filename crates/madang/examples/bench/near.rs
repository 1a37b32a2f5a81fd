//! Nearest first, where many tracks begin on one spot: what a page costs must not grow with their number.

use crate::serving::column;
use crate::stats::{ratios, spread};
use crate::tools::{Served, WrkRun, log_in, madang, wrk};
use anyhow::ensure;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Tracks on the spot, in the small store and in the large one.
const SIZES: [u32; 2] = [1000, 100_000];
const ROUNDS: usize = 5;
const SECONDS: u32 = 2;
const CLIENTS: u32 = 8;

pub fn near() -> anyhow::Result<String> {
    let dirs = [TempDir::new()?, TempDir::new()?];
    let small = filled(dirs[0].path(), SIZES[0])?;
    let large = filled(dirs[1].path(), SIZES[1])?;
    let mut runs: [Vec<WrkRun>; 2] = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (served, runs) in [&small, &large].into_iter().zip(&mut runs) {
            let url = format!("{}/v1/tracks?near=37.5,127.0&limit=20", served.url);
            let run = wrk(&url, CLIENTS, SECONDS, &[], &|| served.process.sample())?;
            ensure!(run.errors == 0.0, "{} errors", run.errors);
            // The first round warms both up.
            if round > 0 {
                runs.push(run);
            }
        }
    }
    let mut out = format!(
        "### Tracks on one spot\n\nThe 20 nearest of so many two-point tracks that all start on the spot that is asked for; never cached. `wrk -t1 -c{CLIENTS} -d{SECONDS}s`, {ROUNDS} rounds in turn. Median (range).\n\n| tracks | requests/s | p50, ms | p99, ms |\n|---|---|---|---|\n"
    );
    for (size, runs) in SIZES.iter().zip(&runs) {
        let row = [column(runs, |r| r.p50_ms), column(runs, |r| r.p99_ms)];
        let rate = spread(&column(runs, |r| r.per_second), 0);
        writeln!(out, "| {size} | {rate} | {} | {} |", spread(&row[0], 2), spread(&row[1], 2))?;
    }
    let p99 = |runs: &[WrkRun]| column(runs, |run| run.p99_ms);
    let ratio = spread(&ratios(&p99(&runs[1]), &p99(&runs[0])), 2);
    writeln!(out, "| **ratio** | | | **{ratio}** |")?;
    Ok(out)
}

/// A server with so many tracks on one spot, uploaded.
fn filled(dir: &Path, tracks: u32) -> anyhow::Result<Served> {
    let data = dir.join("data");
    let seeded = Command::new(madang()?)
        .args(["seed", "--users", "1", "--data"])
        .arg(&data)
        .stdout(Stdio::null())
        .output()?;
    ensure!(seeded.status.success(), "seed: {}", String::from_utf8_lossy(&seeded.stderr));
    let served = Served::start(&data, &[])?;
    let script = dir.join("upload.js");
    std::fs::write(&script, upload_script(&log_in(&served.url, 1)?, tracks))?;
    let loaded = Command::new(madang()?)
        .args(["load", "--quiet", "--env", &format!("BASE_URL={}", served.url)])
        .arg(&script)
        .output()?;
    ensure!(loaded.status.success(), "uploads: {}", String::from_utf8_lossy(&loaded.stdout));
    Ok(served)
}

fn upload_script(token: &str, tracks: u32) -> String {
    format!(
        "import http from 'k6/http';
import exec from 'k6/execution';
import {{ check }} from 'k6';
export const options = {{
  scenarios: {{ u: {{ executor: 'shared-iterations', vus: 32, iterations: {tracks}, maxDuration: '5m' }} }},
  thresholds: {{ checks: ['rate==1'] }},
}};
const headers = {{ 'Content-Type': 'application/json', Authorization: 'Bearer {token}' }};
export default function () {{
  const n = exec.scenario.iterationInTest;
  const segments = [[[37.5, 127.0], [37.5 + n / 1e6, 127.1]]];
  const res = http.post(`${{__ENV.BASE_URL}}/v1/tracks`, JSON.stringify({{ name: `No. ${{n}}`, segments }}), {{ headers }});
  check(res, {{ made: (r) => r.status === 201 }});
}}
"
    )
}
