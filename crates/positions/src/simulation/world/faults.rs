//! Faults, and the final check that all nodes have recovered.

use super::super::database::{KEYS, Logged};
use super::{BUSY, Kind, MS, NODES, World};

impl World {
    pub(super) fn something_goes_wrong(&mut self) {
        if self.now > BUSY {
            return self.nodes.iter_mut().for_each(|node| node.alive = true);
        }
        let node = self.below(NODES as u64) as usize;
        match self.below(8) {
            0..=2 => self.pause(node),
            3 => self.die(node),
            4 => self.shared.clear(),
            5 => {
                // The shared cache goes back to an earlier state.
                let before = std::mem::replace(&mut self.shared_before, self.shared.clone());
                self.shared = before;
            }
            6 => self.shared_before = self.shared.clone(),
            _ if self.kind == Kind::FailOver && self.one_in(2) => self.fail_over(),
            _ => {}
        }
        let time = self.some_time(160 * MS, 160 * MS, 1);
        self.after(time, World::something_goes_wrong);
    }

    fn pause(&mut self, node: usize) {
        let time = self.some_time(60 * MS, 1500 * MS, 4);
        let it = &mut self.nodes[node];
        if !it.alive || it.paused_until > self.now {
            return;
        }
        it.paused_until = self.now + time;
        if self.kind == Kind::Suspended {
            // The clock stops; it is not read before the end of the pause.
            it.clock.stopped += time;
        }
    }

    fn die(&mut self, node: usize) {
        let time = self.some_time(50 * MS, 600 * MS, 4);
        let it = &mut self.nodes[node];
        if !it.alive || it.paused_until > self.now {
            return;
        }
        it.restart();
        it.alive = false;
        // The server notices that its sessions have ended.
        self.after(time, move |world| world.nodes[node].alive = true);
    }

    fn fail_over(&mut self) {
        let now = self.now;
        // A crash keeps all commits; a replica has those that it received.
        let kept = if self.one_in(2) { self.database.log.len() } else { self.replica.applied };
        self.database.fail_over(now, kept);
        self.ids += 1;
        let history = self.ids;
        self.database.leased_until = Default::default();
        self.database.write(now, Logged::History(history));
        // The replica starts again from a copy.
        self.replica = self.database.primary.clone();
    }

    /// Checks that at the end every node knows everything, without gaps.
    pub(super) fn came_to_rest(&mut self) {
        if self.violation.is_some() {
            return;
        }
        for (n, node) in self.nodes.iter_mut().enumerate() {
            let lately = node.clock.read(self.now - 1000 * MS);
            let label = node.reach.label();
            let fresh = node.polled_from.is_some_and(|from| self.timing.covers(from, lately));
            // A node whose last commits were lost uses nothing from elsewhere until numbers are that high again.
            let lost = node.own.lanes().any(|(lane, number)| number > self.database.last(lane));
            let useful = (label.iter()).any(|label| (0..KEYS).all(|key| node.admits(label, key)));
            if node.alive && !(fresh && (useful || lost)) {
                let what = format!("node {n} has not caught up: fresh {fresh}, at {label:?}");
                self.violation = Some(what);
            }
        }
    }
}
