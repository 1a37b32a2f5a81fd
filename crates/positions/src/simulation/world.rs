//! The world: made-up time, chance, and what happens in it.

use super::database::{self, Database, KEYS, LANES, LIST, Logged, Server, THINGS, slots};
use super::node::{Body, Clock, Flight, Node, Request};
use crate::planted::{Mistake, planted};
use crate::{Applied, Lane, Poll, Position, Settled, Timing, Wanted};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

const MS: u64 = 1000;
/// How long writers, readers and faults go on; after that everything must come to rest.
const BUSY: u64 = 3000 * MS;
const REST: u64 = 2500 * MS;
const NODES: usize = 3;
const POLL_EVERY: u64 = 8 * MS;
const POLL_TIMEOUT: u64 = 60 * MS;
/// A request waits so long for a fresh poll, then it is refused.
const PATIENCE: u64 = 300 * MS;
const LEASE: u64 = 250 * MS;
/// Rows are deleted when they are so old. In a service it is minutes; here nodes must be able to miss some.
const RETENTION: u64 = 400 * MS;
/// The server ends a transaction that is idle for so long.
const IDLE_TRANSACTION: u64 = 60 * MS;

/// What the world is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One primary; nodes pause and die, clocks differ.
    Plain,
    /// The primary crashes, or a replica that had not received everything takes its place.
    FailOver,
    /// Servers of a cluster that certify commits; each node uses its own.
    Cluster,
    /// Machines are suspended: writes do not wait, so each request needs a poll of its own.
    Suspended,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Plain, Kind::FailOver, Kind::Cluster, Kind::Suspended];
}

struct Event {
    at: u64,
    id: u64,
    run: Box<dyn FnOnce(&mut World)>,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.id).cmp(&(other.at, other.id))
    }
}

/// How an answer was made, for [`World::served`].
#[derive(Clone, Copy, Debug)]
enum How {
    Hit,
    Shared,
    Primary,
    Replica,
    Joined,
}

pub struct World {
    kind: Kind,
    timing: Timing,
    now: u64,
    random: u64,
    ids: u64,
    queue: BinaryHeap<Reverse<Event>>,
    database: Database,
    replica: Server,
    replica_lag: u64,
    nodes: Vec<Node>,
    shared: HashMap<usize, Body>,
    /// An earlier state of the tier, to which it may fall back.
    shared_before: HashMap<usize, Body>,
    /// When each commit was acknowledged.
    acknowledged: Vec<(u64, usize)>,
    served: [u64; 5],
    fault: Option<String>,
}

