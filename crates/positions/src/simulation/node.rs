//! A simulated node: the parts of a service around the protocol.

use super::database::{BUCKETS, KEYS, Server, ends};
use crate::planted::{Mistake, planted};
use crate::{Follower, Label, Lane, Moment, Position, Reach, Replica, Row};
use std::collections::BTreeSet;
use std::time::Duration;

/// A clock that runs fast or slow, and stops while its machine is suspended.
#[derive(Clone, Debug)]
pub struct Clock {
    pub rate: f64,
    pub offset: f64,
    /// Time of suspension so far, in µs of the world.
    pub stopped: u64,
    /// Number of readings, each of which is unique.
    pub reads: u64,
}

impl Clock {
    pub fn read(&mut self, now: u64) -> Moment {
        self.reads += 1;
        let micros = (now - self.stopped) as f64 * self.rate + self.offset;
        Moment((micros * 1000.0) as u64 + self.reads)
    }

    /// Converts a duration by this clock into µs of the world.
    pub fn takes(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / 1000.0 / self.rate).ceil() as u64
    }
}

#[derive(Clone, Debug)]
pub struct Request {
    pub asked: u64,
    pub arrival: Moment,
    pub key: usize,
}

#[derive(Debug)]
pub struct Flight {
    pub id: u64,
    /// [`Node::ended`] as the load began.
    pub ended: u64,
    pub waiters: Vec<Request>,
}

#[derive(Clone, Debug)]
pub struct Body {
    pub version: usize,
    pub label: Label,
}

#[derive(Debug)]
pub struct Node {
    /// Number of restarts. Actions of an earlier life end with it.
    pub life: u64,
    pub alive: bool,
    pub clock: Clock,
    pub paused_until: u64,
    pub follower: Follower,
    pub reach: Reach,
    /// When the latest complete poll began.
    pub polled_from: Option<Moment>,
    pub replica: Replica,
    pub lane: Option<Lane>,
    /// The history in which the lane was claimed.
    pub lane_history: u64,
    pub claiming: bool,
    /// Transactions of this node whose effects are applied and whose rows it has not read.
    pub applied: BTreeSet<(u8, u64)>,
    /// The highest numbers of this node's transactions.
    pub own: Position,
    /// Commit and [`Node::ended`] of each response.
    pub cache: [Option<(usize, u64)>; KEYS],
    pub flights: [Option<Flight>; KEYS],
    pub waiting: Vec<Request>,
    /// Id of the poll under way.
    pub polling: Option<u64>,
    /// The server of a cluster that this node uses.
    pub server: Server,
}

impl Node {
    pub fn new(clock: Clock) -> Self {
        Self {
            life: 0,
            alive: true,
            clock,
            paused_until: 0,
            follower: Follower::default(),
            reach: Reach::new(BUCKETS),
            polled_from: None,
            replica: Replica::default(),
            lane: None,
            lane_history: 0,
            claiming: false,
            applied: BTreeSet::new(),
            own: Position::default(),
            cache: [const { None }; KEYS],
            flights: [const { None }; KEYS],
            waiting: Vec::new(),
            polling: None,
            server: Server::default(),
        }
    }

    /// Loses everything in memory.
    pub fn restart(&mut self) {
        let server = std::mem::take(&mut self.server);
        *self = Node { life: self.life + 1, server, ..Node::new(self.clock.clone()) };
    }

    /// Applies the effects of a transaction of this node.
    pub fn committed(&mut self, lane: u8, number: u64, thing: usize) {
        self.own.raise(lane, number);
        self.reach.committed(lane, number, Some(ends(thing).into_iter()));
    }

    /// Whether the effects of a row are applied already.
    pub fn has_applied<P>(&mut self, row: &Row<P>) -> bool {
        let is_own = self.lane.as_ref().is_some_and(|own| own.lane() == row.lane);
        self.applied.remove(&(row.lane, row.number)) || is_own && planted(Mistake::SkipLane)
    }

    /// The version at which a key last ended.
    pub fn ended(&self, key: usize) -> u64 {
        self.reach.needed(std::iter::once(key as u64))
    }

    /// Whether something with this label contains all that has ended a key.
    pub fn admits(&self, label: &Label, key: usize) -> bool {
        self.reach.admits(label, std::iter::once(key as u64))
    }
}
