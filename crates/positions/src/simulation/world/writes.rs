//! Transactions and acknowledgements.

use super::super::database::{Logged, THINGS};
use super::{BUSY, Kind, MS, NODES, World};
use crate::planted::{Mistake, planted};

/// Idle time after which the server ends a transaction.
const IDLE_TRANSACTION: u64 = 60 * MS;

impl World {
    pub(super) fn write_somewhere(&mut self) {
        if self.now > BUSY {
            return;
        }
        let (node, thing) = (self.below(NODES as u64) as usize, self.below(THINGS as u64) as usize);
        if self.one_in(4) {
            self.on(node, 0, move |world| world.reveal(node, thing));
        } else {
            self.on(node, 0, move |world| world.write(node, thing));
        }
        let time = self.some_time(40 * MS, 40 * MS, 1);
        self.after(time, World::write_somewhere);
    }

    /// A write route that changes nothing, and whose answer shows what it has read.
    fn reveal(&mut self, node: usize, thing: usize) {
        let version = self.of_node(node, |server, _| server.versions[thing]);
        let delay = self.nodes[node].clock.takes(self.timing.delay());
        let delay = if planted(Mistake::RevealAtOnce) { 0 } else { delay };
        self.on(node, delay, move |world| world.acknowledge(version));
    }

    fn acknowledge(&mut self, commit: usize) {
        self.acknowledged.push((self.now, commit));
    }

    pub(super) fn write(&mut self, node: usize, thing: usize) {
        let history = self.database.primary.history;
        let it = &mut self.nodes[node];
        // A connection ends with its server; a new one reads the server's history.
        if it.lane.is_none() || it.lane_history != history {
            it.lane = None;
            return self.claim(node);
        }
        let lane = it.lane.as_mut().unwrap();
        if let Some(until) = lane.to_reserve() {
            let mut row = self.database.lane(lane.lane());
            row.reserved = row.reserved.max(until);
            self.database.write(self.now, Logged::Lane(lane.lane(), row));
            lane.reserved(until);
        }
        let Some(number) = lane.take() else { return };
        let (lane, epoch) = (lane.lane(), lane.epoch());
        let insert = self.some_time(2 * MS, 30 * MS, 8);
        self.on(node, insert, move |world| world.insert(node, lane, epoch, number, thing));
    }

    /// The last statement of a transaction: inserts its row of the outbox, if the node still owns the lane.
    pub(super) fn insert(&mut self, node: usize, lane: u8, epoch: u64, number: u64, thing: usize) {
        let history = self.database.primary.history;
        let database = &mut self.database;
        let own = database.lane(lane).epoch == epoch;
        let taken = database.primary.rows.contains_key(&(lane, number));
        if taken || !(own || planted(Mistake::InsertUnowned)) {
            self.nodes[node].lane.take_if(|own| (own.lane(), own.epoch()) == (lane, epoch));
            return;
        }
        // A cluster has no locks: the first to commit wins.
        let locks = self.kind != Kind::Cluster;
        if locks && !database.open.insert((lane, number)) {
            return;
        }
        let life = self.nodes[node].life;
        let commit = self.some_time(3 * MS, 80 * MS, 6);
        if self.one_in(10) {
            self.on(node, commit, move |world| {
                world.database.open.remove(&(lane, number));
                world.fill(node, lane, number, history, None);
            });
            // If the node dies first, the server ends the transaction.
            return self.after(commit + IDLE_TRANSACTION, move |world| {
                if world.database.primary.history == history && world.nodes[node].life != life {
                    world.database.open.remove(&(lane, number));
                }
            });
        }
        let deadline = self.now + IDLE_TRANSACTION;
        // The COMMIT is sent, unless the server has ended the transaction because the node paused.
        self.after(commit, move |world| {
            let it = &world.nodes[node];
            let idle = it.paused_until > deadline || it.life != life || commit > IDLE_TRANSACTION;
            if idle {
                let at = deadline.max(world.now);
                world.at(at, move |world| {
                    if world.database.primary.history == history {
                        world.database.open.remove(&(lane, number));
                    }
                    world.on_life(node, life, 0, move |world| {
                        world.fill(node, lane, number, history, None);
                    });
                });
                return;
            }
            let sent = it.paused_until.saturating_sub(world.now);
            let long = if world.one_in(5) { 900 * MS } else { 150 * MS };
            let stall = world.some_time(MS, long, 10);
            let answered = !world.one_in(15);
            // The client times out long before a stalled commit ends.
            if stall > 40 * MS || !answered {
                let patience = sent + 40 * MS;
                world.on_life(node, life, patience, move |world| {
                    world.fill(node, lane, number, history, Some(thing));
                });
            }
            world.after(sent + stall, move |world| {
                if world.database.primary.history != history {
                    return;
                }
                world.database.open.remove(&(lane, number));
                // Certification includes rows that were committed since this transaction began and deleted again. On a
                // primary, the lock has kept others from the number.
                let database = &mut world.database;
                let certified = !database.made_at.contains_key(&(lane, number));
                let made = if certified {
                    database.commit(world.now, lane, number, Some(thing))
                } else {
                    Err(None)
                };
                if stall > 40 * MS || !answered {
                    return;
                }
                let back = world.some_time(500, 5 * MS, 10);
                world.on_life(node, life, back, move |world| match made {
                    Ok(commit) => world.committed(node, lane, number, commit),
                    Err(_) => world.fill(node, lane, number, history, None),
                });
            });
        });
    }

    fn committed(&mut self, node: usize, lane: u8, number: u64, commit: usize) {
        let thing = self.database.commits[commit].thing;
        let it = &mut self.nodes[node];
        it.committed(lane, number, thing);
        it.applied.insert((lane, number));
        self.acknowledge_later(node, commit);
    }

    fn acknowledge_later(&mut self, node: usize, commit: usize) {
        let delay = self.nodes[node].clock.takes(self.timing.delay());
        self.on(node, delay, move |world| world.acknowledge(commit));
    }

    /// Fills the number of a transaction that was not committed, or whose COMMIT was not answered; then `wrote` is
    /// the thing that it wrote. It waits for an open transaction with that number. If the node finds its own row, it
    /// has committed.
    fn fill(&mut self, node: usize, lane: u8, number: u64, history: u64, wrote: Option<usize>) {
        if self.database.primary.history != history || planted(Mistake::LeaveGap) {
            return;
        }
        if self.database.open.contains(&(lane, number)) {
            return self
                .on(node, 3 * MS, move |world| world.fill(node, lane, number, history, wrote));
        }
        // A deleted number had a row, whose content is unknown.
        let deleted = number <= self.database.primary.marks.get(lane);
        let there =
            if deleted { Err(None) } else { self.database.commit(self.now, lane, number, None) };
        match (there, wrote) {
            (Err(Some(commit)), Some(_)) => self.committed(node, lane, number, commit),
            // It may have been committed: its row, if it is read later, counts as another one's.
            (Err(None), Some(thing)) => self.nodes[node].committed(lane, number, thing),
            _ => {}
        }
    }
}
