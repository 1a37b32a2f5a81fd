//! This node's lane of the outbox: its claim, its numbers and their rows.

use super::schema::MIGRATIONS;
use super::session::{Session, Trouble};
use crate::store::sql::params;
use crate::store::{Effects, Result, StoreError};
use madang_positions::{Lane, Position, sql};
use parking_lot::Mutex;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    lane: Mutex<Option<Lane>>,
    /// Lanes and numbers without a row, because the server was unavailable.
    unsettled: Mutex<BTreeSet<(u8, u64)>>,
    /// Lanes and numbers whose effects this node has applied after its commits, and whose rows it has not polled. All
    /// other rows are news, also those of its lane: of another owner of it, before or after, or of a COMMIT whose answer
    /// is on its way.
    applied: Mutex<BTreeSet<(u8, u64)>>,
}

/// The number of a transaction that is about to commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) lane: u8,
    epoch: u64,
    pub(super) number: u64,
}

/// Outcome of a transaction with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    Undone,
    Unknown,
}

impl Outbox {
    /// This node's lane, if it has one.
    fn own(&self) -> Option<u8> {
        self.lane.lock().as_ref().map(Lane::lane)
    }

    /// Ensures that there is a lane with numbers left; called before a transaction begins.
    pub(super) fn provide(&self, session: &Session) -> Result<()> {
        let mut lane = self.lane.lock();
        let owned = match lane.as_mut() {
            Some(owned) => owned,
            None => lane.insert(claim(session)?),
        };
        if let Some(until) = owned.to_reserve() {
            session.run(sql::RESERVE, params![until, owned.lane()])?;
            owned.reserved(until);
        }
        Ok(())
    }

    /// Inserts the row of a transaction, as its last statement.
    pub(super) fn insert(&self, session: &Session, effects: &Effects) -> Result<Number> {
        let number = {
            let mut lane = self.lane.lock();
            let taken = lane.as_mut().and_then(|owned| {
                let (lane, epoch) = (owned.lane(), owned.epoch());
                owned.take().map(|number| Number { lane, epoch, number })
            });
            taken.ok_or(StoreError::Busy)?
        };
        let Number { lane, epoch, number: n } = number;
        let inserted = session.run(sql::INSERT, params![n, effects.encode(), lane, epoch]);
        match inserted {
            Ok(done) if done.rows == 1 => Ok(number),
            Ok(_) => {
                // Another node has claimed the lane, and inserts rows for its numbers.
                *self.lane.lock() = None;
                Err(StoreError::Busy)
            }
            Err(error) => {
                self.leave(number);
                Err(error)
            }
        }
    }

    /// The effects of a committed transaction are applied: its row is no news.
    pub(super) fn applied(&self, number: Number) {
        self.applied.lock().insert((number.lane, number.number));
    }

    /// Whether the effects of a polled row are applied already.
    pub(super) fn was_applied(&self, lane: u8, number: u64) -> bool {
        self.applied.lock().remove(&(lane, number))
    }

    /// Forgets rows that were polled before their effects were applied; all of them if the history was lost.
    pub(super) fn polled(&self, closed: Option<&Position>) {
        let above = |lane, number| closed.is_some_and(|closed| number > closed.get(lane));
        self.applied.lock().retain(|(lane, number)| above(*lane, *number));
    }

    /// Inserts an empty row for a transaction that was undone, or whose COMMIT was not answered: shows its outcome.
    pub(super) fn settle(&self, session: &Session, number: Number) -> Fate {
        let Number { lane, number: n, .. } = number;
        let mut filled = session.run_unless_taken(sql::FILL, params![n, lane, n]);
        // In a cluster the transaction itself may still arrive: one of both fails, which shows the outcome.
        for _ in 0..3 {
            if session.take_trouble() != Some(Trouble::Conflict) {
                break;
            }
            filled = session.run_unless_taken(sql::FILL, params![n, lane, n]);
        }
        match filled {
            Ok(None) => Fate::Committed,
            Ok(Some(done)) if done.rows == 1 => Fate::Undone,
            // The row was deleted since.
            Ok(Some(_)) => Fate::Unknown,
            Err(_) => {
                self.leave(number);
                Fate::Unknown
            }
        }
    }

