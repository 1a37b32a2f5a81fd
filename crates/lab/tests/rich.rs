//! Runs with every part of a report: real ones, and one of the largest size, made of a real one.

use std::fs;
use std::path::{Path, PathBuf};

use madang_lab::{Options, Report};
use serde_json::{Value, json};

use crate::help::{FIXTURE, Lab, two};

/// A name that is a tag unless it is escaped. Endpoints can have it, variants cannot.
pub const HOSTILE: &str = "/<img src=x onerror=alert(1)>";
/// Texts of a Korean experiment.
pub const QUESTION: &str = "어느 쪽이 더 빠를까요?";

/// A run of two blocks with a refused round, a broken round, an invariant that held, two that did not, predictions of
/// each kind, costs, a budget that cannot be applied, observed series, one of them missing, and an action.
pub fn run(options: &Options) -> (Lab, Report) {
    let drain = [FIXTURE, "sql", "insert into rows values (3)"];
    let once = "test -e once || { touch once; exit 3; }";
    let rest = format!(
        r#"
[data]
sql = "create table rows (n); insert into rows values (1), (2)"
[hooks]
drain = {drain:?}
reset = ["sh", "-c", "{once}"]
[[hooks.during]]
at = "100ms"
command = ["touch", "seen"]
[values.requests]
metrics = "requests_total{{kind=\"any\"}}"
[observe]
metrics = ["requests_total", "absent_total"]
load = ["http_reqs.rate"]
[[invariants]]
name = "행 수가 늘어난다"
sql = "select count(*) from rows"
at_least = "before"
[[invariants]]
name = "행 수가 그대로다"
sql = "select count(*) from rows"
at_most = "max(0, before)"
[[invariants]]
name = "값이 정확하다"
value = "1 + 1 + 0 * load.http_reqs"
equals = 3
[[prediction]]
metric = "http_req_duration.p50"
variant = "fast"
ratio_at_most = 0.9
[[prediction]]
metric = "peak_rss"
variant = "fast"
difference_below = 0.5
[[prediction]]
metric = "cpu_per_good_request"
variant = "slow"
at_most = 1
[[prediction]]
metric = "goodput"
variant = "fast"
ratio_at_least = 1
[[prediction]]
metric = "absent_total"
variant = "fast"
at_least = 1
"#
    );
    let slow = "serve = { delay_ms = 3, refuse_every = 5 }\nprice_per_hour = 0.36";
    let fast = "serve = { delay_ms = 1 }\nload_env = { WEIGHT = \"7\" }";
    let text = two(slow, fast, 2, &rest).replace("Which is faster?", QUESTION);
    let (head, tail) = text.split_once("prediction = {").unwrap();
    let (_, tail) = tail.split_once('\n').unwrap();
    let script = "get until seen limited unless flag new Counter('created') __ENV.WEIGHT";
    let lab = Lab::new(script, &format!("{head}{tail}"));
    let report = lab.run_with(options);
    (lab, report)
}

/// A results directory with four variants and twenty blocks, made of a run of [`two`] with one block: its rounds are
/// repeated with small changes and everything that a real generator reports.
pub fn large(lab: &Lab) -> PathBuf {
    lab.run();
    let dir = lab.path().join("large");
    fs::create_dir(&dir).unwrap();
    let run = fs::read_to_string(lab.out().join("run.json")).unwrap();
    let more = "\\n[variants.third]\\nserve = {}\\n[variants.fourth]\\nserve = {}\\n[rounds]\\nblocks = 20";
    let run =
        run.replace("\\n[rounds]\\nblocks = 1", more).replace("\"blocks\": 1", "\"blocks\": 20");
    fs::write(dir.join("run.json"), run).unwrap();
    let journal = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    let first: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let mut text = String::new();
    for block in 1..=20_u32 {
        for (place, variant) in ["slow", "fast", "third", "fourth"].into_iter().enumerate() {
            let mut round = first.clone();
            round["block"] = block.into();
            round["variant"] = variant.into();
            round.as_object_mut().unwrap().remove("refused");
            let wave = f64::from(block * 7 % 11) / 100.0;
            embellish(&mut round["measured"], [1.0, 0.5, 1.01, 1.2][place] * (1.0 + wave));
            // Cores of varying speed, always slow under the fourth.
            let pace =
                f64::from(40 + (block * 5 + place as u32 * 3) % 13 + 20 * (place as u32 / 3));
            let machine = &mut round["measured"]["machine"];
            machine["pace"] = json!({"work_us": pace, "samples": 2400});
            machine["others"] = json!([{"name": "updatedb", "cores": 0.4}]);
            text += &format!("{round}\n");
        }
    }
    fs::write(dir.join("rounds.jsonl"), text).unwrap();
    dir
}

