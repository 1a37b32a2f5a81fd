//! Search for the highest rate that meets the goal: which rate is tried next, for how long, and when the search is
//! over.
//!
//! It has two stages. *Seeking* approaches the limit with short tries: the rate doubles until it misses the goal,
//! then the gap between the highest rate that met it and the lowest that missed it is halved (at its geometric mean).
//! *Confirming* decides with long tries: a rate is confirmed when [`CONFIRMATIONS`] of them met the goal, and refuted
//! when one missed it. From the end of seeking, the rate rises or falls in small, growing steps until one rate is
//! confirmed and one above it refuted; then this gap is halved. Short tries decide nothing: they cannot detect a
//! slowly growing queue, and with few requests chance is common.
//!
//! Seeking starts low because a server beyond its limit may need long to recover, and because a search from above
//! could find rates beyond the first limit at which a server meets the goal again.

use serde::Serialize;

use super::goal::{Bottleneck, Reason};

/// Number of long tries that have to meet the goal.
pub(crate) const CONFIRMATIONS: u32 = 3;
/// Lowest rate, in iterations per second.
const FLOOR: u32 = 1;
/// Factor of a step while seeking.
const SEEKING_STEP: f64 = 2.0;
/// Precision of seeking as a multiple of the resolution.
const SEEKING_TIMES: f64 = 4.0;

/// Bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    /// Highest rate.
    pub ceiling: u32,
    /// The search ends when the refuted rate exceeds the confirmed one by at most this share, or by 1.
    pub resolution: f64,
}

/// Duration of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Approaches the limit.
    Short,
    /// Confirms or refutes a rate.
    Long,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Iterations per second.
    pub rate: u32,
    pub length: Length,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResult {
    /// Highest confirmed rate, if any.
    pub confirmed: Option<u32>,
    /// Lowest refuted rate; `None` if the ceiling was confirmed.
    pub refuted: Option<u32>,
    /// Reason of the refutation.
    pub why: Option<Reason>,
}

/// State of a search.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    bounds: Bounds,
    /// Highest rate of this stage that met the goal.
    met: Option<u32>,
    /// Lowest rate of this stage that missed it.
    missed: Option<(u32, Reason)>,
    /// Long tries of the next rate that met the goal.
    tries: u32,
    /// Reason of a first short try of the next rate that missed the goal.
    doubt: Option<Reason>,
    step: f64,
    next: Option<Next>,
}

impl Search {
    pub(crate) fn seeking(bounds: Bounds, start: f64) -> Self {
        Self::new(bounds, start, Length::Short)
    }

    /// A search that confirms from a rate near `start`, where another search ended.
    pub(crate) fn confirming(bounds: Bounds, start: f64) -> Self {
        Self::new(bounds, start, Length::Long)
    }

    fn new(bounds: Bounds, start: f64, length: Length) -> Self {
        let rate = whole(start).clamp(FLOOR, bounds.ceiling);
        let step = match length {
            Length::Short => SEEKING_STEP,
            Length::Long => 1.0 + 2.0 * bounds.resolution,
        };
        let next = Some(Next { rate, length });
        Self { bounds, met: None, missed: None, tries: 0, doubt: None, step, next }
    }

    /// The next try; `None` when the search is over.
    pub(crate) fn next(&self) -> Option<Next> {
        self.next
    }

    /// Records the try of [`Self::next`]: the reason for missing the goal, or `None` if it met it.
    pub(crate) fn record(&mut self, missed: Option<Reason>) {
        let Some(Next { rate, length }) = self.next else { return };
        match (missed, length) {
            (None, Length::Short) => {
                self.doubt = None;
                self.met = Some(rate);
            }
            (None, Length::Long) => {
                self.tries += 1;
                if self.tries < CONFIRMATIONS {
                    return;
                }
                self.met = Some(rate);
            }
            // A single short miss may be chance, which would end seeking far below the limit. A generator at its
            // limit has already been observed several times.
            (Some(why), Length::Short)
                if self.doubt.is_none() && why.bottleneck != Bottleneck::Generator =>
            {
                self.doubt = Some(why);
                return;
            }
            (Some(why), _) => {
                // If one of two misses was not the server's, the server's limit is unknown.
                let first = self.doubt.take().filter(|first| !first.is_servers());
                self.missed = Some((rate, first.unwrap_or(why)));
            }
        }
        self.tries = 0;
        self.next = match (self.after(length), length) {
            (None, Length::Short) => Some(self.confirm()),
            (rate, _) => rate.map(|rate| Next { rate, length }),
        };
    }

