//! `constant-arrival-rate`: iterations start evenly spaced, however long they take.
//!
//! The i-th start (from 0) is at `i · timeUnit / rate`, before the end of `duration`: `⌈duration · rate / timeUnit⌉`
//! starts. k6 first rounds the distance down to whole nanoseconds (`getTickerPeriod` in `lib/executor/helpers.go`) and
//! may have one start more.

use std::time::Duration;

/// Every `step`-th start, beginning with number `first`.
pub(super) fn starts(
    rate: u32,
    time_unit: Duration,
    duration: Duration,
    first: u64,
    step: u64,
) -> impl Iterator<Item = Duration> {
    let (unit, rate) = (time_unit.as_nanos(), u128::from(rate.max(1)));
    (0u64..)
        .map(move |turn| u128::from(first + turn * step) * unit / rate)
        .map(|nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
        .take_while(move |start| *start < duration)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn starts_are_evenly_spaced_from_the_beginning() {
        let starts: Vec<Duration> = starts(4, SECOND, SECOND, 0, 1).collect();
        assert_eq!(starts, [0, 250, 500, 750].map(Duration::from_millis));
    }

    #[test]
    fn a_rate_that_divides_no_second_does_not_drift() {
        let starts: Vec<Duration> = starts(3, SECOND, SECOND * 1000, 0, 1).collect();
        assert_eq!(starts.len(), 3000);
        assert_eq!(starts[1], Duration::from_nanos(333_333_333));
        assert_eq!(starts[2999], Duration::from_nanos(999_666_666_666));
    }

    #[test]
    fn a_rate_per_minute_is_spread_over_the_minute() {
        let minute = SECOND * 60;
        let starts: Vec<Duration> = starts(90, minute, SECOND * 2, 0, 1).collect();
        assert_eq!(starts, [0, 666_666_666, 1_333_333_333].map(Duration::from_nanos));
    }

    proptest! {
        #[test]
        fn the_parts_of_several_event_loops_are_the_whole(
            rate in 1u32..5000, unit_ms in 1u64..3000, duration_ms in 1u64..400, loops in 1u64..5,
        ) {
            let (unit, duration) = (Duration::from_millis(unit_ms), Duration::from_millis(duration_ms));
            let whole: Vec<Duration> = starts(rate, unit, duration, 0, 1).collect();
            let mut parts: Vec<Duration> =
                (0..loops).flat_map(|first| starts(rate, unit, duration, first, loops)).collect();
            parts.sort();
            prop_assert_eq!(&parts, &whole);
            let expected = (u128::from(duration_ms) * u128::from(rate)).div_ceil(u128::from(unit_ms));
            prop_assert_eq!(whole.len() as u128, expected);
        }
    }
}
