//! The versions of a node, and the one that something with certain numbers has.

use crate::position::Position;
use std::collections::VecDeque;

/// Versions of one node, each with the numbers that something must contain to have it, and a note. Versions of
/// different nodes are unrelated.
#[derive(Debug)]
pub(crate) struct Versions<T> {
    latest: u64,
    /// The last versions, up to `latest`. Their numbers only grow.
    known: VecDeque<(Position, T)>,
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self { latest: 0, known: VecDeque::new() }
    }
}

impl<T> Versions<T> {
    /// Most versions that are kept. Something that does not reach the oldest of them has none.
    pub(crate) const KNOWN: usize = 8192;

    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Begins the next version, which needs all of these numbers.
    pub(crate) fn next(&mut self, needed: Position, note: T) -> u64 {
        if self.known.len() == Self::KNOWN {
            self.known.pop_front();
        }
        self.known.push_back((needed, note));
        self.latest += 1;
        self.latest
    }

    /// Forgets all versions so far: nothing has them.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// The version of something with these numbers.
    pub(crate) fn of(&self, position: &Position) -> Option<u64> {
        let reached = self.known.partition_point(|(needed, _)| position.reaches(needed));
        (reached > 0).then(|| self.latest - (self.known.len() - reached) as u64)
    }

    /// The note of the first kept version after this one.
    pub(crate) fn after(&self, version: u64) -> Option<&T> {
        let newer = usize::try_from(self.latest.saturating_sub(version)).unwrap_or(usize::MAX);
        self.known.get(self.known.len().saturating_sub(newer)).map(|(_, note)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contains_more_numbers_has_a_newer_version() {
        let at = |number| {
            let mut position = Position::default();
            position.raise(0, number);
            position
        };
        let mut versions = Versions::default();
        assert_eq!((versions.of(&at(9)), versions.after(0)), (None, None));
        for number in [3, 5] {
            versions.next(at(number), number);
        }
        assert_eq!(
            [2, 3, 4, 5, 9].map(|n| versions.of(&at(n))),
            [None, Some(1), Some(1), Some(2), Some(2)]
        );
        assert_eq!(
            [0, 1, 2].map(|version| versions.after(version).copied()),
            [Some(3), Some(5), None]
        );
        versions.forget();
        assert_eq!((versions.of(&at(9)), versions.next(at(7), 7)), (None, 3));
        assert_eq!(
            (versions.of(&at(6)), versions.of(&at(7)), versions.after(0)),
            (None, Some(3), Some(&7))
        );
    }
}
