//! One node's knowledge of the outbox.

use crate::planted::{Mistake, planted};
use crate::position::{Label, Position, Progress};
use crate::reach::Reach;
use crate::versions::Versions;

/// A row of the outbox: the effects of one transaction, or nothing, where a number was not used.
#[derive(Clone, Debug)]
pub struct Row<P> {
    /// Lane of the number.
    pub lane: u8,
    /// From 1.
    pub number: u64,
    /// Stamps that the transaction ended; `None` means all.
    pub ends: Option<Vec<u64>>,
    /// Further effects, such as a revoked token.
    pub payload: P,
}

/// A complete answer of the primary.
#[derive(Clone, Debug)]
pub struct Poll<P> {
    /// History of the server.
    pub history: u64,
    /// For each lane the number up to which rows have been deleted; read together with the rows or after them.
    pub marks: Position,
    /// In the order in which they were made, as far as that is known.
    pub rows: Vec<Row<P>>,
}

/// The outcome of a poll.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied<P> {
    /// Payloads of the rows that are new. Each is given once.
    News(Vec<P>),
    /// The node's memory may be wrong. It drops everything and polls for all rows. Until that poll is applied it
    /// answers nothing from memory.
    StartAgain,
}

/// Follows the outbox of the primary.
#[derive(Debug, Default)]
pub struct Follower {
    seen: Progress,
    /// `None` while the node has to start (again).
    history: Option<u64>,
}

impl Follower {
    /// The next poll asks for all rows of each lane, known or not, above these numbers. With `None` it asks for all
    /// rows, after the node has read everything else that a start needs.
    pub fn wanted(&self) -> Option<&Position> {
        self.history.map(|_| self.seen.closed())
    }

    /// Takes the answer to a poll and notes in `reach` what has ended. An answer with all rows starts the node.
    pub fn apply<P>(&mut self, poll: Poll<P>, reach: &Reach) -> Applied<P> {
        let starts = self.history.is_none();
        if starts {
            self.start(&poll, reach);
        } else if self.is_lost(&poll) {
            self.history = None;
            reach.lost();
            return Applied::StartAgain;
        }
        let rows: Vec<_> =
            poll.rows.into_iter().filter(|row| self.add(row.lane, row.number)).collect();
        // At a start there may be more rows than versions. Rows that share one make fewer responses of others usable.
        let chunk = if starts { rows.len().div_ceil(Versions::<()>::KNOWN / 2) } else { 1 };
        let ends = |row: &Row<P>| row.ends.as_ref().is_none_or(|stamps| !stamps.is_empty());
        for rows in rows.chunks(chunk.max(1)).filter(|rows| rows.iter().any(ends)) {
            reach.ended(rows);
        }
        // The caller drops what these rows end from memory after this: a load that begins meanwhile must read it from the
        // database, not from this process.
        let highest = planted(Mistake::ClaimHighest);
        let position = if highest { self.seen.highest() } else { self.seen.closed() };
        reach.closed(Label { history: poll.history, position: position.clone() });
        Applied::News(rows.into_iter().map(|row| row.payload).collect())
    }

    fn add(&mut self, lane: u8, number: u64) -> bool {
        let new = self.seen.add(lane, number);
        if planted(Mistake::ForgetGaps) {
            self.seen.forget_gaps();
        }
        new
    }

    /// Whether this node missed something, or remembers what the server does not.
    fn is_lost<P>(&self, poll: &Poll<P>) -> bool {
        let behind = !self.seen.closed().reaches(&poll.marks) && !planted(Mistake::IgnoreMarks);
        let changed = self.history != Some(poll.history) && !planted(Mistake::IgnoreHistory);
        behind || changed
    }

    /// Rows before the deletion marks may have ended anything; later ones are in the poll.
    fn start<P>(&mut self, poll: &Poll<P>, reach: &Reach) {
        let marks =
            if planted(Mistake::StartAtZero) { Position::default() } else { poll.marks.clone() };
        self.seen = Progress::up_to(&marks);
        self.history = Some(poll.history);
        reach.began(marks);
    }
}

/// The part of the outbox that a replica contains. It is polled like the primary.
#[derive(Debug, Default)]
pub struct Replica {
    seen: Progress,
    history: u64,
}

impl Replica {
    /// The next poll asks for all rows of each lane above these numbers.
    pub fn wanted(&self) -> &Position {
        self.seen.closed()
    }

    /// Takes the answer to a poll. The replica also contained what it has deleted.
    pub fn apply<P>(&mut self, poll: &Poll<P>) {
        if self.history != poll.history {
            *self = Self { seen: Progress::default(), history: poll.history };
        }
        self.seen.pass(&poll.marks);
        for row in &poll.rows {
            self.seen.add(row.lane, row.number);
        }
    }

    /// The label of what it contains from now on.
    pub fn label(&self) -> Label {
        Label { history: self.history, position: self.seen.closed().clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_ends_nothing_begins_no_version() {
        let (mut node, reach) = (Follower::default(), Reach::new(16));
        let row = |number, ends| Row { lane: 0, number, ends: Some(ends), payload: number };
        let poll = |rows| Poll { history: 1, marks: Position::default(), rows };
        assert_eq!(node.apply(poll(vec![]), &reach), Applied::News(vec![]));
        let start = reach.needed(std::iter::once(7));
        let rows = vec![row(1, vec![]), row(2, vec![]), row(3, vec![7])];
        assert_eq!(node.apply(poll(rows), &reach), Applied::News(vec![1, 2, 3]));
        assert_eq!(reach.needed(std::iter::once(7)), start + 1);
    }
}
