//! The search for the highest rate that holds: which rate is tried next, and when it is over.
//!
//! The rate rises by a factor until a try breaks, then the gap between the highest rate that held
//! and the lowest that broke is halved (by its geometric middle) until it is narrow. It starts low
//! because a server beyond its limit may need long to recover, and because a search from above
//! would find some rate that holds beyond one that does not. So the answer is the *first* rate at
//! which the goal was missed, also for a server that holds again beyond it.
//!
//! One bad try may be bad luck: a rate counts as broken when two tries in a row broke. Without that,
//! a hiccup while rising would end the search far below the limit. What chance remains near the
//! limit moves the answer of every variant alike. That the generator was the limit is said only after
//! several tries, so it counts at once.

use super::goal::{Reason, Whose};

/// What a search may try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The lowest rate, 1 or more.
    pub floor: u32,
    /// The highest.
    pub ceiling: u32,
    /// The factor while nothing is known above or below, more than 1.
    pub growth: f64,
    /// The search is over when the rate that broke is higher than the one that held by no more
    /// than this share, or by 1.
    pub resolution: f64,
}

/// What a try showed.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The goal was reached; whether by requests enough to tell its errors.
    Held {
        /// They were.
        surely: bool,
    },
    /// It was missed.
    Broke(Reason),
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The limit lies between two rates.
    Between {
        /// The highest that held.
        held: u32,
        /// The lowest that broke.
        broke: u32,
        /// Why.
        why: Reason,
    },
    /// The ceiling held.
    Ceiling(u32),
    /// Not even the floor held.
    Nothing {
        /// The floor.
        broke: u32,
        /// Why.
        why: Reason,
    },
}

/// A search that is going on.
#[derive(Debug, Clone)]
pub struct Search {
    bounds: Bounds,
    held: Option<u32>,
    /// What held had requests enough to tell errors.
    surely: bool,
    broke: Option<(u32, Reason)>,
    /// The rate to be tried broke once.
    doubt: Option<Reason>,
    next: Option<u32>,
}

impl Search {
    /// A search that begins near `start`.
    pub fn new(bounds: Bounds, start: f64) -> Self {
        let next = whole(start).clamp(bounds.floor, bounds.ceiling);
        Self { bounds, held: None, surely: true, broke: None, doubt: None, next: Some(next) }
    }

    /// Whether errors have broken a rate, so that tries have to have requests enough to tell them.
    pub fn is_about_errors(&self) -> bool {
        let broke = self.broke.as_ref().map(|(_, why)| why);
        broke.into_iter().chain(&self.doubt).any(Reason::has_errors)
    }

    /// The rate to be tried; `None` when the search is over.
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Takes what the try of [`Self::next`] showed.
    pub fn tell(&mut self, answer: Answer) {
        let Some(rate) = self.next else { return };
        match (answer, self.doubt.take()) {
            (Answer::Held { surely }, _) => (self.held, self.surely) = (Some(rate), surely),
            (Answer::Broke(why), None) if why.whose != Whose::Generator => {
                self.doubt = Some(why);
                return;
            }
            // What was not the server's once leaves open what the server would have done.
            (Answer::Broke(why), first) => {
                let why = first.filter(|first| !first.is_servers()).unwrap_or(why);
                // What held with few requests may have had luck, and is asked again, at length.
                if why.has_errors() && !self.surely {
                    self.held = None;
                }
                self.broke = Some((rate, why));
            }
        }
        self.next = self.after();
    }

    /// What was found, once the search is over.
    pub fn found(&self) -> Option<Found> {
        if self.next.is_some() {
            return None;
        }
        Some(match (self.held, &self.broke) {
            (Some(held), Some((broke, why))) => {
                Found::Between { held, broke: *broke, why: why.clone() }
            }
            (None, Some((broke, why))) => Found::Nothing { broke: *broke, why: why.clone() },
            (held, None) => Found::Ceiling(held.unwrap_or(self.bounds.ceiling)),
        })
    }

