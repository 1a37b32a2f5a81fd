//! Serving: a cached track against nginx, what each optimisation is worth, connections, footprint.

use crate::stats::{median, ratios, spread};
use crate::tools::{Served, WrkRun, supervisor, wrk};
use anyhow::ensure;
use madang_stack::http::{Url, get};
use madang_stack::nginx::{Nginx, StaticSite};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
/// The bundled trail of 11.7 km.
pub const TRACK: &str = "/v1/tracks/4";

pub fn body(url: &str) -> anyhow::Result<Vec<u8>> {
    let url = Url::parse(url).map_err(|e| anyhow::anyhow!(e))?;
    Ok(get(&url, Duration::from_secs(10))?.body)
}

pub fn column(runs: &[WrkRun], of: fn(&WrkRun) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

/// The cached track at default detail against nginx with the same bytes as a static file.
pub fn cached_against_nginx() -> anyhow::Result<String> {
    let served = Served::demo(&[])?;
    let (config, site) = (TempDir::new()?, TempDir::new()?);
    let bytes = body(&format!("{}{TRACK}", served.url))?;
    std::fs::write(site.path().join("track.json"), &bytes)?;
    let workers = std::thread::available_parallelism()?.get();
    let nginx = Nginx::static_site(
        &supervisor()?,
        config.path(),
        &StaticSite { root: site.path().to_owned(), workers },
    )?;
    let own_sample = || served.process.sample();
    let nginx_sample = || nginx.sample();
    let (mut ours, mut theirs, mut known) = (Vec::new(), Vec::new(), Vec::new());
    let etag = etag(&served.url)?;
    let if_none_match = format!("If-None-Match: {etag}");
    let (mut reads, mut jobs) = (0.0, 0.0);
    for round in 0..=ROUNDS {
        let n = wrk(&format!("{}/track.json", nginx.url()), 64, SECONDS, &[], &nginx_sample)?;
        let m = wrk(&format!("{}{TRACK}", served.url), 64, SECONDS, &[], &own_sample)?;
        let work = (
            served.metric("madang_store_reads_total")?,
            served.metric("madang_compute_jobs_total")?,
        );
        let k =
            wrk(&format!("{}{TRACK}", served.url), 64, SECONDS, &[&if_none_match], &own_sample)?;
        reads += served.metric("madang_store_reads_total")? - work.0;
        jobs += served.metric("madang_compute_jobs_total")? - work.1;
        ensure!(
            n.errors + m.errors + k.errors == 0.0,
            "errors: nginx {}, madang {}, 304 {}",
            n.errors,
            m.errors,
            k.errors
        );
        // The first round warms everything up.
        if round > 0 {
            theirs.push(n);
            ours.push(m);
            known.push(k);
        }
    }
    let rate = |w: &WrkRun| w.per_second;
    let cpu = |w: &WrkRun| w.cpu_us;
    let mut out = format!(
        "### A cached track against nginx\n\n`wrk -t1 -c64 -d{SECONDS}s`, {ROUNDS} rounds in turn, {} bytes, {workers} workers each; nginx serves the same bytes from a file (sendfile, open_file_cache, no log). Median (range).\n\n| | requests/s | server CPU, µs a request | p99, ms |\n|---|---|---|---|\n",
        bytes.len()
    );
    for (name, runs) in
        [("nginx, static file", &theirs), ("madang, cached track", &ours), ("madang, 304", &known)]
    {
        writeln!(
            out,
            "| {name} | {} | {} | {} |",
            spread(&column(runs, rate), 0),
            spread(&column(runs, cpu), 2),
            spread(&column(runs, |w| w.p99_ms), 2)
        )?;
    }
    writeln!(
        out,
        "| **madang / nginx** | **{}** | **{}** | |\n\nDuring all 304 rounds: {reads} store reads, {jobs} compute jobs.\n",
        spread(&ratios(&column(&ours, rate), &column(&theirs, rate)), 2),
        spread(&ratios(&column(&ours, cpu), &column(&theirs, cpu)), 2)
    )?;
    Ok(out)
}

fn etag(base: &str) -> anyhow::Result<String> {
    let output = std::process::Command::new("curl")
        .args(["-sS", "-D", "-", "-o", "/dev/null", &format!("{base}{TRACK}")])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|l| l.strip_prefix("etag: ")).map(|e| e.trim().to_owned());
    line.ok_or_else(|| anyhow::anyhow!("no ETag in the answer"))
}

