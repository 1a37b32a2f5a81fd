//! Results of the variants, and their comparison.

use serde::Serialize;

use super::blocks::{Outcomes, Try};
use super::goal::{Bottleneck, Figures};
use super::plan::LimitPlan;
use super::search::{Length, SearchResult};
use crate::file::experiment::Variant;
use crate::judge::stats::{self, Estimate};
use crate::plan::Plan;
use crate::report::Language;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantLimit {
    pub name: String,
    pub is_reference: bool,
    pub capacity: Capacity,
    /// Ratio to the reference.
    pub versus: Versus,
    /// Breaches of the server and numbers of searches, most frequent first.
    pub gave_way: Vec<(String, usize)>,
    pub at_best: Option<Best>,
    pub searches: Vec<SearchPart>,
}

/// Capacity in iterations per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "known", rename_all = "snake_case")]
pub enum Capacity {
    Exactly {
        /// Median of the highest confirmed rates; the lower one of an even number.
        rate: u32,
        /// 95 % confidence interval of their geometric mean, by Student's t on logarithms, extended to contain
        /// the median; `None` with fewer than two searches.
        interval: Option<(f64, f64)>,
    },
    /// At least one search had an obstacle. `rate` is the lowest of the highest confirmed rates.
    AtLeast {
        rate: u32,
        because: Obstacle,
    },
    /// In this number of searches not even the lowest rate was confirmed.
    Nothing {
        searches: usize,
    },
    Unknown,
}

/// Reason for a search that did not reach the server's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    Generator,
    VirtualUsers,
    MaxRate,
}

/// Capacity relative to the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Versus {
    Reference,
    /// Ratio of the results of the same blocks.
    Ratio(Estimate),
    /// No ratio, with the reason.
    NoRatio(String),
}

/// A long try at the rate of the [`Capacity`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    pub rate: u32,
    pub figures: Figures,
    /// Cores used by the server; `None` for a `url`.
    pub server_cores: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchPart {
    pub block: u32,
    #[serde(flatten)]
    pub found: SearchResult,
}

impl SearchPart {
    fn obstacle(&self) -> Option<Obstacle> {
        match self.found.why.as_ref().map(|why| why.bottleneck) {
            None => Some(Obstacle::MaxRate),
            Some(Bottleneck::Generator) => Some(Obstacle::Generator),
            Some(Bottleneck::VirtualUsers) => Some(Obstacle::VirtualUsers),
            Some(Bottleneck::Server) => None,
        }
    }

    /// The result, if it is a limit of the server and not below the lowest rate.
    pub(super) fn limit(&self) -> Option<u32> {
        self.found.confirmed.filter(|_| self.obstacle().is_none())
    }
}

/// One entry per variant, in their order.
pub(crate) fn summarise(plan: &LimitPlan, outcomes: &Outcomes) -> Vec<VariantLimit> {
    let searches: Vec<Vec<SearchPart>> = (0..plan.plan.variants.len())
        .map(|index| {
            let own = outcomes.found.iter().filter(|((_, at), _)| *at == index);
            let part = |block, found| SearchPart { block, found };
            own.map(|((block, _), found)| part(*block, found.clone())).collect()
        })
        .collect();
    let Plan { variants, reference, language, .. } = &plan.plan;
    let is_reference = |variant: &Variant| variant.name == *reference;
    let reference = variants.iter().position(is_reference);
    let reference = reference.map(|index| &searches[index]);
    let named = variants.iter().zip(&searches);
    named
        .map(|(variant, own)| {
            let is_reference = is_reference(variant);
            let versus = match reference {
                _ if is_reference => Versus::Reference,
                Some(reference) => versus(reference, own, *language),
                None => {
                    let why = language.pick("there is no reference", "기준이 없습니다");
                    Versus::NoRatio(why.to_owned())
                }
            };
            let capacity = capacity(own);
            VariantLimit {
                name: variant.name.clone(),
                is_reference,
                versus,
                gave_way: gave_way(own),
                at_best: best(&outcomes.tries, &variant.name, &capacity),
                capacity,
                searches: own.clone(),
            }
        })
        .collect()
}

