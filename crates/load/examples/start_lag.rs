//! How late iterations start at a fixed rate, beside how late a bare timer loop is on the same
//! machine in the same minute:
//!
//! ```text
//! cargo run --release -p madang-load --example start_lag -- [RATE SECONDS VUS [URL]]
//! ```
//!
//! One event loop; defaults: 20,000 starts per second for 5 s on 100 virtual users. With a URL every
//! iteration makes a request. The bare loop only sleeps until each moment and reads the clock.

use std::time::{Duration, Instant};

use madang_load::{Config, Messages, run};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (rate, seconds, vus) = (number(0, 20_000), number(1, 5), number(2, 100));
    bare_loop(rate, seconds);
    engine(rate, seconds, vus, arguments.get(3).map(String::as_str));
    bare_loop(rate, seconds);
}

fn bare_loop(rate: u64, seconds: u64) {
    let start = Instant::now() + Duration::from_millis(5);
    let mut lags: Vec<Duration> = (0..rate * seconds)
        .map(|turn| {
            let due = start + Duration::from_nanos(turn * 1_000_000_000 / rate);
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                std::thread::sleep(left);
            }
            due.elapsed()
        })
        .collect();
    lags.sort_unstable();
    let at = |part: f64| lags[((lags.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "bare timer loop: {} starts, lag p50={:.3}ms p99={:.3}ms max={:.3}ms",
        lags.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn engine(rate: u64, seconds: u64, vus: u64, url: Option<&str>) {
    let body = url.map_or(String::new(), |url| format!("http.get('{url}')"));
    let script = format!(
        "import http from 'k6/http';
         export const options = {{ discardResponseBodies: true, scenarios: {{ s: {{
            executor: 'constant-arrival-rate', rate: {rate}, duration: '{seconds}s',
            preAllocatedVUs: {vus}, maxVUs: {vus} }} }} }};
         export default function () {{ {body} }}"
    );
    let path = std::env::temp_dir().join(format!("start-lag-{}.js", std::process::id()));
    if let Err(error) = std::fs::write(&path, script) {
        eprintln!("{}: {error}", path.display());
        return;
    }
    let config = Config {
        script: path.clone(),
        quiet: true,
        no_summary: true,
        event_loops: Some(1),
        messages: Messages::Stderr,
        ..Config::default()
    };
    let outcome = run(&config);
    let _ = std::fs::remove_file(path);
    let Some(report) = outcome.report else { return };
    let Some(open) = report.scenarios["s"].open_model else { return };
    println!(
        "engine: {} starts, {} dropped, lag p50={:.3}ms p99={:.3}ms max={:.3}ms, {:.1}µs of processor time each, loop busy {:.0}%",
        open.start_lag_ms.count,
        report.iterations.dropped,
        open.start_lag_ms.p50,
        open.start_lag_ms.p99,
        open.start_lag_ms.max,
        report.generator.cpu_seconds * 1e6 / open.start_lag_ms.count.max(1) as f64,
        report.generator.busiest_loop * 100.0
    );
}
