//! The numbers of one node.

/// Numbers reserved at a time: the most rows that a successor has to fill when a node dies, and the transactions that
/// share one reservation.
const BLOCK: u64 = 256;

/// The lane that a node owns, in memory.
///
/// In SQL a lane has an *epoch*, a random number of its claim, and the number up to which numbers are *reserved*. A
/// row is inserted only while the epoch is the node's own, which the insert locks for reading until its transaction
/// ends (`INSERT … SELECT … WHERE lane = ? AND epoch = ? LOCK IN SHARE MODE`). Otherwise a node that was paused until
/// its numbers were filled and deleted could insert a row that no node reads. A reservation needs no such condition
/// (`reserved = GREATEST(reserved, ?)`): a surplus number only gets an empty row.
///
/// A node that claims a lane first inserts empty rows for all numbers without one, up to the last that is reserved or
/// has a row (a failover may have lost a reservation). If a transaction of the predecessor still holds the number,
/// the primary key decides which of them is the row.
#[derive(Debug)]
pub struct Lane {
    lane: u8,
    epoch: u64,
    next: u64,
    reserved: u64,
    block: u64,
}

impl Lane {
    /// A claimed lane: all numbers up to `reserved` have rows, and none above.
    pub fn claimed(lane: u8, epoch: u64, reserved: u64) -> Self {
        Self { lane, epoch, next: reserved + 1, reserved, block: BLOCK }
    }

    /// Sets the size of blocks, for a simulation of many.
    #[cfg(test)]
    pub(crate) fn in_blocks_of(mut self, block: u64) -> Self {
        self.block = block;
        self
    }

    /// Number of the lane.
    pub fn lane(&self) -> u8 {
        self.lane
    }

    /// Epoch of the claim.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number up to which to reserve next, before [`take`](Self::take) has none left; `None` if enough are left.
    pub fn to_reserve(&self) -> Option<u64> {
        let left = self.reserved + 1 - self.next;
        (left < self.block.div_ceil(2)).then_some(self.reserved + self.block)
    }

    /// Notes that numbers up to here are reserved in SQL.
    pub fn reserved(&mut self, until: u64) {
        self.reserved = self.reserved.max(until);
    }

    /// A number for a transaction; `None` if none is reserved.
    pub fn take(&mut self) -> Option<u64> {
        let number = self.next;
        (number <= self.reserved).then(|| {
            self.next += 1;
            number
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_once_and_only_when_reserved() {
        let mut lane = Lane::claimed(3, 1, 10).in_blocks_of(4);
        assert_eq!((lane.take(), lane.to_reserve()), (None, Some(14)));
        lane.reserved(14);
        assert_eq!(lane.to_reserve(), None);
        assert_eq!([lane.take(), lane.take(), lane.take()], [Some(11), Some(12), Some(13)]);
        assert_eq!(lane.to_reserve(), Some(18));
        assert_eq!([lane.take(), lane.take()], [Some(14), None]);
    }
}