fn capacity(searches: &[SearchPart]) -> Capacity {
    let nothing =
        |search: &&SearchPart| search.found.confirmed.is_none() && search.obstacle().is_none();
    match searches.iter().filter(nothing).count() {
        0 => {}
        searches => return Capacity::Nothing { searches },
    }
    let first = searches.iter().filter_map(|search| search.obstacle().map(|why| (search, why)));
    // The obstacle at the lowest rate.
    if let Some((search, because)) =
        first.min_by_key(|(search, _)| search.found.confirmed.unwrap_or(0))
    {
        let lowest = searches.iter().map(|search| search.found.confirmed.unwrap_or(0)).min();
        return Capacity::AtLeast { rate: lowest.or(search.found.confirmed).unwrap_or(0), because };
    }
    let mut limits: Vec<u32> = searches.iter().filter_map(SearchPart::limit).collect();
    limits.sort_unstable();
    let Some(rate) = limits.get(limits.len().saturating_sub(1) / 2).copied() else {
        return Capacity::Unknown;
    };
    let all: Vec<(f64, f64)> = limits.iter().map(|limit| (1.0, f64::from(*limit))).collect();
    let interval = stats::estimate(&all).and_then(|estimate| estimate.interval);
    let median = f64::from(rate);
    let interval = interval.map(|(low, high)| (low.min(median), high.max(median)));
    Capacity::Exactly { rate, interval }
}

/// Uses only blocks that both have completed.
fn versus(reference: &[SearchPart], own: &[SearchPart], lang: Language) -> Versus {
    let none = |en: &str, ko: &str| Versus::NoRatio(lang.pick(en, ko).to_owned());
    let mut pairs = Vec::new();
    for search in own {
        let Some(other) = reference.iter().find(|other| other.block == search.block) else {
            continue;
        };
        if search.obstacle().is_some() {
            return none(
                "its server was not what gave way first in every search",
                "서버가 먼저 무너지지 않은 탐색이 있습니다",
            );
        }
        if other.obstacle().is_some() {
            return none(
                "the reference's server was not what gave way first in every search",
                "기준의 서버가 먼저 무너지지 않은 탐색이 있습니다",
            );
        }
        match (other.limit(), search.limit()) {
            (Some(other), Some(own)) => pairs.push((f64::from(other), f64::from(own))),
            _ => {
                return none(
                    "one of the two did not hold even the lowest rate",
                    "둘 중 하나는 가장 낮은 속도도 견디지 못했습니다",
                );
            }
        }
    }
    let none = none("no block is complete", "완료된 블록이 없습니다");
    stats::estimate(&pairs).map_or(none, Versus::Ratio)
}

