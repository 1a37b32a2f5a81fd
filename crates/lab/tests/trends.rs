//! Rounds with values that change.

use madang_lab::Report;
use serde_json::{Value, json};

use crate::help::{Lab, stored, two};

const SECONDS: u32 = 12;

/// Each second of a round: requests, p95 in ms, cores, MiB.
type Second = (f64, f64, f64, f64);

/// Six blocks of two variants, the second like that and the first constant, both with noise of about ten percent.
/// `is_open` for an open model.
fn report(is_open: bool, second: impl Fn(f64) -> Second) -> Report {
    let lab = Lab::new("get", &two("serve = {}", "serve = {}", 1, ""));
    lab.run();
    let report = stored(&lab, 6, |block, variant, measured| {
        let mut rng = fastrand::Rng::with_seed(u64::from(block) + variant.len() as u64 * 100);
        let mut seconds = Vec::new();
        let mut server = Vec::new();
        for at in 0..SECONDS {
            let at = if variant == "fast" { f64::from(at) / f64::from(SECONDS) } else { 0.5 };
            let (requests, p95, cores, memory) = second(at);
            let mut noise = |value: f64| value * (0.85 + 0.3 * rng.f64());
            seconds.push(json!({"requests": noise(requests) as u64, "good": 1, "p95_ms": noise(p95)}));
            server.push(json!({"cpu_cores": noise(cores), "rss_bytes": (memory * 1e6) as u64}));
        }
        // An incomplete second.
        seconds.push(json!({"requests": 1, "good": 1, "p95_ms": 900.0}));
        server.push(json!({"cpu_cores": 0.9, "rss_bytes": 900_000_000}));
        let load = &mut measured["load"];
        load["duration_seconds"] = (f64::from(SECONDS) + 0.2).into();
        load["series"] = json!({"step_seconds": 1, "peak_good_per_second": 1.0, "steps": seconds});
        if is_open {
            let trend = load["trends"]["http_req_duration"].clone();
            load["scenarios"] = json!({"only": {"open_model": {"http_req_response_ms": trend}}});
        }
        measured["server"]["cpu_seconds"] = 1.0.into();
        measured["server"]["steps"] = Value::Array(server);
    });
    report.report()
}

fn said(report: &Report) -> Vec<&str> {
    let lines = report.warnings.iter().map(String::as_str);
    lines.filter(|line| line.contains("within the rounds")).collect()
}

#[test]
fn a_variant_that_is_still_warming_up_is_told_with_what_helps() {
    let cold = |at: f64| (200.0, 40.0 * (-3.0 * at).exp(), 0.8 * (-3.0 * at).exp(), 60.0);
    let report = report(true, cold);
    let lines = said(&report);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let [times, cpu] = [lines[0], lines[1]];
    assert!(times.starts_with("response times (p95) of `fast` still fell"), "{times}");
    assert!(times.contains("6 of 6 rounds") && times.contains("longer `warm_up`"), "{times}");
    assert!(cpu.starts_with("server CPU per request of `fast` still fell"), "{cpu}");
}

#[test]
fn what_grows_is_told_to_depend_on_the_length_of_the_round() {
    let leak = |at: f64| (200.0, 20.0 + 40.0 * at, 0.5, 100.0 + 300.0 * at);
    let report = report(true, leak);
    let lines = said(&report);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("response times (p95) of `fast` rose"), "{lines:?}");
    assert!(lines[1].starts_with("server memory of `fast` rose"), "{lines:?}");
    assert!(lines[1].contains("depend on how long a round is"), "{lines:?}");
}

#[test]
fn virtual_users_that_a_warmer_server_lets_ask_more_are_no_other_load() {
    // 20 users, always waiting.
    let cold = |at: f64| {
        let p95 = 100.0 * (-2.0 * at).exp();
        (20_000.0 / p95, p95, 0.9, 60.0)
    };
    assert_eq!(said(&report(false, cold)).len(), 2);
}

#[test]
fn noise_and_loads_that_change_by_themselves_are_no_trend() {
    assert_eq!(said(&report(true, |_| (200.0, 30.0, 0.5, 80.0))), Vec::<&str>::new());
    assert_eq!(said(&report(false, |_| (200.0, 30.0, 0.5, 80.0))), Vec::<&str>::new());
    // A growing rate, and with it times, memory, and the cost of a request.
    let ramp = |at: f64| (100.0 + 400.0 * at, 10.0 + 60.0 * at, 0.2 + 3.0 * at, 50.0 + 200.0 * at);
    assert_eq!(said(&report(true, ramp)), Vec::<&str>::new());
    // More and more virtual users of a saturated server.
    let users = |at: f64| (500.0, 10.0 + 90.0 * at, 0.95, 50.0 + 200.0 * at);
    assert_eq!(said(&report(false, users)), Vec::<&str>::new());
}
