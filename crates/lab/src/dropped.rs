//! Iterations that could not start by the clock: whose fault is it?
//!
//! In an open model an iteration is dropped when no virtual user is free: the rate times the time
//! of an iteration is more than there are (Little, "A proof for the queuing formula L = λW", 1961).
//! That is the script's fault when they are busy with something else than waiting for the server,
//! such as `sleep`. When they wait, it may be the server's, or they may just be too few for answers
//! that take their time however few are asked for, as of a server that waits for another. It is the
//! server's when it has no more processor to use, or when most answers take several times as long
//! as the fastest: they queue. It may also have been kept from its processors by others. A
//! generator that is too slow is none of these: it starts late, and says so itself.

use crate::load_report::{Iterations, LoadReport, Part, ScenarioPart};

/// Fewer are no sign of anything: k6 makes virtual users beyond `preAllocatedVUs` one by one and
/// drops what comes meanwhile. The same as `--max-dropped` of `madang limit`.
const SHARE: f64 = 0.01;
/// A server that uses more of its processors than this has none to spare.
const BUSY: f64 = 0.8;
/// The median is this many times the fastest answer, or the mean this many times the median: requests
/// of one kind do not differ so much by themselves.
const QUEUED: f64 = 5.0;
const STALLED: f64 = 2.0;

/// Who is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// The script: its virtual users waited for the server for less than half of their time.
    Script,
    /// They waited for a server that was not busy: there are too few of them, or it waits for
    /// something that is the limit.
    Waiting,
    /// Others on the machine: answers stalled while they used it.
    Others,
    /// The server: it kept them waiting.
    Server,
}

/// What is known of the machine meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// Share of its processors that the server used, from 0 to 1; `None` when nobody looked.
    pub busy: Option<f64>,
    /// Whether other processes or the hypervisor used much of the machine.
    pub disturbed: bool,
}

/// Who it was that more than 1 % of the iterations of any scenario were dropped; of several, the one
/// that stands last in [`Culprit`]. `None` when they were not, and for closed models, in which
/// nothing starts by the clock.
pub fn culprit(load: &LoadReport, around: Circumstances) -> Option<Culprit> {
    let open = load.scenarios.values().filter(|scenario| scenario.open_model.is_some());
    open.filter_map(|scenario| culprit_of(load, scenario, around)).max()
}

fn culprit_of(
    load: &LoadReport,
    scenario: &ScenarioPart,
    around: Circumstances,
) -> Option<Culprit> {
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
    if waited * 2.0 < took {
        return Some(Culprit::Script);
    }
    if around.busy.is_some_and(|share| share > BUSY) {
        return Some(Culprit::Server);
    }
    let Answers { fastest, median, mean } = Answers::of(load, &part);
    let queued = median > QUEUED * fastest;
    Some(if around.disturbed && (queued || mean > STALLED * median) {
        Culprit::Others
    } else if queued {
        Culprit::Server
    } else {
        Culprit::Waiting
    })
}

/// Sums of response times: each request as fast as the fastest of its name, as the median, and as
/// the mean. Requests of different names may differ by themselves.
#[derive(Default)]
struct Answers {
    fastest: f64,
    median: f64,
    mean: f64,
}

impl Answers {
    /// By the names of all requests, which are known over all scenarios only; of reports without, of
    /// the scenario.
    fn of(load: &LoadReport, scenario: &Part) -> Self {
        let own = [scenario];
        let names: Vec<&Part> = load.names.values().collect();
        let parts = if names.is_empty() { &own[..] } else { &names };
        parts.iter().fold(Self::default(), |sum, part| {
            let (count, times) = (part.requests.total as f64, &part.http_req_duration);
            Self {
                fastest: sum.fastest + count * times.min,
                median: sum.median + count * times.p50,
                mean: sum.mean + count * times.avg,
            }
        })
    }
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

    const BUSY: Circumstances = Circumstances { busy: Some(0.9), disturbed: false };
    const IDLE: Circumstances = Circumstances { busy: Some(0.1), disturbed: false };
    const DISTURBED: Circumstances = Circumstances { busy: Some(0.1), disturbed: true };

    fn found(scenarios: &[serde_json::Value]) -> Option<Culprit> {
        found_in(BUSY, scenarios)
    }

    fn found_in(around: Circumstances, scenarios: &[serde_json::Value]) -> Option<Culprit> {
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
        culprit(&serde_json::from_value(load).unwrap(), around)
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

    /// Two virtual users and answers of 30 ms allow 67 iterations a second of 300: with ten, a server that
    /// does nothing but wait would keep up.
    #[test]
    fn a_server_that_is_not_busy_and_answers_evenly_is_not_blamed() {
        let even = scenario(9.0, 50, 100);
        assert_eq!(found_in(IDLE, std::slice::from_ref(&even)), Some(Culprit::Waiting));
        let unknown = Circumstances { busy: None, disturbed: false };
        assert_eq!(found_in(unknown, std::slice::from_ref(&even)), Some(Culprit::Waiting));
        assert_eq!(found_in(DISTURBED, std::slice::from_ref(&even)), Some(Culprit::Waiting));
        let mut queued = even;
        queued["http_req_duration"]["min"] = 1.0.into();
        assert_eq!(found_in(IDLE, std::slice::from_ref(&queued)), Some(Culprit::Server));
        assert_eq!(found_in(unknown, &[queued]), Some(Culprit::Server));
    }

    #[test]
    fn a_server_that_others_kept_from_its_processors_is_not_blamed() {
        let (mut queued, mut stalled) = (scenario(9.0, 50, 100), scenario(9.0, 50, 100));
        queued["http_req_duration"]["min"] = 1.0.into();
        stalled["http_req_duration"]["p50"] = 0.3.into();
        stalled["http_req_duration"]["min"] = 0.1.into();
        for scenario in [queued, stalled] {
            assert_eq!(found_in(DISTURBED, std::slice::from_ref(&scenario)), Some(Culprit::Others));
            let busy = Circumstances { busy: Some(0.9), disturbed: true };
            assert_eq!(found_in(busy, &[scenario]), Some(Culprit::Server));
        }
    }

    #[test]
    fn in_a_closed_model_nothing_starts_by_the_clock() {
        let mut closed = scenario(9.0, 50, 100);
        closed["open_model"] = serde_json::Value::Null;
        assert_eq!(found(&[closed]), None);
    }
}
