//! Requests without a response.
//!
//! The end of a run cuts requests off however fast the server is: with 500 virtual users and `gracefulStop: '0s'` about
//! 500. Only one that had waited longer than every response took shows something about the server; this is known after
//! all event loops are merged.

use std::time::Duration;

/// Least wait of an unanswered request when no request has a response. A shorter one may have been sent at the end of a
/// short run.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waiting times of requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits {
    /// From the call to the response, redirects included.
    slowest_answer: Option<Duration>,
    cut_off: Vec<Duration>,
}

impl Waits {
    pub(crate) fn add_answer(&mut self, took: Duration) {
        self.slowest_answer = self.slowest_answer.max(Some(took));
    }

    pub(crate) fn add_cut_off(&mut self, waited: Duration) {
        self.cut_off.push(waited);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.slowest_answer = self.slowest_answer.max(other.slowest_answer);
        self.cut_off.extend(other.cut_off);
    }

    /// Number of requests cut off after a longer wait than any response took.
    pub(crate) fn unanswered(&self) -> u64 {
        let longest = self.slowest_answer.unwrap_or(PATIENCE);
        self.cut_off.iter().filter(|waited| **waited > longest).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(answers: &[u64], cut_off: &[u64]) -> Waits {
        let mut waits = Waits::default();
        answers.iter().for_each(|ms| waits.add_answer(Duration::from_millis(*ms)));
        cut_off.iter().for_each(|ms| waits.add_cut_off(Duration::from_millis(*ms)));
        waits
    }

    #[test]
    fn only_what_waited_longer_than_any_answer_took_is_unanswered() {
        assert_eq!(waits(&[10, 200, 30], &[5, 200, 201, 5000]).unanswered(), 2);
        assert_eq!(waits(&[10], &[]).unanswered(), 0);
    }

    #[test]
    fn without_any_answer_a_second_is_long() {
        assert_eq!(waits(&[], &[999, 1000, 1001]).unanswered(), 1);
    }

    #[test]
    fn the_answers_of_one_loop_tell_about_the_requests_of_another() {
        let mut one = waits(&[10], &[50, 300]);
        one.merge(waits(&[200], &[100, 400]));
        assert_eq!(one.unanswered(), 2);
    }
}