    fn after(&self) -> Option<u32> {
        let Bounds { floor, ceiling, growth, resolution } = self.bounds;
        match (self.held, self.broke.as_ref().map(|(rate, _)| *rate)) {
            (Some(held), None) if held >= ceiling => None,
            (Some(held), None) => Some(whole(f64::from(held) * growth).max(held + 1).min(ceiling)),
            (None, Some(broke)) if broke <= floor => None,
            (None, Some(broke)) => Some(whole(f64::from(broke) / growth).min(broke - 1).max(floor)),
            (Some(held), Some(broke)) => {
                let (low, high) = (f64::from(held), f64::from(broke));
                let narrow = broke - held <= 1 || high / low <= 1.0 + resolution;
                (!narrow).then(|| whole((low * high).sqrt()).clamp(held + 1, broke - 1))
            }
            (None, None) => self.next,
        }
    }
}

/// The nearest rate; the type's ends beyond them.
fn whole(rate: f64) -> u32 {
    rate.round() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::goal::Breach;

    const BOUNDS: Bounds = Bounds { floor: 1, ceiling: 100_000, growth: 2.0, resolution: 0.05 };

    fn because(whose: Whose) -> Reason {
        Reason { whose, breaches: vec![Breach::Errors { share: 0.5 }] }
    }

    const HELD: Answer = Answer::Held { surely: true };

    fn broke() -> Answer {
        Answer::Broke(because(Whose::Server))
    }

    /// Searches against a simulated server; gives what was found and the rates tried.
    fn search(
        bounds: Bounds,
        start: f64,
        mut server: impl FnMut(u32) -> Answer,
    ) -> (Found, Vec<u32>) {
        let mut search = Search::new(bounds, start);
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            assert!(tried.len() < 200, "a search without end: {tried:?}");
            tried.push(rate);
            search.tell(server(rate));
        }
        (search.found().unwrap(), tried)
    }

    fn up_to(limit: u32) -> impl FnMut(u32) -> Answer {
        move |rate| if rate <= limit { HELD } else { broke() }
    }

    fn between(held: u32, broke: u32) -> Found {
        Found::Between { held, broke, why: because(Whose::Server) }
    }

    #[test]
    fn the_rate_doubles_until_it_breaks_twice_and_the_gap_is_halved() {
        let (found, tried) = search(BOUNDS, 10.0, up_to(100));
        // √(80·160) = 113, √(80·113) = 95, √(95·113) = 104, √(95·104) = 99, 104/99 = 1.0505 …
        let expected = [10, 20, 40, 80, 160, 160, 113, 113, 95, 104, 104, 99, 101, 101];
        assert_eq!((found, tried), (between(99, 101), expected.to_vec()));
    }

    #[test]
    fn a_start_beyond_the_limit_is_followed_by_lower_rates() {
        let (found, tried) = search(BOUNDS, 1000.0, up_to(100));
        assert_eq!(tried[..8], [1000, 1000, 500, 500, 250, 250, 125, 125]);
        let Found::Between { held, broke, .. } = found else { panic!("{found:?}") };
        assert!(held <= 100 && 100 < broke, "{held} {broke}");
    }

    #[test]
    fn a_server_that_serves_nothing_has_no_capacity() {
        let (found, _) = search(BOUNDS, 10.0, |_| broke());
        assert_eq!(found, Found::Nothing { broke: 1, why: because(Whose::Server) });
    }

    /// It refuses one in ten at any rate; up to 20 requests a try have luck.
    #[test]
    fn luck_with_few_requests_is_asked_again_before_it_is_believed() {
        let lucky = Answer::Held { surely: false };
        let mut search = Search::new(BOUNDS, 5.0);
        for _ in 0..2 {
            search.tell(lucky.clone());
        }
        assert!(!search.is_about_errors());
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            tried.push(rate);
            search.tell(broke());
            assert!(search.is_about_errors());
        }
        assert_eq!(tried, [20, 20, 10, 10, 5, 5, 3, 3, 2, 2, 1, 1]);
        assert!(matches!(search.found(), Some(Found::Nothing { broke: 1, .. })));
    }

    #[test]
    fn a_limit_above_the_ceiling_is_not_looked_for() {
        let bounds = Bounds { ceiling: 500, ..BOUNDS };
        let (found, tried) = search(bounds, 10.0, up_to(u32::MAX));
        assert_eq!(found, Found::Ceiling(500));
        assert_eq!(tried.last(), Some(&500));
        assert_eq!(search(bounds, 900.0, up_to(u32::MAX)).1, [500]);
    }

    #[test]
    fn a_server_that_holds_again_beyond_its_first_limit_is_known_by_the_first() {
        let (found, tried) =
            search(BOUNDS, 10.0, |rate| if rate > 100 && rate < 300 { broke() } else { HELD });
        assert_eq!(found, between(99, 101));
        assert!(tried.iter().all(|rate| *rate <= 160), "{tried:?}");
    }

    #[test]
    fn one_bad_try_is_bad_luck() {
        let mut tries = 0;
        let (found, _) = search(BOUNDS, 10.0, |rate| {
            tries += 1;
            // Every third try breaks whatever the rate.
            if tries % 3 == 0 || rate > 100 { broke() } else { HELD }
        });
        let Found::Between { held, broke, .. } = found else { panic!("{found:?}") };
        assert!((95..=100).contains(&held) && broke <= 106, "{held} {broke}");
    }

    #[test]
    fn a_rate_at_which_something_else_gave_way_once_is_not_the_servers_limit() {
        for other in [Whose::Generator, Whose::VirtualUsers] {
            for order in [[Whose::Server, other], [other, Whose::Server]] {
                let mut tries = 0;
                let (found, _) = search(BOUNDS, 10.0, |rate| {
                    if rate <= 100 {
                        return HELD;
                    }
                    tries += 1;
                    Answer::Broke(because(order[tries % 2]))
                });
                let Found::Between { why, .. } = found else { panic!("{found:?}") };
                assert_eq!(why.whose, other);
            }
        }
    }

    /// The chance to hold falls from 1 to 0 around the limit, over some ten per cent.
    #[test]
    fn the_limit_of_a_noisy_server_is_found_within_a_few_per_cent() {
        let mut rng = fastrand::Rng::with_seed(1);
        for limit in [7.0, 130.0, 4_000.0] {
            let logs: Vec<f64> = (0..200)
                .map(|_| {
                    let start = 3.0 * 2.0_f64.powf(rng.f64());
                    let (found, _) = search(BOUNDS, start, |rate| {
                        let far = (f64::from(rate) / limit).ln() / 0.03;
                        if rng.f64() < 1.0 / (1.0 + far.exp()) { HELD } else { broke() }
                    });
                    let Found::Between { held, broke, .. } = found else { panic!("{found:?}") };
                    (f64::from(held) * f64::from(broke)).sqrt().ln()
                })
                .collect();
            let mean = (logs.iter().sum::<f64>() / 200.0).exp();
            let away = mean / limit;
            assert!((0.95..1.08).contains(&away), "{mean} for {limit}");
        }
    }

    proptest! {
        /// Whatever a server answers, the search ends, inside its bounds, and tells the truth.
        #[test]
        fn every_search_ends_and_found_what_was_answered(
            answers in prop::collection::vec(any::<bool>(), 200),
            start in 0.1..1e6_f64,
        ) {
            let mut answers = answers.into_iter();
            let mut seen: Vec<(u32, bool)> = Vec::new();
            let (found, tried) = search(BOUNDS, start, |rate| {
                let held = answers.next().unwrap();
                seen.push((rate, held));
                if held { HELD } else { broke() }
            });
            prop_assert!(tried.iter().all(|rate| (1..=100_000).contains(rate)));
            match found {
                Found::Between { held, broke, .. } => {
                    prop_assert!(held < broke && seen.contains(&(held, true)));
                    let broken = seen.iter().filter(|try_| **try_ == (broke, false)).count();
                    prop_assert!(broken >= 2);
                }
                Found::Ceiling(rate) => prop_assert!(seen.contains(&(rate, true))),
                Found::Nothing { broke, .. } => prop_assert_eq!(broke, 1),
            }
        }
    }
}
