//! Iterations that could not start by the clock: whose fault is it?
//!
//! In an open model an iteration is dropped when no virtual user is free. That is the server's doing
//! when they wait for its answers, and the script's when they are busy with something else, such as
//! `sleep`, and there are too few of them for the rate. A generator that is too slow is neither: it
//! starts late, and says so itself.

use crate::load_report::{Iterations, LoadReport, ScenarioPart};

/// Fewer are no sign of anything: k6 makes virtual users beyond `preAllocatedVUs` one by one and
/// drops what comes meanwhile. The same as `--max-dropped` of `madang limit`.
const SHARE: f64 = 0.01;

/// Who is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// The script: its virtual users waited for the server for less than half of their time.
    Script,
    /// The server: it kept them waiting.
    Server,
}

/// Who it was that more than 1 % of the iterations of any scenario were dropped; the server when
/// there are scenarios of both kinds. `None` when they were not, and for closed models, in which
/// nothing starts by the clock.
pub fn culprit(load: &LoadReport) -> Option<Culprit> {
    let open = load.scenarios.values().filter(|scenario| scenario.open_model.is_some());
    open.filter_map(|scenario| culprit_of(load, scenario)).max()
}

fn culprit_of(load: &LoadReport, scenario: &ScenarioPart) -> Option<Culprit> {
    let Iterations { complete, interrupted, dropped, .. } = scenario.iterations?;
    let all = complete + interrupted + dropped;
    if dropped as f64 <= SHARE * all as f64 {
        return None;
    }
    // Of iterations that are still going on nothing is known but that they have not ended. None
    // that has: they hang.
    let took = scenario.iteration_duration.map_or(0.0, |trend| trend.avg * trend.count as f64);
    let Some(part) = scenario.part.filter(|_| took > 0.0) else { return Some(Culprit::Server) };
    // A server that does not accept connections keeps waiting, too. Known over all scenarios only.
    let mean = |name: &str| load.trends.get(name).map_or(0.0, |trend| trend.avg);
    let before = ["http_req_blocked", "http_req_connecting", "http_req_tls_handshaking"].map(mean);
    let request = part.http_req_duration.avg + before.iter().sum::<f64>();
    let waited = request * part.requests.total as f64;
    Some(if waited * 2.0 < took { Culprit::Script } else { Culprit::Server })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A scenario of 100 iterations of 10 ms and as many requests of `request_ms`.
    fn scenario(request_ms: f64, dropped: u64, complete: u64) -> serde_json::Value {
        let trend = |avg: f64| {
            json!({"count": complete, "avg": avg, "min": avg, "max": avg, "stddev": 0.0, "p50": avg,
                   "p90": avg, "p95": avg, "p99": avg})
        };
        json!({
            "requests": {"total": complete, "good": complete, "failed": 0},
            "http_req_duration": trend(request_ms),
            "iterations": {"complete": complete, "interrupted": 0, "dropped": dropped},
            "iteration_duration": trend(if complete == 0 { 0.0 } else { 10.0 }),
            "open_model": {"http_req_response_ms": trend(request_ms)},
        })
    }

    fn found(scenarios: &[serde_json::Value]) -> Option<Culprit> {
        let named = scenarios.iter().enumerate().map(|(at, one)| (at.to_string(), one.clone()));
        let load = json!({
            "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": 1.0,
            "duration_seconds": 1.0, "aborted": false,
            "requests": {"total": 100, "good": 100, "failed": 0},
            "bytes": {"sent": 0, "received": 0}, "status_codes": {}, "trends": {},
            "iterations": {"complete": 100, "interrupted": 0, "dropped": 0},
            "scenarios": named.collect::<serde_json::Map<_, _>>(),
            "generator": {"cpu_seconds": 0.0, "cores": 1, "lag_p99_ms": 0.0, "limited": false},
        });
        culprit(&serde_json::from_value(load).unwrap())
    }

    #[test]
    fn virtual_users_that_wait_for_answers_accuse_the_server_and_others_the_script() {
        assert_eq!(found(&[scenario(9.0, 50, 100)]), Some(Culprit::Server));
        assert_eq!(found(&[scenario(1.0, 50, 100)]), Some(Culprit::Script));
        let both = [scenario(9.0, 50, 100), scenario(1.0, 50, 100)];
        assert_eq!(found(&both), Some(Culprit::Server));
    }

    #[test]
    fn one_in_a_hundred_is_no_sign_and_none_that_ends_is_one_of_a_server_that_hangs() {
        assert_eq!(found(&[scenario(9.0, 1, 99)]), None);
        assert_eq!(found(&[scenario(0.0, 100, 0)]), Some(Culprit::Server));
        assert_eq!(found(&[scenario(0.0, 0, 0)]), None);
    }

    #[test]
    fn in_a_closed_model_nothing_starts_by_the_clock() {
        let mut closed = scenario(9.0, 50, 100);
        closed["open_model"] = serde_json::Value::Null;
        assert_eq!(found(&[closed]), None);
    }
}
