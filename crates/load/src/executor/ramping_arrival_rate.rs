//! `ramping-arrival-rate`: iterations start at a rate that changes linearly in every stage.
//!
//! The n-th start (from 1) is where the area under the rate reaches n, as in k6 (`cal` in
//! `lib/executor/ramping_arrival_rate.go`). The fraction of a start at the end of a stage is carried over to the next.
//! The stage of a start is determined with integers, so that no start is lost or doubled where stages meet.

use std::time::Duration;

use crate::options::Stage;

/// Every `step`-th start, beginning with number `first` (from 0).
pub(super) fn starts(
    start_rate: u32,
    time_unit: Duration,
    stages: Vec<Stage>,
    first: u64,
    step: u64,
) -> impl Iterator<Item = Duration> {
    let mut stage = 0;
    let mut from = start_rate;
    let (mut offset, mut before) = (Duration::ZERO, 0u128);
    // Areas in half nanoseconds of a start per unit are integers for integer rates.
    let one = 2 * time_unit.as_nanos();
    (0u64..).map_while(move |turn| {
        let wanted = u128::from(first + turn * step + 1) * one;
        loop {
            let Stage { duration, target } = *stages.get(stage)?;
            let area = duration.as_nanos() * (u128::from(from) + u128::from(target));
            if wanted <= before + area {
                let within = within(from, target, duration, (wanted - before) as f64);
                return Some(offset + within);
            }
            before += area;
            offset += duration;
            from = target;
            stage += 1;
        }
    })
}

/// Time within a stage at which the doubled area under the rate reaches `area`: the positive root of `from·x + (to −
/// from)·x² / 2d = area / 2`, in the form without cancellation for equal rates.
fn within(from: u32, to: u32, duration: Duration, area: f64) -> Duration {
    let (from, to, length) = (f64::from(from), f64::from(to), duration.as_nanos() as f64);
    let root = (from * from + area * (to - from) / length).max(0.0).sqrt();
    let nanos = area / (from + root);
    Duration::from_nanos(nanos as u64).min(duration)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stage(seconds: u64, target: u32) -> Stage {
        Stage { duration: SECOND * seconds as u32, target }
    }

    fn seconds(start_rate: u32, stages: &[Stage]) -> Vec<f64> {
        let starts = starts(start_rate, SECOND, stages.to_vec(), 0, 1);
        starts.map(|start| (start.as_secs_f64() * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn a_level_rate_starts_at_the_end_of_every_interval() {
        assert_eq!(seconds(2, &[stage(2, 2)]), [0.5, 1.0, 1.5, 2.0]);
    }

    #[test]
    fn a_ramp_from_nothing_starts_where_the_area_is_a_whole_number() {
        // The area is t²/2: the n-th start is at √(2n).
        let expected: Vec<f64> =
            (1..=8).map(|n: i32| (f64::from(2 * n).sqrt() * 1e6).round() / 1e6).collect();
        assert_eq!(seconds(0, &[stage(4, 4)]), expected);
    }

    #[test]
    fn a_ramp_down_to_nothing_is_the_ramp_up_in_reverse() {
        let up = seconds(0, &[stage(4, 4)]);
        let down = seconds(4, &[stage(4, 0)]);
        // The area left at t is (4 − t)²/2: the n-th start of 8 is at 4 − √(2(8 − n)).
        for (n, start) in down.iter().enumerate() {
            let left = f64::from(8 - (n as u32 + 1));
            assert!((start - (4.0 - (2.0 * left).sqrt())).abs() < 1e-5, "{n}: {start}");
        }
        assert_eq!(up.len(), down.len());
    }

    #[test]
    fn an_unfinished_start_is_carried_into_the_next_stage() {
        // 0.5 starts per second for 3 s are 1.5 starts: the second one needs another 0.5, which at 1 per second is
        // there after 0.5 s.
        let starts = starts(1, SECOND * 2, vec![stage(3, 1), stage(0, 2), stage(2, 2)], 0, 1);
        let starts: Vec<f64> = starts.map(|start| start.as_secs_f64()).collect();
        assert_eq!(starts, [2.0, 3.5, 4.5]);
    }

    #[test]
    fn a_stage_without_duration_jumps_and_one_at_zero_pauses() {
        let starts = seconds(
            0,
            &[stage(0, 2), stage(1, 2), stage(0, 0), stage(3, 0), stage(0, 1), stage(1, 1)],
        );
        assert_eq!(starts, [0.5, 1.0, 5.0]);
    }

    proptest! {
        #[test]
        fn there_are_as_many_starts_as_the_area_in_order_and_every_loop_has_its_part(
            start_rate in 0u32..40,
            stages in prop::collection::vec((0u64..4, 0u32..40), 1..6),
            loops in 1u64..4,
        ) {
            let stages: Vec<Stage> = stages.into_iter().map(|(s, target)| stage(s, target)).collect();
            let whole: Vec<Duration> = starts(start_rate, SECOND, stages.clone(), 0, 1).collect();
            let (mut twice, mut from) = (0u64, u64::from(start_rate));
            for stage in &stages {
                twice += stage.duration.as_secs() * (from + u64::from(stage.target));
                from = u64::from(stage.target);
            }
            prop_assert_eq!(whole.len() as u64, twice / 2);
            prop_assert!(whole.windows(2).all(|pair| pair[0] <= pair[1]));
            let end: Duration = stages.iter().map(|stage| stage.duration).sum();
            prop_assert!(whole.iter().all(|start| *start <= end));
            let mut parts: Vec<Duration> = (0..loops)
                .flat_map(|first| starts(start_rate, SECOND, stages.clone(), first, loops))
                .collect();
            parts.sort();
            prop_assert_eq!(parts, whole);
        }
    }
}
