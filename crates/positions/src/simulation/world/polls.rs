//! Polls of nodes, and replication.

use super::super::database::{Commit, LANES, Server};
use super::{Kind, MS, NODES, World};
use crate::planted::{Mistake, planted};
use crate::{Applied, Moment, Poll};

const POLL_EVERY: u64 = 8 * MS;
const POLL_TIMEOUT: u64 = 60 * MS;

impl World {
    pub(super) fn poll_regularly(&mut self, node: usize) {
        self.poll(node);
        let time = if self.one_in(40) { 150 * MS } else { POLL_EVERY };
        self.after(time, move |world| world.poll_regularly(node));
    }

    /// Starts a poll unless one is under way.
    pub(super) fn poll(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        if !it.alive || it.paused_until > self.now || it.polling.is_some() {
            return;
        }
        let began = it.clock.read(self.now);
        let wanted = it.follower.wanted();
        let (starts, above) = (wanted.is_none(), wanted.cloned().unwrap_or_default());
        self.ids += 1;
        let id = self.ids;
        self.nodes[node].polling = Some(id);
        let time = self.some_time(3 * MS, 40 * MS, 12);
        let first = self.below(time);
        let second = first + self.below(time - first);
        let (history, life) = (self.database.primary.history, self.nodes[node].life);
        // Two pages, each with its own snapshot; the marks come with the last.
        self.after(first, move |world| {
            let above_too = above.clone();
            let page =
                world.of_node(node, |server, commits| server.read(&above, 0..LANES / 2, commits));
            world.after(second - first, move |world| {
                let (rest, marks) = world.of_node(node, |server, commits| {
                    (server.read(&above_too, LANES / 2..LANES, commits), server.marks.clone())
                });
                // A session ends with its server, and some polls are lost.
                let broken = world.database.primary.history != history || world.one_in(30);
                let rows = page.into_iter().chain(rest).collect();
                let poll = Poll { history, marks, rows };
                if !broken {
                    world.on_life(node, life, time - second, move |world| {
                        world.polled(node, id, began, poll, starts);
                    });
                }
            });
        });
        self.on(node, POLL_TIMEOUT, move |world| {
            let it = &mut world.nodes[node];
            if it.polling == Some(id) {
                it.polling = None;
                world.serve_waiting(node);
            }
        });
    }

    fn polled(
        &mut self,
        node: usize,
        id: u64,
        mut began: Moment,
        mut poll: Poll<Option<usize>>,
        starts: bool,
    ) {
        let it = &mut self.nodes[node];
        if it.polling != Some(id) {
            return;
        }
        it.polling = None;
        if starts != it.follower.wanted().is_none() {
            return;
        }
        if planted(Mistake::DateByEnd) {
            began = it.clock.read(self.now);
        }
        for row in &mut poll.rows {
            if it.has_applied(row) && !starts {
                row.ends = Some(Vec::new());
            }
        }
        if it.follower.apply(poll, &it.reach) == Applied::StartAgain {
            it.applied.clear();
            it.polled_from = None;
            self.poll(node);
        } else {
            it.polled_from = it.polled_from.max(Some(began));
        }
        self.serve_waiting(node);
    }

    /// Reads from the node's server: the primary, or its own server of a cluster, which first waits until it has
    /// everything that was committed (`wsrep_sync_wait`).
    pub(super) fn of_node<T>(
        &mut self,
        node: usize,
        read: impl FnOnce(&Server, &[Commit]) -> T,
    ) -> T {
        let database = &self.database;
        if self.kind != Kind::Cluster {
            return read(&database.primary, &database.commits);
        }
        let server = &mut self.nodes[node].server;
        if !planted(Mistake::ReadWithoutWait) {
            server.catch_up(&database.log, &database.commits, database.log.len());
        }
        read(server, &database.commits)
    }

    pub(super) fn follow_replica(&mut self, node: usize) {
        self.after(POLL_EVERY, move |world| world.follow_replica(node));
        if !self.nodes[node].alive || self.nodes[node].paused_until > self.now {
            return;
        }
        let above = self.nodes[node].replica.wanted().clone();
        let replica = &self.replica;
        let rows = replica.read(&above, 0..LANES, &self.database.commits);
        let poll = Poll { history: replica.history, marks: replica.marks.clone(), rows };
        let time = self.some_time(3 * MS, 40 * MS, 10);
        self.on(node, time, move |world| world.nodes[node].replica.apply(&poll));
    }

    pub(super) fn replicate(&mut self) {
        if self.one_in(20) {
            self.replica_lag = [0, 5, 60, 200][self.below(4) as usize] * MS;
        }
        let database = &self.database;
        let until = |lag: u64| database.logged_at.partition_point(|at| at + lag <= self.now);
        let known = until(self.replica_lag);
        self.replica.catch_up(&database.log, &database.commits, known);
        let lags: Vec<u64> = (0..NODES).map(|_| self.below(30 * MS)).collect();
        for (node, lag) in self.nodes.iter_mut().zip(lags) {
            let known = self.database.logged_at.partition_point(|at| at + lag <= self.now);
            node.server.catch_up(&self.database.log, &self.database.commits, known);
        }
        self.after(2 * MS, World::replicate);
    }
}
