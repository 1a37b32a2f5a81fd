//! Owners of lanes, and the rows of abandoned numbers.

use super::super::database::{self, LANES, Logged};
use super::{MS, NODES, World};
use crate::Lane;
use crate::planted::{Mistake, planted};

const LEASE: u64 = 250 * MS;
/// Age at which rows are deleted. In a service it is minutes; here nodes must be able to miss some.
const RETENTION: u64 = 400 * MS;

impl World {
    pub(super) fn claim(&mut self, node: usize) {
        if std::mem::replace(&mut self.nodes[node].claiming, true) {
            return;
        }
        let now = self.now;
        let free = self.database.leased_until.iter().position(|until| *until < now);
        let Some(lane) = free else {
            return self.on(node, 20 * MS, move |world| {
                world.nodes[node].claiming = false;
                world.claim(node);
            });
        };
        self.take_over(node, lane as u8, true);
    }

    /// Claims a lane in SQL and fills every reserved number. With `keep` the node then owns the lane, else nobody does.
    fn take_over(&mut self, node: usize, lane: u8, keep: bool) {
        let history = self.database.primary.history;
        self.ids += 1;
        let epoch = self.ids;
        let reserved = self.database.lane(lane).reserved;
        self.database.write(self.now, Logged::Lane(lane, database::Lane { epoch, reserved }));
        self.database.leased_until[usize::from(lane)] = self.now + LEASE;
        // A failover may have lost the reservation of existing rows.
        let reserved = reserved.max(self.database.last(lane));
        self.fill_reserved(node, lane, epoch, reserved, history, keep);
    }

    fn fill_reserved(
        &mut self,
        node: usize,
        lane: u8,
        epoch: u64,
        reserved: u64,
        history: u64,
        keep: bool,
    ) {
        let database = &mut self.database;
        let gone = database.primary.history != history || database.lane(lane).epoch != epoch;
        if gone {
            self.nodes[node].claiming &= !keep;
            return;
        }
        let marks = database.primary.marks.get(lane);
        for number in marks + 1..=reserved {
            if planted(Mistake::ClaimUnfilled) {
                break;
            }
            if database.open.contains(&(lane, number)) {
                return self.on(node, 3 * MS, move |world| {
                    world.fill_reserved(node, lane, epoch, reserved, history, keep);
                });
            }
            let _ = database.commit(self.now, lane, number, None);
        }
        if keep {
            let it = &mut self.nodes[node];
            it.claiming = false;
            it.lane = Some(Lane::claimed(lane, epoch, reserved).in_blocks_of(8));
            it.lane_history = history;
            self.renew(node, lane, epoch);
        } else {
            self.database.leased_until[usize::from(lane)] = 0;
        }
    }

    fn renew(&mut self, node: usize, lane: u8, epoch: u64) {
        let history = self.database.primary.history;
        let it = &mut self.nodes[node];
        if it.lane_history != history {
            // Another server may have lost the claim, and lacks rows of earlier numbers.
            it.lane = None;
        }
        if self.database.lane(lane).epoch == epoch
            && it.lane.as_ref().is_some_and(|own| (own.lane(), own.epoch()) == (lane, epoch))
        {
            self.database.leased_until[usize::from(lane)] = self.now + LEASE;
            self.on(node, LEASE / 3, move |world| world.renew(node, lane, epoch));
        }
    }

    /// Deletes old rows, and fills abandoned lanes.
    pub(super) fn keep_house(&mut self) {
        let now = self.now;
        for lane in 0..LANES {
            let database = &self.database;
            let old = |number: u64| {
                database.made_at.get(&(lane, number)).is_some_and(|at| at + RETENTION < now)
                    && database.primary.rows.contains_key(&(lane, number))
            };
            let mut until = database.primary.marks.get(lane);
            while old(until + 1) {
                until += 1;
            }
            if planted(Mistake::DeleteBeyondGap) {
                let last =
                    database.primary.rows.keys().filter(|(at, n)| *at == lane && old(*n)).max();
                until = last.map_or(until, |(_, number)| *number);
            }
            if until > database.primary.marks.get(lane) {
                self.database.write(now, Logged::Deleted { lane, until });
            }
            let row = self.database.lane(lane);
            let has_row = |n: u64| self.database.primary.rows.contains_key(&(lane, n));
            let gap = (self.database.primary.marks.get(lane) + 1
                ..=row.reserved.max(self.database.last(lane)))
                .any(|n| !has_row(n));
            let keeper = self.below(NODES as u64) as usize;
            if gap
                && self.database.leased_until[usize::from(lane)] < now
                && self.nodes[keeper].alive
            {
                self.take_over(keeper, lane, false);
            }
        }
        self.after(100 * MS, World::keep_house);
    }
}
