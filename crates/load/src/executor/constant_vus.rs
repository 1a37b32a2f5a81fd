//! `constant-vus`: a fixed number of virtual users for a fixed time.

use std::time::Duration;

use super::Span;

/// All virtual users are active from the start to `duration`.
pub(super) fn plan(vus: u32, duration: Duration, graceful_stop: Duration) -> Vec<Vec<Span>> {
    let span = Span { start: Duration::ZERO, end: duration, limit: duration + graceful_stop };
    vec![vec![span]; vus as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_iterates_all_the_time() {
        let second = Duration::from_secs;
        let plan = plan(3, second(10), second(30));
        assert_eq!(plan.len(), 3);
        assert!(
            plan.iter()
                .all(|spans| *spans
                    == [Span { start: second(0), end: second(10), limit: second(40) }])
        );
    }
}