/// The first rounds of a stored run with every warning, as if the run had been killed then.
pub fn doubtful(dir: &Path, rounds: usize) {
    let path = dir.join("rounds.jsonl");
    let journal = fs::read_to_string(&path).unwrap();
    let mut text = String::new();
    for line in journal.lines().take(rounds) {
        let mut round: Value = serde_json::from_str(line).unwrap();
        round["measured"]["warnings"] = json!([
            "generator_limited", "steal", "foreign_cpu", "bad_requests", "thresholds",
            "unclean_stop", "shared_core", "shared_cpus", "left_files", "no_budget", "dropped",
            "exceptions", "failed_checks"
        ]);
        round["measured"]["cpus"] = json!({"server": null, "generator": "1"});
        if text.is_empty() {
            let mut refused = round.clone();
            refused["refused"] = json!(["steal"]);
            text += &format!("{refused}\n");
        }
        text += &format!("{round}\n");
    }
    fs::write(&path, text).unwrap();
    let path = dir.join("run.json");
    let mut run: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    (run["finished"], run["ended"]) = (Value::Null, Value::Null);
    run["resumed"] = json!(["2026-11-22T00:00:00Z"]);
    fs::write(&path, run.to_string()).unwrap();
}

fn embellish(measured: &mut Value, factor: f64) {
    let trend = json!({"count": 1000, "avg": 12.0 * factor, "min": 0.4, "max": 240.0 * factor,
        "stddev": 5.0, "p50": 10.0 * factor, "p90": 25.0 * factor, "p95": 40.0 * factor,
        "p99": 120.0 * factor});
    let part = |share: f64| {
        json!({"requests": {"total": (1000.0 * share) as u64, "good": (990.0 * share) as u64,
                            "failed": (10.0 * share) as u64}, "http_req_duration": trend})
    };
    let mut spike = part(0.2);
    spike["open_model"] = json!({"http_req_response_ms": trend});
    let steps: Vec<Value> = (0..60)
        .map(|second| json!({"requests": 1000, "good": 990 - second, "p95_ms": 40.0 * factor}))
        .collect();
    let server: Vec<Value> = (0..60)
        .map(
            |second| json!({"cpu_cores": 0.8 * factor, "rss_bytes": 30_000_000 + second * 100_000}),
        )
        .collect();
    let load = &mut measured["load"];
    load["duration_seconds"] = 60.0.into();
    load["requests"] = json!({"total": 60_000, "good": 59_900, "failed": 100});
    load["requests"]["unanswered"] = 3.into();
    load["arrivals_seconds"] = 1.0.into();
    load["iterations"]["threw"] = 2.into();
    load["overall"] = json!({
        "created": {"type": "counter", "count": 9.0},
        "checks": {"type": "rate", "passes": 9, "fails": 1},
        "http_req_duration": {"type": "trend", "count": 10},
    });
    load["failures"] = json!([{"message": "EOF", "count": 10}]);
    load["exceptions"] = json!([{"message": "TypeError: x", "count": 2}]);
    load["status_codes"] = json!({"200": 59_900, "503": 90, "0": 10});
    load["trends"]["http_req_duration"] = trend.clone();
    load["names"] = json!({HOSTILE: part(0.5), "/v1/tracks": part(0.5)});
    load["groups"] = json!({"": part(0.3), "::browse": part(0.7)});
    load["scenarios"] = json!({"main": part(0.8), "spike": spike});
    load["series"] = json!({"step_seconds": 1, "peak_good_per_second": 1200.0, "steps": steps});
    load["checks"] = json!([{"group": "::browse", "name": "ok", "passes": 9, "fails": 1}]);
    load["metrics"]["checks{scenario:main}"] =
        json!({"type": "rate", "rate": 0.9, "passes": 9, "fails": 1});
    measured["server"]["steps"] = server.into();
    measured["server"]["cpu_seconds"] = (48.0 * factor).into();
    let grows: Vec<f64> = (0..60).map(|second| f64::from(second) * 900.0 * factor).collect();
    let stays: Vec<f64> = (0..60).map(|second| f64::from(second % 7) * factor).collect();
    measured["observed"] = json!([
        {"series": "requests_total{kind=\"any\"}", "change": 54_000, "steps": grows},
        {"series": "in_flight", "change": 0, "steps": stays},
        {"series": "absent_total", "change": null},
    ]);
}
