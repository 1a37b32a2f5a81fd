//! Judges responses in a shared cache by what this node knows to have ended: see the crate `madang-positions`.

use madang_cache::{Horizon, Stamp};
use madang_positions::{LANES, Label, Position, Reach};
use std::sync::Arc;

/// Number of buckets that stamps are hashed onto.
pub(super) const BUCKETS: usize = 1 << 14;

/// A label is written as its history and the number of each lane, in little-endian words.
pub(super) struct ReachHorizon(pub(super) Arc<Reach>);

impl Horizon for ReachHorizon {
    fn label(&self) -> Option<Vec<u8>> {
        self.0.label().map(|label| encode(&label))
    }

    fn admits(&self, label: &[u8], stamps: &[Stamp]) -> bool {
        decode(label).is_some_and(|label| self.0.admits(&label, bits(stamps)))
    }
}

pub(super) fn bits(stamps: &[Stamp]) -> impl Iterator<Item = u64> {
    stamps.iter().map(|stamp| stamp.to_bits())
}

fn encode(label: &Label) -> Vec<u8> {
    let numbers = label.position.lanes().map(|(_, number)| number);
    std::iter::once(label.history).chain(numbers).flat_map(u64::to_le_bytes).collect()
}

fn decode(label: &[u8]) -> Option<Label> {
    let (words, []) = label.as_chunks::<8>() else { return None };
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let history = words.next()?;
    let mut position = Position::default();
    (0..LANES).zip(words).for_each(|(lane, number)| position.raise(lane, number));
    Some(Label { history, position })
}

#[cfg(test)]
mod tests {
    use super::*;
    use madang_positions::{Follower, Poll, Row};

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let mut position = Position::default();
        position.raise(0, 2);
        position.raise(2, u64::MAX);
        let label = Label { history: 7, position };
        assert_eq!(decode(&encode(&label)), Some(label));
        let reach = Arc::new(Reach::new(1));
        let poll = Poll { history: 7, marks: Position::default(), rows: Vec::<Row<()>>::new() };
        Follower::default().apply(poll, &reach);
        let horizon = ReachHorizon(reach);
        assert!(horizon.admits(&horizon.label().unwrap(), &[Stamp::new("post:1")]));
        for wrong in [&[][..], &[7; 9]] {
            assert_eq!(decode(wrong), None);
            assert!(!horizon.admits(wrong, &[Stamp::new("post:1")]));
        }
    }
}