    /// The result, once the search is over.
    pub(crate) fn result(&self) -> Option<SearchResult> {
        let (refuted, why) = self.missed.clone().unzip();
        // A search without a miss ends at the ceiling.
        let confirmed = self.met.or_else(|| refuted.is_none().then_some(self.bounds.ceiling));
        self.next.is_none().then_some(SearchResult { confirmed, refuted, why })
    }

    /// Begins the second stage at the end of the first. A limit that was not the server's remains, as reaching it
    /// again would take long and show nothing.
    fn confirm(&mut self) -> Next {
        let start = self.met.unwrap_or(FLOOR);
        let missed = self.missed.take().filter(|(_, why)| self.met.is_some() && !why.is_servers());
        *self = Self { missed, ..Self::confirming(self.bounds, f64::from(start)) };
        Next { rate: start, length: Length::Long }
    }

    fn after(&mut self, length: Length) -> Option<u32> {
        let Bounds { ceiling, resolution } = self.bounds;
        let step = self.step;
        match (self.met, self.missed.as_ref().map(|(rate, _)| *rate)) {
            (Some(met), Some(missed)) => {
                let (low, high) = (f64::from(met), f64::from(missed));
                let narrow = match length {
                    Length::Short => resolution * SEEKING_TIMES,
                    Length::Long => resolution,
                };
                let is_over = missed <= met + 1 || high / low <= 1.0 + narrow;
                (!is_over).then(|| whole((low * high).sqrt()).clamp(met + 1, missed - 1))
            }
            (Some(met), None) => {
                self.step = (step * step).min(SEEKING_STEP);
                (met < ceiling).then(|| whole(f64::from(met) * step).max(met + 1).min(ceiling))
            }
            (None, Some(missed)) => {
                self.step = (step * step).min(SEEKING_STEP);
                (missed > FLOOR).then(|| whole(f64::from(missed) / step).min(missed - 1).max(FLOOR))
            }
            (None, None) => None,
        }
    }
}

