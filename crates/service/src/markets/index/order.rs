//! Pages of listings in each order.

use super::{Filter, Index, Words};
use crate::markets::types::{Market, MarketId};
use madang_path::{Point, distance_metres};

/// Order of a listing.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Best match first, see [`Index::page`].
    Relevance,
    /// By name.
    Name,
    /// Nearest to this point first, without markets of unknown position.
    Distance(Point),
    /// Most viewed first.
    Views,
}

/// Sort key of the last item of the page before (rank, distance in metres, or views; 0 by name), and its id.
pub type After = (f64, MarketId);

/// One item of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedMarket {
    /// Number of the market.
    pub number: u32,
    /// Sort key, as in [`After`].
    pub sort: f64,
}

/// A position as a point of the unit sphere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    at: [f64; 3],
    number: u32,
}

impl Unit {
    fn new(point: &Point, number: u32) -> Self {
        let (lat, lon) = (point.lat.to_radians(), point.lon.to_radians());
        Self { at: [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()], number }
    }

    /// The square of the straight distance between two points, which grows with the distance over ground.
    fn chord_squared(&self, other: &Self) -> f64 {
        self.at.iter().zip(&other.at).map(|(a, b)| (a - b) * (a - b)).sum()
    }
}

/// Positions of all markets that have one.
pub(super) fn units(markets: &[Market]) -> Box<[Unit]> {
    let numbered = markets.iter().zip(0..);
    numbered.filter_map(|(market, number)| Some(Unit::new(&market.point()?, number))).collect()
}

// Ranks by relevance: the name is the search, begins with it, contains its words, or another text does.
const EXACT: f64 = 0.0;
const PREFIX: f64 = 1.0;
const IN_NAME: f64 = 2.0;
const ELSEWHERE: f64 = 3.0;

impl Index {
    /// At most `limit` markets behind `after`; `None` if that market does not exist.
    ///
    /// By relevance: names equal to the search, names that begin with it, names that contain all
    /// words, all others; each by name. Equal names, distances and views are in the order of ids or names,
    /// so every order is total and a page continues exactly where the one before ended.
    pub fn page(
        &self,
        filter: &Filter,
        order: &Order,
        after: Option<After>,
        limit: usize,
        views: impl Fn(u32) -> u64,
    ) -> Option<Vec<RankedMarket>> {
        let after = match after {
            Some((sort, id)) => Some((sort, self.number(id)?)),
            None => None,
        };
        let hits = self.filtered(filter);
        Some(match order {
            Order::Relevance if !filter.words.is_empty() => {
                self.by_relevance(&hits.unwrap_or_default(), &filter.words, after, limit)
            }
            Order::Relevance | Order::Name => self.by_name(hits.as_deref(), after, limit),
            Order::Distance(centre) => self.by_distance(hits.as_deref(), centre, after, limit),
            Order::Views => self.by_views(hits.as_deref(), after, limit, views),
        })
    }

    fn by_name(
        &self,
        hits: Option<&[u32]>,
        after: Option<(f64, u32)>,
        limit: usize,
    ) -> Vec<RankedMarket> {
        let found = |number| RankedMarket { number, sort: 0.0 };
        let from = after.map_or(0, |(_, number)| number + 1);
        match hits {
            None => (from..self.numbers().end).take(limit).map(found).collect(),
            Some(hits) => {
                let from = hits.partition_point(|hit| *hit < from);
                hits[from..].iter().take(limit).copied().map(found).collect()
            }
        }
    }

    fn by_relevance(
        &self,
        hits: &[u32],
        words: &Words,
        after: Option<(f64, u32)>,
        limit: usize,
    ) -> Vec<RankedMarket> {
        let whole = words.each.concat();
        let whole = whole.as_str();
        // Names that begin with the search are adjacent. They need not contain each word: 다나 matches `다 나` by its
        // goods, and its name is still the search.
        let first = hits.partition_point(|n| self.name_key(*n) < whole);
        let begin = &hits[first..];
        let begin = &begin[..begin.partition_point(|n| self.name_key(*n).starts_with(whole))];
        let (exact, prefix) = begin.split_at(begin.partition_point(|n| self.name_key(*n) == whole));
        let others = || hits[..first].iter().chain(&hits[first + begin.len()..]);
        let is_in_name = |number: &&u32| words.are_in(self.names(**number));
        let ranked = (exact.iter().map(|n| (EXACT, *n)))
            .chain(prefix.iter().map(|n| (PREFIX, *n)))
            .chain(others().filter(is_in_name).map(|n| (IN_NAME, *n)))
            .chain(others().filter(|n| !is_in_name(n)).map(|n| (ELSEWHERE, *n)));
        ranked
            .filter(|ranked| after.is_none_or(|after| *ranked > after))
            .take(limit)
            .map(|(sort, number)| RankedMarket { number, sort })
            .collect()
    }

