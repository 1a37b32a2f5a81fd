//! The part of the outbox that something contains.

use std::collections::BTreeMap;

/// Number of lanes, hence most nodes that write.
pub const LANES: u8 = 64;

/// A number for each lane. Missing lanes are at 0, before their first number; the last lane present is above 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position(Vec<u64>);

impl Position {
    /// The number of this lane.
    pub fn get(&self, lane: u8) -> u64 {
        self.0.get(usize::from(lane)).copied().unwrap_or(0)
    }

    /// Raises a lane to this number, if it is lower.
    pub fn raise(&mut self, lane: u8, number: u64) {
        if number > self.get(lane) {
            let lane = usize::from(lane);
            self.0.resize(self.0.len().max(lane + 1), 0);
            self.0[lane] = number;
        }
    }

    /// Whether each lane has come at least as far as in `other`.
    pub fn reaches(&self, other: &Position) -> bool {
        other.lanes().all(|(lane, number)| self.get(lane) >= number)
    }

    /// Lanes and their numbers.
    pub fn lanes(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        (0..=u8::MAX).zip(self.0.iter().copied())
    }
}

/// The least that a load, a response or a replica contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The history it belongs to.
    pub history: u64,
    /// The numbers whose effects it contains.
    pub position: Position,
}

/// The numbers that were seen: a lower bound without gaps, an upper bound, and those between.
///
/// The bounds have different uses, and mixing them up serves stale responses: what something *contains* is known up
/// to the first gap only; what has *ended* something may be as late as the last number seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    closed: Position,
    highest: Position,
    /// Runs of numbers above a gap: lane and first number of each, and its last. There are as many as gaps, however
    /// long one stays open.
    loose: BTreeMap<(u8, u64), u64>,
}

impl Progress {
    /// All numbers up to here, and no others.
    pub(crate) fn up_to(marks: &Position) -> Self {
        Self { closed: marks.clone(), highest: marks.clone(), loose: BTreeMap::new() }
    }

    /// For each lane the last number with no gap before it.
    pub(crate) fn closed(&self) -> &Position {
        &self.closed
    }

    /// For each lane the last number seen.
    pub(crate) fn highest(&self) -> &Position {
        &self.highest
    }

    /// Notes a number. Returns whether it is new.
    pub(crate) fn add(&mut self, lane: u8, number: u64) -> bool {
        let before =
            self.loose.range(..=(lane, number)).next_back().filter(|((of, _), _)| *of == lane);
        let before = before.map(|(&(_, first), &last)| (first, last));
        if number <= self.closed.get(lane) || before.is_some_and(|(_, last)| number <= last) {
            return false;
        }
        let first =
            before.filter(|(_, last)| last + 1 == number).map_or(number, |(first, _)| first);
        let last = self.loose.remove(&(lane, number + 1)).unwrap_or(number);
        self.loose.insert((lane, first), last);
        self.highest.raise(lane, number);
        self.close(lane);
        true
    }

    /// Notes that all numbers up to here existed.
    pub(crate) fn pass(&mut self, marks: &Position) {
        for (lane, mark) in marks.lanes() {
            self.highest.raise(lane, mark);
            self.closed.raise(lane, mark);
            self.close(lane);
        }
    }

    /// Raises the lower bound over adjacent runs.
    fn close(&mut self, lane: u8) {
        while let Some((&run, &last)) =
            self.loose.range((lane, 0)..=(lane, self.closed.get(lane) + 1)).next()
        {
            self.loose.remove(&run);
            self.closed.raise(lane, last);
        }
    }

    /// Treats all numbers up to the last as seen, for [`Mistake::ForgetGaps`](crate::planted::Mistake).
    pub(crate) fn forget_gaps(&mut self) {
        self.closed = self.highest.clone();
        self.loose.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(numbers: &[u64]) -> Position {
        let mut position = Position::default();
        (0..).zip(numbers).for_each(|(lane, number)| position.raise(lane, *number));
        position
    }

    #[test]
    fn lanes_that_are_not_mentioned_stand_at_0() {
        assert_eq!(position(&[1, 0, 0]), position(&[1]));
        assert!(position(&[1]).reaches(&position(&[0, 0])));
        assert!(!position(&[9]).reaches(&position(&[1, 1])));
    }

    #[test]
    fn a_gap_holds_the_lower_bound_until_it_is_filled() {
        let mut seen = Progress::up_to(&position(&[4]));
        assert!(!seen.add(0, 4) && seen.add(0, 6) && seen.add(0, 7) && !seen.add(0, 7));
        assert_eq!((seen.closed().get(0), seen.highest().get(0)), (4, 7));
        assert!(!seen.add(0, 6) && seen.add(1, 5) && seen.add(0, 5));
        assert_eq!((seen.closed().get(0), seen.highest().get(0)), (7, 7));
        assert!(seen.add(1, 1) && seen.add(1, 2) && seen.add(1, 4) && seen.add(1, 3));
        assert!(seen.loose.is_empty());
    }

    #[test]
    fn a_gap_that_stays_open_costs_no_more_with_time() {
        let mut seen = Progress::default();
        assert!((2..100_000).all(|number| seen.add(3, number)));
        assert_eq!((seen.loose.len(), seen.closed().get(3)), (1, 0));
        assert!(seen.add(3, 1));
        assert_eq!((seen.loose.len(), seen.closed().get(3)), (0, 99_999));
    }

    #[test]
    fn what_was_deleted_was_there() {
        let mut seen = Progress::default();
        assert!(seen.add(0, 3) && seen.add(0, 6) && seen.add(1, 2));
        seen.pass(&position(&[2, 4]));
        assert_eq!(seen.closed(), &position(&[3, 4]));
        assert_eq!(seen.highest(), &position(&[6, 4]));
        assert_eq!(seen.loose, BTreeMap::from([((0, 6), 6)]));
    }
}
