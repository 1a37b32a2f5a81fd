//! `ramping-vus`: the number of virtual users changes in stages.

use std::time::Duration;

use super::Span;
use crate::options::Stage;

/// The number of virtual users from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    offset: Duration,
    vus: u32,
}

/// The number of virtual users over time. As in k6 1.8.1 (measured), the k-th of the n virtual users that a stage adds
/// or removes starts or stops after k/n of its duration: the target is reached exactly at its end.
fn steps(start_vus: u32, stages: &[Stage]) -> Vec<Step> {
    let mut steps = vec![Step { offset: Duration::ZERO, vus: start_vus }];
    let (mut offset, mut from) = (Duration::ZERO, start_vus);
    for stage in stages {
        let difference = stage.target.abs_diff(from);
        if stage.duration.is_zero() && difference > 0 {
            steps.push(Step { offset, vus: stage.target });
        } else {
            for k in 1..=difference {
                let vus = if stage.target > from { from + k } else { from - k };
                let within = stage.duration.as_nanos() * u128::from(k) / u128::from(difference);
                let within = Duration::from_nanos(u64::try_from(within).unwrap_or(u64::MAX));
                steps.push(Step { offset: offset + within, vus });
            }
        }
        offset += stage.duration;
        from = stage.target;
    }
    steps
}

/// The spans of every virtual user: the last started is the first released.
pub(super) fn plan(
    start_vus: u32,
    stages: &[Stage],
    graceful_ramp_down: Duration,
    graceful_stop: Duration,
) -> Vec<Vec<Span>> {
    let end: Duration = stages.iter().map(|stage| stage.duration).sum();
    let steps = steps(start_vus, stages);
    let most = steps.iter().map(|step| step.vus).max().unwrap_or(0) as usize;
    let mut users: Vec<Vec<Span>> = vec![Vec::new(); most];
    let mut active: Vec<Duration> = Vec::new();
    let last = end + graceful_stop;
    let release =
        |users: &mut Vec<Vec<Span>>, index: usize, start: Duration, at, limit: Duration| {
            if at > start {
                users[index].push(Span { start, end: at, limit: limit.min(last) });
            }
        };
    for step in steps {
        let wanted = step.vus as usize;
        while active.len() > wanted {
            let start = active.pop().unwrap_or_default();
            // As in k6 also at the end of the last stage.
            let limit = step.offset + graceful_ramp_down;
            release(&mut users, active.len(), start, step.offset, limit);
        }
        active.resize(wanted, step.offset);
    }
    while let Some(start) = active.pop() {
        release(&mut users, active.len(), start, end, last);
    }
    users
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn span(start: u64, end: u64, limit: u64) -> Span {
        let [start, end, limit] = [start, end, limit].map(second);
        Span { start, end, limit }
    }

    fn stage(seconds: u64, target: u32) -> Stage {
        Stage { duration: second(seconds), target }
    }

    #[test]
    fn a_ramp_reaches_its_target_at_its_end_in_both_directions() {
        let steps: Vec<(u64, u32)> = steps(1, &[stage(4, 5), stage(2, 5), stage(4, 1)])
            .iter()
            .map(|step| (step.offset.as_secs(), step.vus))
            .collect();
        assert_eq!(
            steps,
            [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (7, 4), (8, 3), (9, 2), (10, 1)]
        );
    }

    #[test]
    fn the_only_virtual_user_of_a_ramp_to_zero_stays_until_its_end() {
        let plan = plan(0, &[stage(1, 1), stage(2, 0)], second(30), second(30));
        assert_eq!(plan, [[span(1, 3, 33)]]);
    }

    #[test]
    fn a_stage_without_duration_jumps() {
        let plan = plan(0, &[stage(0, 2), stage(3, 2), stage(0, 0)], second(1), second(9));
        assert_eq!(plan, [[span(0, 3, 4)], [span(0, 3, 4)]]);
    }

    #[test]
    fn the_last_one_started_is_released_first_and_may_come_back() {
        let plan = plan(
            1,
            &[stage(0, 2), stage(5, 2), stage(0, 1), stage(5, 1), stage(0, 2), stage(5, 2)],
            second(3),
            second(30),
        );
        assert_eq!(plan[0], [span(0, 15, 45)]);
        assert_eq!(plan[1], [span(0, 5, 8), span(10, 15, 45)]);
    }

    proptest! {
        #[test]
        fn at_any_time_as_many_are_active_as_the_steps_want(
            start in 0u32..6,
            stages in prop::collection::vec((0u64..8, 0u32..8), 1..6),
            at in 0.0f64..1.0,
        ) {
            let stages: Vec<Stage> = stages.into_iter().map(|(s, target)| stage(s, target)).collect();
            let end: Duration = stages.iter().map(|stage| stage.duration).sum();
            prop_assume!(!end.is_zero());
            let at = end.mul_f64(at).min(end - Duration::from_nanos(1));
            let wanted = steps(start, &stages).iter().rev().find(|step| step.offset <= at).unwrap().vus;
            let plan = plan(start, &stages, second(30), second(30));
            let active = plan.iter().flatten().filter(|span| span.start <= at && at < span.end).count();
            prop_assert_eq!(active as u32, wanted);
            for spans in &plan {
                prop_assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
                prop_assert!(spans.iter().all(|span| span.end <= span.limit && span.end <= end));
            }
        }
    }
}
