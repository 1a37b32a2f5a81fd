//! What a try is worth: whether it had requests enough to tell, and a server that was warm.

use std::time::Duration;

use crate::load_report::{LoadReport, Step};

use super::goal::{Breach, Goal, Reason};

/// The longest that a try is made to last so that errors can be told.
pub const LONGEST: Duration = Duration::from_secs(60);
/// By how much a warm-up grows when it was too short, and how often it may.
pub const LONGER: u32 = 3;
pub const LENGTHENINGS: u32 = 3;
/// Response times that fall to a smaller part than this fall in earnest.
const FELL: f64 = 0.5;

/// How many requests without an error it takes to say with 95 % confidence that no more than a share
/// `errors` of all fail: 3/errors, the rule of three (Hanley and Lippman-Hand, "If nothing goes wrong, is
/// everything all right?", JAMA 249, 1983). `None` when no number is enough.
pub fn enough(errors: f64) -> Option<u64> {
    (errors > 0.0).then(|| (3.0 / errors).ceil() as u64)
}

/// Whether so many requests tell errors. Where none may fail, no number does, and one that failed is enough.
pub fn tells_errors(errors: f64, requests: u64) -> bool {
    enough(errors).is_none_or(|enough| requests >= enough)
}

/// How long a try has to last to have requests enough, one for each iteration.
pub fn long_enough(errors: f64, rate: u32, usual: Duration) -> Duration {
    let Some(enough) = enough(errors) else { return usual };
    let seconds = (enough as f64 / f64::from(rate.max(1))).ceil();
    Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64())).max(usual)
}

/// Whether a try missed the goal for its response times, or for iterations that could not start, at its
/// beginning only: each third of its time has shorter response times than the one before, and the last ones
/// reach the goal and are less than half of the first. A server beyond its limit gets slower instead, and one
/// bad second in the middle or at the end does not look so.
pub fn was_cold(goal: &Goal, why: &Reason, load: &LoadReport) -> bool {
    let is_time = |breach: &Breach| {
        matches!(breach, Breach::P95 { .. } | Breach::P99 { .. } | Breach::Dropped { .. })
    };
    let Some(series) = &load.series else { return false };
    // A last step that is not whole has what was left over.
    let whole = (load.duration_seconds / f64::from(series.step_seconds.max(1))).floor() as usize;
    let steps = &series.steps[..whole.min(series.steps.len())];
    let third = steps.len() / 3;
    if third == 0 || !why.breaches.iter().all(is_time) {
        return false;
    }
    let slowest = |steps: &[Step]| steps.iter().map(|step| step.p95_ms).fold(0.0, f64::max);
    let fastest = |steps: &[Step]| steps.iter().map(|step| step.p95_ms).fold(f64::MAX, f64::min);
    let (first, last) = (&steps[..third], &steps[steps.len() - third..]);
    let middle = &steps[third..steps.len() - third];
    let limit = goal.p95_ms.into_iter().chain(goal.p99_ms).fold(f64::MAX, f64::min);
    slowest(last) <= limit
        && slowest(last) < fastest(first) * FELL
        && slowest(middle) <= slowest(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::goal::Whose, *};

    const GOAL: Goal = Goal { p95_ms: Some(200.0), p99_ms: None, errors: 0.01, max_dropped: 0.01 };

    fn cold(steps: &[f64], breach: Breach) -> bool {
        let steps: Vec<_> =
            steps.iter().map(|p95| json!({"requests": 9, "good": 9, "p95_ms": p95})).collect();
        let seconds = steps.len() as f64;
        let load: LoadReport = serde_json::from_value(json!({
            "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": seconds,
            "duration_seconds": seconds, "aborted": false,
            "requests": {"total": 10, "good": 10, "failed": 0},
            "bytes": {"sent": 1, "received": 2}, "status_codes": {}, "trends": {},
            "iterations": {"complete": 10, "interrupted": 0, "dropped": 0},
            "series": {"step_seconds": 1, "peak_good_per_second": 9.0, "steps": steps},
            "generator": {"cpu_seconds": 0.0, "cores": 1, "lag_p99_ms": 0.0, "limited": false},
        }))
        .unwrap();
        was_cold(&GOAL, &Reason { whose: Whose::Server, breaches: vec![breach] }, &load)
    }

    /// Tries of a freshly started Java virtual machine, and of the same when it was warm and overloaded.
    #[test]
    fn a_server_that_gets_fast_within_a_try_was_cold_and_one_that_is_overloaded_was_not() {
        let late = || Breach::P95 { ms: Some(900.0) };
        for steps in
            [&[1040.0, 356.0, 7.7][..], &[776.0, 8.1, 4.9], &[900.0, 800.0, 40.0, 9.0, 8.0]]
        {
            assert!(cold(steps, late()), "{steps:?}");
        }
        assert!(cold(&[888.0, 3.4, 4.9], Breach::Dropped { share: 0.02 }));
        for steps in [
            &[744.0, 568.0, 728.0][..],
            &[1104.0, 936.0, 888.0],
            &[100.0, 400.0, 900.0],
            &[30.0, 900.0, 20.0],
            &[30.0, 31.0, 900.0],
            &[230.0, 225.0, 150.0],
            &[900.0, 8.0],
            &[],
        ] {
            assert!(!cold(steps, late()), "{steps:?}");
        }
        assert!(!cold(&[888.0, 3.4, 4.9], Breach::Errors { share: 0.02 }));
    }

    /// Nothing but noise around one value, in any order, seldom looks like a warm-up.
    #[test]
    fn flat_noise_is_not_taken_for_a_warm_up() {
        let mut rng = fastrand::Rng::with_seed(5);
        let seen = (0..2000).filter(|_| {
            let steps: Vec<f64> = (0..5).map(|_| 200.0 * (0.6 * (rng.f64() - 0.5)).exp()).collect();
            cold(&steps, Breach::P95 { ms: Some(210.0) })
        });
        assert!(seen.count() < 20);
    }

    #[test]
    fn the_rule_of_three_says_how_many_requests_tell() {
        assert_eq!((enough(0.01), enough(0.0)), (Some(300), None));
        assert!(tells_errors(0.01, 300) && !tells_errors(0.01, 299) && tells_errors(0.0, 1));
        let usual = Duration::from_secs(5);
        assert_eq!(long_enough(0.01, 20, usual), Duration::from_secs(15));
        assert_eq!(long_enough(0.01, 1, usual), LONGEST);
        assert_eq!(long_enough(0.01, 300, usual), usual);
        assert_eq!(long_enough(0.0, 1, usual), usual);
    }
}