    /// Leaves the row to the poller.
    pub(super) fn leave(&self, number: Number) {
        self.unsettled.lock().insert((number.lane, number.number));
    }

    /// Inserts rows for the numbers that were left; on the poller's thread.
    pub(super) fn settle_left(&self, session: &Session) -> Result<()> {
        let left = std::mem::take(&mut *self.unsettled.lock());
        for (lane, number) in &left {
            let filled = session.run_unless_taken(sql::FILL, params![number, lane, number]);
            if let Err(error) = filled {
                self.unsettled.lock().extend(&left);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Renews the lease of the lane, so that no other node takes it.
    pub(super) fn renew(&self, session: &Session) -> Result<()> {
        let Some(lane) = self.own() else { return Ok(()) };
        session.run(RENEW, params![known(), lane]).map(drop)
    }
}

const RENEW: &str = "UPDATE outbox_lanes SET leased_until = NOW(6) + INTERVAL 30 SECOND, program = ? WHERE lane = ?";

/// The schema version that this program knows.
fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Claims an unused lane, and inserts rows for its numbers without one.
fn claim(session: &Session) -> Result<Lane> {
    let lane = lease(session)?;
    // Not 0, and within the range of a signed column's.
    let epoch = fastrand::u64(1..1 << 62);
    session.run(sql::CLAIM, params![epoch, lane])?;
    let number = |query: &str| -> Result<u64> {
        Ok(session.value::<Option<u64>>(query, params![lane])?.flatten().unwrap_or(0))
    };
    let reserved = number("SELECT reserved FROM outbox_lanes WHERE lane = ?")?;
    let deleted = number("SELECT deleted FROM outbox_lanes WHERE lane = ?")?;
    let last = reserved.max(number("SELECT max(number) FROM outbox WHERE lane = ?")?);
    let rows = session.query("SELECT number FROM outbox WHERE lane = ?", params![lane])?;
    let there: BTreeSet<u64> = rows.iter().filter_map(|row| row.get(0)).collect();
    for number in (deleted + 1..=last).filter(|number| !there.contains(number)) {
        session.run_unless_taken(sql::FILL, params![number, lane, number])?;
    }
    session.run(sql::RESERVE, params![last, lane])?;
    tracing::debug!(lane, last, "claimed a lane of the outbox");
    Ok(Lane::claimed(lane, epoch, last))
}

/// Leases the first lane whose lease has expired.
fn lease(session: &Session) -> Result<u8> {
    session.batch("START TRANSACTION")?;
    let found = session.value::<u8>(
        "SELECT lane FROM outbox_lanes WHERE leased_until < NOW(6) ORDER BY lane LIMIT 1
         FOR UPDATE SKIP LOCKED",
        &[],
    );
    let leased =
        found?.map(|lane| session.run(RENEW, params![known(), lane]).map(|_| lane)).transpose();
    session.batch("COMMIT")?;
    debug_assert!(session.take_trouble() != Some(Trouble::Lost));
    leased?.ok_or_else(|| {
        StoreError::Other("all lanes are used: 64 nodes use this database already".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_row_whose_effects_are_applied_is_no_news() {
        let outbox = Outbox::default();
        let number = Number { lane: 1, epoch: 0, number: 7 };
        assert!(!outbox.was_applied(1, 7), "its COMMIT is not answered, or it is of another node");
        outbox.applied(number);
        assert!(!outbox.was_applied(1, 8) && !outbox.was_applied(2, 7));
        assert!(outbox.was_applied(1, 7) && !outbox.was_applied(1, 7));

        let mut closed = Position::default();
        outbox.applied(number);
        outbox.polled(Some(&closed));
        closed.raise(1, 7);
        assert_eq!(outbox.applied.lock().len(), 1);
        outbox.polled(Some(&closed));
        assert!(outbox.applied.lock().is_empty(), "its row was polled before");
        outbox.applied(number);
        outbox.polled(None);
        assert!(outbox.applied.lock().is_empty(), "another history may give the number again");
    }
}