/// The same track with one optimisation after another switched off.
pub fn settings_off() -> anyhow::Result<String> {
    let variants: [(&str, &[&str]); 6] = [
        ("defaults", &[]),
        ("access log on", &["log.access=stdout"]),
        ("cache off", &["cache.mode=off"]),
        ("cache off, full detail", &["cache.mode=off", "tracks.detail=full"]),
        (
            "cache and compression off, full detail (the documented system's first state)",
            &["cache.mode=off", "tracks.detail=full", "http.compression=off"],
        ),
        (
            "cached full detail (its first step)",
            &["tracks.detail=full", "tracks.cache_from_metres=10000", "http.compression=off"],
        ),
    ];
    let mut out = String::from(
        "### The same track with optimisations off\n\n`wrk -t1 -c64 -d2s`, three rounds in turn, medians.\n\n| settings | requests/s | server CPU, µs a request | p99, ms | memory, MB |\n|---|---|---|---|---|\n",
    );
    let servers = variants
        .iter()
        .map(|(name, settings)| Ok((*name, Served::demo(settings)?, Vec::new())))
        .collect::<anyhow::Result<Vec<_>>>();
    let mut servers = servers?;
    for _ in 0..3 {
        for (_, served, runs) in &mut servers {
            runs.push(wrk(&format!("{}{TRACK}", served.url), 64, 2, &[], &|| {
                served.process.sample()
            })?);
        }
    }
    for (name, served, runs) in &servers {
        let memory = served.process.sample()?.rss_bytes as f64 / 1e6;
        let middle = |of: fn(&WrkRun) -> f64| median(&column(runs, of));
        writeln!(
            out,
            "| {name} | {:.0} | {:.1} | {:.1} | {memory:.0} |",
            middle(|w| w.per_second),
            middle(|w| w.cpu_us),
            middle(|w| w.p99_ms)
        )?;
    }
    out.push('\n');
    Ok(out)
}

/// Memory when idle, time to start and to fill.
pub fn footprint() -> anyhow::Result<String> {
    let dir = TempDir::new()?;
    let started = Instant::now();
    let served = Served::start(dir.path(), &[])?;
    let fill = started.elapsed();
    body(&format!("{}{TRACK}", served.url))?;
    let idle = served.process.sample()?.rss_bytes as f64 / 1e6;
    served.process.stop(Duration::from_secs(10))?;
    let mut ready = Vec::new();
    for _ in 0..9 {
        let started = Instant::now();
        let again = Served::start(dir.path(), &[])?;
        body(&format!("{}/health/ready", again.url))?;
        ready.push(started.elapsed().as_secs_f64() * 1e3);
        again.process.stop(Duration::from_secs(10))?;
    }
    Ok(format!(
        "### Footprint\n\n| | |\n|---|---|\n| memory when idle, demo data | {idle:.1} MB |\n| first start of an empty directory, filled with the demo data | {:.0} ms |\n| start to ready on the filled store, 9 starts | {} ms |\n\n",
        fill.as_secs_f64() * 1e3,
        spread(&ready, 0)
    ))
}

/// Many keep-alive connections.
pub fn connections() -> anyhow::Result<String> {
    const COUNT: u32 = 4000;
    let seconds = 15;
    // All of them come from one address, which may otherwise open 2,500.
    let served = Served::demo(&["guard.exempt=127.0.0.1"])?;
    let run =
        wrk(&format!("{}{TRACK}", served.url), COUNT, seconds, &[], &|| served.process.sample())?;
    let peak = served.process.sample()?.peak_rss_bytes as f64 / 1e6;
    Ok(format!(
        "### {COUNT} keep-alive connections\n\n`wrk -t1 -c{COUNT} -d{seconds}s` on the cached track: {:.0} requests/s, {:.2} µs CPU a request, {} errors, peak memory {peak:.0} MB.\n\n",
        run.per_second, run.cpu_us, run.errors
    ))
}
