//! The world: simulated time, chance, and events.

mod faults;
mod lanes;
mod polls;
mod reads;
mod writes;

use super::database::{Database, Server};
use super::node::{Body, Clock, Node};
use crate::Timing;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

const MS: u64 = 1000;
/// Duration of writes, requests and faults.
const BUSY: u64 = 3000 * MS;
/// Time after that in which all nodes must catch up.
const REST: u64 = 2500 * MS;
const NODES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One primary; nodes pause and die, and clocks differ.
    Plain,
    /// The primary crashes, or a replica that lacks some writes replaces it.
    FailOver,
    /// Servers of a cluster that certify commits; each node uses its own.
    Cluster,
    /// Machines are suspended: the delay is zero, so each request needs its own poll.
    Suspended,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Plain, Kind::FailOver, Kind::Cluster, Kind::Suspended];
}

type Event = Box<dyn FnOnce(&mut World)>;

pub struct World {
    kind: Kind,
    timing: Timing,
    now: u64,
    random: u64,
    ids: u64,
    /// By time, then in the order of scheduling.
    queue: BTreeMap<(u64, u64), Event>,
    database: Database,
    replica: Server,
    replica_lag: u64,
    nodes: Vec<Node>,
    shared: HashMap<usize, Body>,
    /// An earlier state of the shared cache, to which it may go back.
    shared_before: HashMap<usize, Body>,
    /// Time and commit of each acknowledgement.
    acknowledged: Vec<(u64, usize)>,
    served: [u64; 5],
    /// Description of an answer that breaks the guarantee.
    violation: Option<String>,
}

impl World {
    /// Runs one world to its end. Returns the number of answers of each kind, or the first violation.
    pub fn run(kind: Kind, seed: u64) -> Result<[u64; 5], String> {
        let delay = if kind == Kind::Suspended { 0 } else { 25 };
        let mut world = World {
            kind,
            timing: Timing::new(Duration::from_millis(delay)),
            now: 0,
            random: seed.wrapping_mul(4).wrapping_add(kind as u64),
            ids: 0,
            queue: BTreeMap::new(),
            database: Database::new(),
            replica: Server::default(),
            replica_lag: 0,
            nodes: Vec::new(),
            shared: HashMap::new(),
            shared_before: HashMap::new(),
            acknowledged: Vec::new(),
            served: [0; 5],
            violation: None,
        };
        for _ in 0..NODES {
            let clock = Clock {
                rate: 0.9 + 0.2 * world.chance(),
                offset: 1e9 * world.chance(),
                stopped: 0,
                reads: 0,
            };
            world.nodes.push(Node::new(clock));
        }
        for node in 0..NODES {
            let at = world.below(8 * MS);
            world.at(at, move |world| world.poll_regularly(node));
            world.at(at, move |world| world.follow_replica(node));
        }
        world.at(MS, World::write_somewhere);
        world.at(2 * MS, World::ask_somewhere);
        world.at(3 * MS, World::replicate);
        world.at(4 * MS, World::keep_house);
        world.at(5 * MS, World::something_goes_wrong);
        while world.violation.is_none() {
            let Some(((at, _), event)) = world.queue.pop_first() else { break };
            if at > BUSY + REST {
                break;
            }
            world.now = at;
            event(&mut world);
        }
        world.came_to_rest();
        world.violation.map_or(Ok(world.served), Err)
    }

    // Chance: SplitMix64 (Steele, Lea, Flood 2014).

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draw().is_multiple_of(n)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draw() % n.max(1)
    }

    /// A random time: mostly up to `usual`, in one of `one_in` cases up to `long`.
    fn some_time(&mut self, usual: u64, long: u64, one_in: u64) -> u64 {
        let bound = if self.one_in(one_in) { long } else { usual };
        1 + self.below(bound)
    }

    // Time.

    fn at(&mut self, at: u64, run: impl FnOnce(&mut World) + 'static) {
        self.ids += 1;
        self.queue.insert((at, self.ids), Box::new(run));
    }

    fn after(&mut self, time: u64, run: impl FnOnce(&mut World) + 'static) {
        self.at(self.now + time, run);
    }

    /// Schedules an action of a node in its current life.
    fn on(&mut self, node: usize, time: u64, run: impl FnOnce(&mut World) + 'static) {
        let life = self.nodes[node].life;
        self.on_life(node, life, time, run);
    }

    /// Schedules an action of a node, which is dropped if the node died, and waits while it is paused.
    fn on_life(
        &mut self,
        node: usize,
        life: u64,
        time: u64,
        run: impl FnOnce(&mut World) + 'static,
    ) {
        self.after(time, move |world| world.in_life(node, life, run));
    }

    fn in_life(&mut self, node: usize, life: u64, run: impl FnOnce(&mut World) + 'static) {
        let it = &self.nodes[node];
        if it.life != life || !it.alive {
            return;
        }
        if it.paused_until > self.now {
            let until = it.paused_until;
            self.at(until, move |world| world.in_life(node, life, run));
        } else {
            run(self);
        }
    }
}