impl World {
    /// Runs one world to its end; answers how often each way of answering was taken.
    pub fn run(kind: Kind, seed: u64) -> Result<[u64; 5], String> {
        let delay = if kind == Kind::Suspended { 0 } else { 25 };
        let mut world = World {
            kind,
            timing: Timing::new(Duration::from_millis(delay)),
            now: 0,
            random: seed.wrapping_mul(4).wrapping_add(kind as u64),
            ids: 0,
            queue: BinaryHeap::new(),
            database: Database::new(),
            replica: Server::default(),
            replica_lag: 0,
            nodes: Vec::new(),
            shared: HashMap::new(),
            shared_before: HashMap::new(),
            acknowledged: Vec::new(),
            served: [0; 5],
            fault: None,
        };
        for _ in 0..NODES {
            let clock = Clock {
                rate: 0.9 + 0.2 * world.chance(),
                offset: 1e9 * world.chance(),
                stopped: 0,
                reads: 0,
            };
            world.nodes.push(Node::new(clock, world.timing));
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
        while world.fault.is_none() {
            let Some(Reverse(event)) = world.queue.pop() else { break };
            if event.at > BUSY + REST {
                break;
            }
            world.now = event.at;
            (event.run)(&mut world);
        }
        world.came_to_rest();
        world.fault.map_or(Ok(world.served), Err)
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

    /// Mostly short, now and then long.
    fn some_time(&mut self, usual: u64, long: u64, one_in: u64) -> u64 {
        let bound = if self.one_in(one_in) { long } else { usual };
        1 + self.below(bound)
    }

    // Time.

    fn at(&mut self, at: u64, run: impl FnOnce(&mut World) + 'static) {
        self.ids += 1;
        self.queue.push(Reverse(Event { at, id: self.ids, run: Box::new(run) }));
    }

    fn after(&mut self, time: u64, run: impl FnOnce(&mut World) + 'static) {
        self.at(self.now + time, run);
    }

    /// Something that a node does: not if it has died since, and only when it is not paused.
    fn on(&mut self, node: usize, time: u64, run: impl FnOnce(&mut World) + 'static) {
        let life = self.nodes[node].life;
        self.on_life(node, life, time, run);
    }

    /// Something that a node does in the life in which it began it.
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

    // Polls.

    fn poll_regularly(&mut self, node: usize) {
        self.poll(node);
        let time = if self.one_in(40) { 150 * MS } else { POLL_EVERY };
        self.after(time, move |world| world.poll_regularly(node));
    }

    /// Begins a poll unless one is under way.
    fn poll(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        if !it.alive || it.paused_until > self.now || it.polling.is_some() {
            return;
        }
        let began = it.clock.read(self.now);
        let (starts, above) = match it.follower.wanted() {
            Wanted::Everything => (true, Position::default()),
            Wanted::Above(position) => (false, position.clone()),
        };
        self.ids += 1;
        let id = self.ids;
        self.nodes[node].polling = Some(id);
        let time = self.some_time(3 * MS, 40 * MS, 12);
        let first = self.below(time);
        let second = first + self.below(time - first);
        let (history, life) = (self.database.primary.history, self.nodes[node].life);
        // Two pages, each with a snapshot of its own; the marks come with the last.
        self.after(first, move |world| {
            let above_too = above.clone();
            let page =
                world.of_node(node, |server, commits| server.read(&above, 0..LANES / 2, commits));
            world.after(second - first, move |world| {
                let commits_of = |server: &Server, commits: &[_]| {
                    (server.read(&above_too, LANES / 2..LANES, commits), server.marks.clone())
                };
                let (rest, marks) = world.of_node(node, commits_of);
                // A session does not outlive its server; and some polls are lost.
                let broken = world.database.primary.history != history || world.one_in(30);
                let rows = page.into_iter().chain(rest).collect();
                let poll = Poll { began, history, marks, rows };
                if !broken {
                    world.on_life(node, life, time - second, move |world| {
                        world.polled(node, id, poll, starts);
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

    fn polled(&mut self, node: usize, id: u64, mut poll: Poll<Option<usize>>, starts: bool) {
        let it = &mut self.nodes[node];
        if it.polling != Some(id) {
            return;
        }
        it.polling = None;
        if starts != matches!(it.follower.wanted(), Wanted::Everything) {
            return;
        }
        if planted(Mistake::DateByEnd) {
            poll.began = it.clock.read(self.now);
        }
        if it.follower.apply(poll) == Applied::StartAgain {
            self.poll(node);
        }
        self.serve_waiting(node);
    }

    /// What a node reads from the database: the primary, or its own server of a cluster, which first waits until
    /// it has everything that was committed (`wsrep_sync_wait`).
    fn of_node<T>(
        &mut self,
        node: usize,
        read: impl FnOnce(&Server, &[database::Commit]) -> T,
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

    fn follow_replica(&mut self, node: usize) {
        self.after(POLL_EVERY, move |world| world.follow_replica(node));
        if !self.nodes[node].alive || self.nodes[node].paused_until > self.now {
            return;
        }
        let above = self.nodes[node].replica.wanted().clone();
        let began = self.nodes[node].clock.read(self.now);
        let replica = &self.replica;
        let rows = replica.read(&above, 0..LANES, &self.database.commits);
        let poll = Poll { began, history: replica.history, marks: replica.marks.clone(), rows };
        let time = self.some_time(3 * MS, 40 * MS, 10);
        self.on(node, time, move |world| world.nodes[node].replica.apply(&poll));
    }

    fn replicate(&mut self) {
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

    // Reads.

    fn ask_somewhere(&mut self) {
        if self.now > BUSY {
            return;
        }
        let (node, key, asked) =
            (self.below(NODES as u64) as usize, self.below(KEYS as u64) as usize, self.now);
        let travel = self.some_time(200, 2 * MS, 20);
        self.on(node, travel, move |world| {
            let arrival = world.nodes[node].clock.read(world.now);
            world.serve(node, Request { asked, arrival, key });
        });
        let time = self.some_time(4 * MS, 4 * MS, 1);
        self.after(time, World::ask_somewhere);
    }

    fn serve_waiting(&mut self, node: usize) {
        for request in std::mem::take(&mut self.nodes[node].waiting) {
            if request.asked + PATIENCE > self.now {
                self.serve(node, request);
            }
        }
    }

    fn serve(&mut self, node: usize, request: Request) {
        let key = request.key;
        let on = slots(key);
        let it = &mut self.nodes[node];
        if !it.follower.is_fresh(request.arrival) {
            if planted(Mistake::ReplicaUnfresh) && it.follower.admits(&it.replica.label(), &on) {
                return self.load(node, request, true, false);
            }
            it.waiting.push(request);
            return self.poll(node);
        }
        if let Some((version, stamps)) = &it.cache[key]
            && (it.follower.unmoved(stamps) || planted(Mistake::HitMoved))
        {
            let version = *version;
            return self.answer(&request, version, How::Hit);
        }
        if let Some(flight) = &mut it.flights[key]
            && (it.follower.unmoved(&flight.stamps) || planted(Mistake::JoinAny))
        {
            flight.waiters.push(request);
            return;
        }
        if self.one_in(3) {
            return self.choose_load(node, request);
        }
        let stamps = self.nodes[node].follower.stamps(&on);
        let there = self.some_time(300, 3 * MS, 10);
        self.on(node, there, move |world| {
            let body = world.shared.get(&key).cloned();
            let follower = &world.nodes[node].follower;
            let good = body.filter(|body| {
                planted(Mistake::RemoteAny) || follower.admits(&body.label, &slots(key))
            });
            let Some(body) = good else { return world.choose_load(node, request) };
            let back = world.some_time(300, 5 * MS, 5);
            world.on(node, back, move |world| {
                let it = &mut world.nodes[node];
                if it.follower.unmoved(&stamps) || planted(Mistake::KeepMoved) {
                    it.cache[key] = Some((body.version, it.follower.stamps(&slots(key))));
                }
                world.answer(&request, body.version, How::Shared);
            });
        });
    }

    fn choose_load(&mut self, node: usize, request: Request) {
        let it = &self.nodes[node];
        let passes = it.follower.admits(&it.replica.label(), &slots(request.key));
        let replica = (passes || planted(Mistake::ReplicaAny)) && !self.one_in(3);
        self.load(node, request, replica, true);
    }

    fn load(&mut self, node: usize, request: Request, replica: bool, store: bool) {
        let key = request.key;
        let it = &mut self.nodes[node];
        let stamps = it.follower.stamps(&slots(key));
        let label = it.follower.label();
        self.ids += 1;
        let id = self.ids;
        let mut alone = vec![request];
        if store {
            let waiters = std::mem::take(&mut alone);
            // Whoever waits for an older load gets its answer all the same.
            let older = it.flights[key].replace(Flight { id, stamps: stamps.clone(), waiters });
            if let Some(older) = older {
                self.nodes[node].flights[key].as_mut().unwrap().waiters.extend(older.waiters);
            }
        }
        let time = self.some_time(4 * MS, 40 * MS, 4);
        let snapshot = self.below(time);
        let (history, life) = (self.database.primary.history, self.nodes[node].life);
        self.after(snapshot, move |world| {
            if world.database.primary.history != history {
                // The session has died with its server.
                return world.on_life(node, life, 0, move |world| {
                    if world.nodes[node].flights[key].as_ref().is_some_and(|flight| flight.id == id)
                    {
                        world.nodes[node].flights[key] = None;
                    }
                });
            }
            let version = if replica {
                world.replica.versions[key]
            } else {
                world.of_node(node, |server, _| server.versions[key])
            };
            world.on_life(node, life, time - snapshot, move |world| {
                let it = &mut world.nodes[node];
                let flight = it.flights[key].take_if(|flight| flight.id == id);
                let waiters = flight.map_or(alone, |flight| flight.waiters);
                let now = it.follower.stamps(&slots(key));
                let label = if planted(Mistake::LabelAtEnd) { it.follower.label() } else { label };
                let unmoved = it.follower.unmoved(&stamps);
                if store && (unmoved || planted(Mistake::StoreMoved)) {
                    it.cache[key] = Some((version, now));
                }
                // A body whose stamps have moved may go to the others: its label says what it contains.
                if store && (unmoved || world.one_in(3)) {
                    let time = world.some_time(300, 20 * MS, 10);
                    world.after(time, move |world| {
                        drop(world.shared.insert(key, Body { version, label }));
                    });
                }
                for (n, waiter) in waiters.iter().enumerate() {
                    let how = if replica { How::Replica } else { How::Primary };
                    world.answer(waiter, version, if n == 0 { how } else { How::Joined });
                }
            });
        });
    }

    fn answer(&mut self, request: &Request, version: usize, how: How) {
        self.served[how as usize] += 1;
        let commits = &self.database.commits;
        let concerns = |commit: usize| request.key == LIST || commits[commit].thing == request.key;
        let before = self
            .acknowledged
            .iter()
            .filter(|(at, _)| *at <= request.asked)
            .map(|(_, commit)| *commit);
        let needed =
            before.filter(|commit| commits[*commit].lost.is_none() && concerns(*commit)).max();
        let (now, asked) = (self.now, request.asked);
        if version < needed.unwrap_or(0) {
            self.fault = Some(format!(
                "{how:?} at {now}: {version} although {needed:?} was acknowledged before {asked}"
            ));
        }
        let grace = 2 * self.timing.delay().as_micros() as u64;
        if commits[version].lost.is_some_and(|lost| lost + grace < asked) {
            self.fault =
                Some(format!("{how:?} at {now}: {version}, which was lost before {asked}"));
        }
    }

    // Writes.

    fn write_somewhere(&mut self) {
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

    /// A write route that changes nothing and says so: it shows what it has read.
    fn reveal(&mut self, node: usize, thing: usize) {
        let version = self.of_node(node, |server, _| server.versions[thing]);
        let delay = self.nodes[node].clock.takes(self.timing.delay());
        let delay = if planted(Mistake::RevealAtOnce) { 0 } else { delay };
        self.on(node, delay, move |world| world.acknowledge(version));
    }

    fn acknowledge(&mut self, commit: usize) {
        self.acknowledged.push((self.now, commit));
    }

    fn write(&mut self, node: usize, thing: usize) {
        let history = self.database.primary.history;
        let it = &mut self.nodes[node];
        // A new connection looks at the server's history; an old one has ended with its server.
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

    /// The last statement of a transaction: its row of the outbox, if the lane is still this node's.
    fn insert(&mut self, node: usize, lane: u8, epoch: u64, number: u64, thing: usize) {
        let history = self.database.primary.history;
        let database = &mut self.database;
        let own = database.lane(lane).epoch == epoch;
        let taken = database.primary.rows.contains_key(&(lane, number));
        if taken || !(own || planted(Mistake::InsertUnowned)) {
            self.nodes[node].lane.take_if(|own| (own.lane(), own.epoch()) == (lane, epoch));
            return;
        }
        // In a cluster nobody waits: the first to commit wins.
        let locks = self.kind != Kind::Cluster;
        if locks && !database.open.insert((lane, number)) {
            return;
        }
        let life = self.nodes[node].life;
        let commit = self.some_time(3 * MS, 80 * MS, 6);
        if self.one_in(10) {
            self.on(node, commit, move |world| {
                world.database.open.remove(&(lane, number));
                world.settle(node, lane, number, history, Settled::Otherwise, None);
            });
            // Should the node die first, the server notices.
            return self.after(commit + IDLE_TRANSACTION, move |world| {
                if world.database.primary.history == history && world.nodes[node].life != life {
                    world.database.open.remove(&(lane, number));
                }
            });
        }
        let deadline = self.now + IDLE_TRANSACTION;
        // The COMMIT is sent, unless the server has given the transaction up because the node paused.
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
                        world.settle(node, lane, number, history, Settled::Otherwise, None);
                    });
                });
                return;
            }
            let sent = it.paused_until.saturating_sub(world.now);
            let long = if world.one_in(5) { 900 * MS } else { 150 * MS };
            let stall = world.some_time(MS, long, 10);
            let answered = !world.one_in(15);
            // The client gives up long before a stalled commit ends.
            if stall > 40 * MS || !answered {
                let patience = sent + 40 * MS;
                world.on_life(node, life, patience, move |world| {
                    world.settle(node, lane, number, history, Settled::Otherwise, Some(thing));
                });
            }
            world.after(sent + stall, move |world| {
                if world.database.primary.history != history {
                    return;
                }
                world.database.open.remove(&(lane, number));
                // Certification knows every row that was committed since this transaction began, also when it
                // has been deleted again; a primary's lock has kept others from the number.
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
                    Ok(commit) => {
                        world.settle(node, lane, number, history, Settled::Committed, None);
                        world.acknowledge_later(node, commit);
                    }
                    Err(_) => world.settle(node, lane, number, history, Settled::Otherwise, None),
                });
            });
        });
    }

    fn acknowledge_later(&mut self, node: usize, commit: usize) {
        let delay = self.nodes[node].clock.takes(self.timing.delay());
        self.on(node, delay, move |world| world.acknowledge(commit));
    }

    /// A transaction has ended, or its COMMIT was never answered; then `wrote` says what it was to write.
    fn settle(
        &mut self,
        node: usize,
        lane: u8,
        number: u64,
        history: u64,
        how: Settled,
        wrote: Option<usize>,
    ) {
        let own = self.nodes[node].lane.as_mut().filter(|own| own.lane() == lane);
        let fill = own.map_or(how == Settled::Otherwise, |own| own.ended(number, how));
        if fill && self.database.primary.history == history && !planted(Mistake::LeaveGap) {
            self.fill(node, lane, number, history, wrote);
        }
    }

    /// Inserts an empty row, which waits for an open transaction with that number; who finds its own row there
    /// has committed.
    fn fill(&mut self, node: usize, lane: u8, number: u64, history: u64, wrote: Option<usize>) {
        if self.database.primary.history != history {
            return;
        }
        if self.database.open.contains(&(lane, number)) {
            return self
                .on(node, 3 * MS, move |world| world.fill(node, lane, number, history, wrote));
        }
        // What was deleted had a row, of which nobody knows any more what was in it.
        let deleted = number <= self.database.primary.marks.get(lane);
        let there =
            if deleted { Err(None) } else { self.database.commit(self.now, lane, number, None) };
        if let Some(own) = self.nodes[node].lane.as_mut().filter(|own| own.lane() == lane) {
            own.filled(number);
        }
        if let (Err(Some(commit)), Some(_)) = (there, wrote) {
            self.acknowledge_later(node, commit);
        }
    }

    // Lanes.

    fn claim(&mut self, node: usize) {
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

    /// Claims a lane in SQL and gives every number that was reserved a row; then it is this node's, or nobody's.
    fn take_over(&mut self, node: usize, lane: u8, keep: bool) {
        let history = self.database.primary.history;
        self.ids += 1;
        let epoch = self.ids;
        let reserved = self.database.lane(lane).reserved;
        self.database.write(self.now, Logged::Lane(lane, database::Lane { epoch, reserved }));
        self.database.leased_until[usize::from(lane)] = self.now + LEASE;
        // Rows there may be beyond what a failover has forgotten to be reserved.
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
            // Another server: the claim may be forgotten there, and numbers of before have no rows.
            it.lane = None;
        }
        if self.database.lane(lane).epoch == epoch
            && it.lane.as_ref().is_some_and(|own| (own.lane(), own.epoch()) == (lane, epoch))
        {
            self.database.leased_until[usize::from(lane)] = self.now + LEASE;
            self.on(node, LEASE / 3, move |world| world.renew(node, lane, epoch));
        }
    }

    /// Deletes old rows, and fills lanes that their owners have left.
    fn keep_house(&mut self) {
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
                    database.primary.rows.keys().filter(|(of, n)| *of == lane && old(*n)).max();
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

    // Faults.

    fn something_goes_wrong(&mut self) {
        if self.now > BUSY {
            for node in 0..NODES {
                if !self.nodes[node].alive {
                    self.nodes[node].alive = true;
                }
            }
            return;
        }
        let node = self.below(NODES as u64) as usize;
        match self.below(8) {
            0..=2 => self.pause(node),
            3 => self.die(node),
            4 => self.shared.clear(),
            5 => {
                // The tier goes back to what it was some time ago.
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
        let time = self.some_time(60 * MS, 900 * MS, 4);
        let it = &mut self.nodes[node];
        if !it.alive || it.paused_until > self.now {
            return;
        }
        it.paused_until = self.now + time;
        if self.kind == Kind::Suspended {
            // The clock stands still meanwhile; nobody reads it before the end.
            it.clock.stopped += time;
        }
    }

    fn die(&mut self, node: usize) {
        let timing = self.timing;
        let time = self.some_time(50 * MS, 600 * MS, 4);
        let it = &mut self.nodes[node];
        if !it.alive || it.paused_until > self.now {
            return;
        }
        it.restart(timing);
        it.alive = false;
        // The server notices that its sessions have ended.
        self.after(time, move |world| world.nodes[node].alive = true);
    }

    fn fail_over(&mut self) {
        let now = self.now;
        // A crash keeps what was durable; a replica has what it had received.
        let kept = if self.one_in(2) { self.database.log.len() } else { self.replica.applied };
        self.database.fail_over(now, kept);
        self.ids += 1;
        let history = self.ids;
        self.database.leased_until = Default::default();
        self.database.write(now, Logged::History(history));
        // The replica begins anew, from a copy.
        self.replica = self.database.primary.clone();
    }

    /// When nothing happens any more, every node knows everything, without gaps.
    fn came_to_rest(&mut self) {
        if self.fault.is_some() {
            return;
        }
        for (n, node) in self.nodes.iter_mut().enumerate() {
            let lately = node.clock.read(self.now - 1000 * MS);
            let label = node.follower.label();
            let fresh = node.follower.is_fresh(lately);
            let useful = (0..KEYS).all(|key| node.follower.admits(&label, &slots(key)));
            if node.alive && !(fresh && useful) {
                let position = &label.position;
                self.fault =
                    Some(format!("node {n} has not caught up: fresh {fresh}, at {position:?}"));
            }
        }
    }
}