    fn by_views(
        &self,
        hits: Option<&[u32]>,
        after: Option<(f64, u32)>,
        limit: usize,
        views: impl Fn(u32) -> u64,
    ) -> Vec<RankedMarket> {
        let numbers: &mut dyn Iterator<Item = u32> = match hits {
            None => &mut self.numbers(),
            Some(hits) => &mut hits.iter().copied(),
        };
        #[allow(clippy::cast_precision_loss, reason = "nothing has been viewed 2^53 times")]
        let ranked = |number| RankedMarket { number, sort: views(number) as f64 };
        let is_behind = |found: &RankedMarket| {
            after.is_none_or(|(sort, last)| {
                found.sort < sort || (found.sort == sort && found.number > last)
            })
        };
        let mut all: Vec<RankedMarket> = numbers.map(ranked).filter(is_behind).collect();
        let order = |a: &RankedMarket, b: &RankedMarket| {
            b.sort.total_cmp(&a.sort).then(a.number.cmp(&b.number))
        };
        if limit < all.len() {
            all.select_nth_unstable_by(limit, order);
            all.truncate(limit);
        }
        all.sort_unstable_by(order);
        all
    }

    /// Two passes: the squares of chords, which cost five operations each, select candidates for the page;
    /// only their distances over ground are computed and compared.
    fn by_distance(
        &self,
        hits: Option<&[u32]>,
        centre: &Point,
        after: Option<(f64, u32)>,
        limit: usize,
    ) -> Vec<RankedMarket> {
        let from = Unit::new(centre, 0);
        let metres = |number: u32| {
            let point = self.market(number).point();
            point.map_or(f64::INFINITY, |point| distance_metres(centre, &point))
        };
        let mut hits = hits.map(|hits| hits.iter().peekable());
        let mut near: Vec<(f64, u32)> = Vec::new();
        for unit in &self.units {
            if let Some(hits) = &mut hits {
                while hits.next_if(|hit| **hit < unit.number).is_some() {}
                if hits.peek() != Some(&&unit.number) {
                    continue;
                }
            }
            near.push((unit.chord_squared(&from), unit.number));
        }
        if let Some((sort, _)) = after {
            // Removes items that are surely before the last one; the chord of an arc is 2 sin(arc / 2).
            let arc = sort / madang_path::EARTH_RADIUS_METRES;
            let chord = 2.0 * (arc.min(std::f64::consts::PI) / 2.0).sin();
            let least = chord * chord * (1.0 - SLACK) - SLACK * SLACK;
            near.retain(|(chord, _)| *chord >= least);
        }
        let order = |a: &RankedMarket, b: &RankedMarket| {
            a.sort.total_cmp(&b.sort).then(self.id_order(a.number, b.number))
        };
        let is_behind = |found: &RankedMarket| {
            after.is_none_or(|(sort, number)| order(found, &RankedMarket { number, sort }).is_gt())
        };
        // Items within the slack of the lower bound, and the last item itself, are among the candidates: so their
        // number grows until there are enough, or no more.
        let mut wanted = limit.saturating_add(16);
        loop {
            let bound = nth_least(&mut near, wanted);
            let most = bound.map_or(f64::INFINITY, |chord| chord * (1.0 + SLACK) + SLACK * SLACK);
            let candidates = near.iter().filter(|(chord, _)| *chord <= most);
            let mut found: Vec<RankedMarket> = candidates
                .map(|(_, number)| RankedMarket { number: *number, sort: metres(*number) })
                .filter(is_behind)
                .collect();
            if found.len() >= limit || bound.is_none() {
                found.sort_unstable_by(order);
                found.truncate(limit);
                return found;
            }
            wanted = wanted.saturating_mul(4);
        }
    }

    fn id_order(&self, a: u32, b: u32) -> std::cmp::Ordering {
        self.market(a).id.cmp(&self.market(b).id)
    }
}

/// Far more than the rounding of chords and haversines, and less than the radius of any page: one
/// part in a million, and on the ground a few metres near the centre.
const SLACK: f64 = 1e-6;

/// The value with exactly `n` smaller ones; `None` if there are not so many. Reorders `all`.
fn nth_least(all: &mut [(f64, u32)], n: usize) -> Option<f64> {
    (n < all.len()).then(|| all.select_nth_unstable_by(n, |a, b| a.0.total_cmp(&b.0)).1.0)
}