/// Rounds, saturating.
fn whole(rate: f64) -> u32 {
    rate.round() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::goal::Breach;

    const BOUNDS: Bounds = Bounds { ceiling: 100_000, resolution: 0.025 };

    fn because(bottleneck: Bottleneck) -> Option<Reason> {
        Some(Reason { bottleneck, breaches: vec![Breach::Errors { share: 0.5 }] })
    }

    /// Searches against a simulated server; returns the result and all tries.
    fn search(
        mut search: Search,
        mut server: impl FnMut(Next) -> Option<Reason>,
    ) -> (SearchResult, Vec<Next>) {
        let mut tried = Vec::new();
        while let Some(next) = search.next() {
            assert!(tried.len() < 500, "a search without end: {tried:?}");
            tried.push(next);
            search.record(server(next));
        }
        (search.result().unwrap(), tried)
    }

    fn up_to(limit: u32) -> impl FnMut(Next) -> Option<Reason> {
        move |next| because(Bottleneck::Server).filter(|_| next.rate > limit)
    }

    fn rates(tried: &[Next], length: Length) -> Vec<u32> {
        tried.iter().filter(|next| next.length == length).map(|next| next.rate).collect()
    }

    fn between(found: &SearchResult) -> (u32, u32) {
        found.confirmed.zip(found.refuted).unwrap_or_else(|| panic!("{found:?}"))
    }

    #[test]
    fn short_tries_get_near_and_long_ones_decide() {
        let (found, tried) = search(Search::seeking(BOUNDS, 10.0), up_to(100));
        // √(80·160) = 113, √(80·113) = 95, √(95·113) = 104: 104/95 is within 10 %.
        let near = [10, 20, 40, 80, 160, 160, 113, 113, 95, 104, 104];
        assert_eq!(rates(&tried, Length::Short), near);
        // 95 · 1.05 = 100, 100 · 1.05² = 110, √(100·110) = 105, √(100·105) = 102.
        let decided = [95, 95, 95, 100, 100, 100, 110, 105, 102];
        assert_eq!(rates(&tried, Length::Long), decided);
        assert_eq!(between(&found), (100, 102));
    }

    #[test]
    fn short_tries_that_were_too_good_or_too_bad_are_put_right() {
        for seen in [60, 90, 119, 300] {
            let (found, tried) = search(Search::seeking(BOUNDS, 10.0), |next| match next.length {
                Length::Short => up_to(seen)(next),
                Length::Long => up_to(100)(next),
            });
            let (confirmed, refuted) = between(&found);
            assert!((98..=100).contains(&confirmed) && (101..=103).contains(&refuted), "{found:?}");
            assert!(rates(&tried, Length::Long).len() < 25, "{tried:?}");
        }
    }

    #[test]
    fn a_later_search_confirms_from_where_the_last_one_ended() {
        let (found, tried) = search(Search::confirming(BOUNDS, 99.0), up_to(100));
        assert!(rates(&tried, Length::Short).is_empty());
        assert_eq!(between(&found).0, 99);
    }

    #[test]
    fn a_server_that_serves_nothing_has_no_capacity() {
        let (found, tried) = search(Search::seeking(BOUNDS, 10.0), up_to(0));
        let why = because(Bottleneck::Server);
        assert_eq!(found, SearchResult { confirmed: None, refuted: Some(1), why });
        assert_eq!(rates(&tried, Length::Long), [1]);
    }

    #[test]
    fn bad_luck_at_the_lowest_rate_is_put_right() {
        let (found, _) = search(Search::seeking(BOUNDS, 4.0), |next| match next.length {
            Length::Short => because(Bottleneck::Server),
            Length::Long => up_to(9)(next),
        });
        assert_eq!(between(&found), (9, 10));
    }

    #[test]
    fn the_ceiling_is_confirmed_and_no_limit() {
        let bounds = Bounds { ceiling: 500, ..BOUNDS };
        let (found, tried) = search(Search::seeking(bounds, 10.0), up_to(u32::MAX));
        assert_eq!(found, SearchResult { confirmed: Some(500), refuted: None, why: None });
        assert_eq!(rates(&tried, Length::Long), [500; 3]);
        assert_eq!(search(Search::seeking(bounds, 900.0), up_to(u32::MAX)).1.len(), 4);
    }

    #[test]
    fn a_server_that_meets_the_goal_again_beyond_its_first_limit_is_known_by_the_first() {
        let (found, _) = search(Search::seeking(BOUNDS, 10.0), |next| {
            because(Bottleneck::Server).filter(|_| next.rate > 100 && next.rate < 300)
        });
        assert_eq!(between(&found), (100, 102));
    }

    #[test]
    fn a_rate_at_which_something_else_gave_way_once_is_not_the_servers_limit() {
        for other in [Bottleneck::Generator, Bottleneck::VirtualUsers] {
            for order in [[Bottleneck::Server, other], [other, Bottleneck::Server]] {
                let mut tries = 0;
                let (found, tried) = search(Search::seeking(BOUNDS, 10.0), |next| {
                    if next.rate <= 100 {
                        return None;
                    }
                    tries += 1;
                    because(if next.length == Length::Long { other } else { order[tries % 2] })
                });
                let (_, refuted) = between(&found);
                assert_eq!(found.why.unwrap().bottleneck, other, "{order:?} {tried:?}");
                // Long tries do not reach it again.
                assert!(rates(&tried, Length::Long).iter().all(|rate| *rate < refuted + 3));
            }
        }
    }

    proptest! {
        /// With any responses, the search ends within its bounds, and its result was observed.
        #[test]
        fn every_search_ends_and_found_what_was_answered(
            answers in prop::collection::vec(any::<bool>(), 500),
            start in 0.1..1e6_f64,
            is_later: bool,
        ) {
            let mut answers = answers.into_iter();
            let mut seen: Vec<(u32, bool)> = Vec::new();
            let begin = if is_later { Search::confirming } else { Search::seeking };
            let (found, tried) = search(begin(BOUNDS, start), |next| {
                let met = answers.next().unwrap();
                if next.length == Length::Long {
                    seen.push((next.rate, met));
                }
                because(Bottleneck::Server).filter(|_| !met)
            });
            prop_assert!(tried.iter().all(|next| (1..=100_000).contains(&next.rate)));
            let confirmed_is_right = |rate: u32| {
                let own: Vec<bool> = seen.iter().filter(|one| one.0 == rate).map(|one| one.1).collect();
                own == [true; CONFIRMATIONS as usize]
            };
            match (found.confirmed, found.refuted) {
                (Some(confirmed), Some(refuted)) => {
                    prop_assert!(confirmed < refuted && confirmed_is_right(confirmed));
                    prop_assert!(seen.contains(&(refuted, false)));
                }
                (Some(rate), None) => prop_assert!(confirmed_is_right(rate)),
                (None, refuted) => prop_assert_eq!(refuted, Some(1)),
            }
        }
    }
}