fn gave_way(searches: &[SearchPart]) -> Vec<(String, usize)> {
    // In order of importance, which the stable sort keeps among equals.
    let mut counts: Vec<(String, usize)> = Vec::new();
    let reasons = searches.iter().filter_map(|search| search.found.why.as_ref());
    for breach in reasons.filter(|why| why.is_servers()).flat_map(|why| &why.breaches) {
        match counts.iter_mut().find(|(word, _)| word == breach.word()) {
            Some((_, count)) => *count += 1,
            None => counts.push((breach.word().to_owned(), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn best(tries: &[Try], variant: &str, capacity: &Capacity) -> Option<Best> {
    let (Capacity::Exactly { rate, .. } | Capacity::AtLeast { rate, .. }) = capacity else {
        return None;
    };
    let confirms = |one: &&Try| {
        let met = one.missed.is_none() && one.void.is_none();
        one.variant == variant && one.rate == *rate && one.length == Length::Long && met
    };
    let one = tries.iter().find(confirms)?;
    Some(Best { rate: *rate, figures: one.figures?, server_cores: one.server_cores })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::goal::{Breach, Reason};

    fn search(block: u32, confirmed: u32, refuted: u32, bottleneck: Bottleneck) -> SearchPart {
        let why = Some(Reason { bottleneck, breaches: vec![Breach::P95 { ms: Some(300.0) }] });
        let (confirmed, refuted) = (Some(confirmed), Some(refuted));
        SearchPart { block, found: SearchResult { confirmed, refuted, why } }
    }

    fn servers(rates: &[(u32, u32)]) -> Vec<SearchPart> {
        let searches = (1..).zip(rates);
        searches
            .map(|(block, (low, high))| search(block, *low, *high, Bottleneck::Server))
            .collect()
    }

    #[test]
    fn the_limit_is_the_median_of_what_was_confirmed() {
        let found = capacity(&servers(&[(100, 103), (400, 410), (200, 205)]));
        let Capacity::Exactly { rate, interval } = found else { panic!("{found:?}") };
        assert_eq!(rate, 200);
        assert!(interval.is_some_and(|(low, high)| low < 100.0 && high > 400.0));
        // The lower of two, and the interval contains it although they agree.
        let found = capacity(&servers(&[(100, 103), (101, 104)]));
        let Capacity::Exactly { rate: 100, interval: Some((low, _)) } = found else { panic!() };
        assert!(low <= 100.0);
        assert_eq!(gave_way(&servers(&[(1, 2), (1, 2)])), [("p95".to_owned(), 2)]);
        let mut hung = servers(&[(1, 2)]);
        let breaches = vec![Breach::Errors { share: 1.0 }, Breach::Dropped { share: 1.0 }];
        hung[0].found.why = Some(Reason { bottleneck: Bottleneck::Server, breaches });
        let words: Vec<String> = gave_way(&hung).into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, ["errors", "dropped iterations"]);
        assert_eq!(capacity(&[]), Capacity::Unknown);
    }

    #[test]
    fn whatever_is_not_the_servers_makes_it_at_least_and_leaves_no_ratio() {
        let at_least = |rate, because| Capacity::AtLeast { rate, because };
        let mut searches = servers(&[(80, 125), (320, 500)]);
        searches[1] = search(2, 300, 400, Bottleneck::Generator);
        assert_eq!(capacity(&searches), at_least(80, Obstacle::Generator));
        assert!(matches!(
            versus(&servers(&[(1, 2), (1, 2)]), &searches, Language::En),
            Versus::NoRatio(_)
        ));
        assert_eq!(gave_way(&searches), [("p95".to_owned(), 1)]);
        let ceiling = SearchResult { confirmed: Some(900), refuted: None, why: None };
        let ceiling = SearchPart { block: 1, found: ceiling };
        assert_eq!(capacity(&[ceiling]), at_least(900, Obstacle::MaxRate));
        let too_few = search(1, 30, 40, Bottleneck::VirtualUsers);
        assert_eq!(capacity(&[too_few]), at_least(30, Obstacle::VirtualUsers));
    }

    #[test]
    fn a_server_that_holds_nothing_has_no_ratio() {
        let why = Some(Reason { bottleneck: Bottleneck::Server, breaches: Vec::new() });
        let found = SearchResult { confirmed: None, refuted: Some(1), why };
        let nothing = SearchPart { block: 1, found };
        assert_eq!(capacity(std::slice::from_ref(&nothing)), Capacity::Nothing { searches: 1 });
        // Also with an obstacle in another search.
        let other = search(2, 300, 400, Bottleneck::Generator);
        assert_eq!(capacity(&[nothing.clone(), other]), Capacity::Nothing { searches: 1 });
        assert!(matches!(
            versus(&servers(&[(1, 2)]), &[nothing], Language::En),
            Versus::NoRatio(_)
        ));
    }

    #[test]
    fn ratios_are_taken_within_a_block_and_only_where_both_are_complete() {
        let reference = servers(&[(100, 125), (400, 500), (20, 40)]);
        let own = servers(&[(200, 250), (800, 1000)]);
        let Versus::Ratio(estimate) = versus(&reference, &own, Language::En) else { panic!() };
        assert_eq!(estimate.blocks, 2);
        assert!((estimate.ratio - 2.0).abs() < 1e-9);
        assert!(
            matches!(versus(&reference, &[], Language::En), Versus::NoRatio(why) if why == "no block is complete")
        );
    }
}
