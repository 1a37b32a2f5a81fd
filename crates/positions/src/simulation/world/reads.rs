//! Requests and their answers.

use super::super::database::{KEYS, LIST};
use super::super::node::{Body, Flight, Request};
use super::{BUSY, MS, NODES, World};
use crate::planted::{Mistake, planted};

/// Longest wait of a request for a poll; then it is refused.
const PATIENCE: u64 = 300 * MS;

/// Source of an answer, in the order of [`World::run`]'s numbers.
#[derive(Clone, Copy, Debug)]
enum Source {
    Hit,
    Shared,
    Primary,
    Replica,
    Joined,
}

impl World {
    pub(super) fn ask_somewhere(&mut self) {
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

    pub(super) fn serve_waiting(&mut self, node: usize) {
        for request in std::mem::take(&mut self.nodes[node].waiting) {
            if request.asked + PATIENCE > self.now {
                self.serve(node, request);
            }
        }
    }

    fn serve(&mut self, node: usize, request: Request) {
        let key = request.key;
        let timing = self.timing;
        let it = &mut self.nodes[node];
        if !it.polled_from.is_some_and(|from| timing.covers(from, request.arrival)) {
            if planted(Mistake::ReplicaUnfresh) && it.admits(&it.replica.label(), key) {
                return self.load(node, request, true, false);
            }
            it.waiting.push(request);
            return self.poll(node);
        }
        let ended = it.ended(key);
        if let Some((version, then)) = it.cache[key]
            && (ended == then || planted(Mistake::HitMoved))
        {
            return self.answer(&request, version, Source::Hit);
        }
        if let Some(flight) = &mut it.flights[key]
            && (ended == flight.ended || planted(Mistake::JoinAny))
        {
            flight.waiters.push(request);
            return;
        }
        if self.one_in(3) {
            return self.choose_load(node, request);
        }
        let there = self.some_time(300, 3 * MS, 10);
        self.on(node, there, move |world| {
            let body = world.shared.get(&key).cloned();
            let it = &world.nodes[node];
            let good =
                body.filter(|body| planted(Mistake::RemoteAny) || it.admits(&body.label, key));
            let Some(body) = good else { return world.choose_load(node, request) };
            let back = world.some_time(300, 5 * MS, 5);
            world.on(node, back, move |world| {
                let it = &mut world.nodes[node];
                if it.ended(key) == ended || planted(Mistake::KeepMoved) {
                    it.cache[key] = Some((body.version, it.ended(key)));
                }
                world.answer(&request, body.version, Source::Shared);
            });
        });
    }

    fn choose_load(&mut self, node: usize, request: Request) {
        let it = &self.nodes[node];
        let passes = it.admits(&it.replica.label(), request.key);
        let replica = (passes || planted(Mistake::ReplicaAny)) && !self.one_in(3);
        self.load(node, request, replica, true);
    }

    fn load(&mut self, node: usize, request: Request, replica: bool, store: bool) {
        let key = request.key;
        let it = &mut self.nodes[node];
        let (ended, label) = (it.ended(key), it.reach.label());
        self.ids += 1;
        let id = self.ids;
        let mut alone = vec![request];
        if store {
            let waiters = std::mem::take(&mut alone);
            // Requests waiting on an older load get its response.
            let older = it.flights[key].replace(Flight { id, ended, waiters });
            if let Some(older) = older {
                self.nodes[node].flights[key].as_mut().unwrap().waiters.extend(older.waiters);
            }
        }
        let time = self.some_time(4 * MS, 40 * MS, 4);
        let snapshot = self.below(time);
        let (history, life) = (self.database.primary.history, self.nodes[node].life);
        self.after(snapshot, move |world| {
            if world.database.primary.history != history {
                // The session ended with its server.
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
                let label = if planted(Mistake::LabelAtEnd) { it.reach.label() } else { label };
                let unmoved = it.ended(key) == ended;
                if store && (unmoved || planted(Mistake::StoreMoved)) {
                    it.cache[key] = Some((version, it.ended(key)));
                }
                // A body whose key has ended may be shared: its label shows what it contains.
                if store
                    && (unmoved || world.one_in(3))
                    && let Some(label) = label
                {
                    let time = world.some_time(300, 20 * MS, 10);
                    world.after(time, move |world| {
                        drop(world.shared.insert(key, Body { version, label }));
                    });
                }
                for (n, waiter) in waiters.iter().enumerate() {
                    let source = match (n, replica) {
                        (0, true) => Source::Replica,
                        (0, false) => Source::Primary,
                        _ => Source::Joined,
                    };
                    world.answer(waiter, version, source);
                }
            });
        });
    }

    fn answer(&mut self, request: &Request, version: usize, source: Source) {
        self.served[source as usize] += 1;
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
            self.violation = Some(format!(
                "{source:?} at {now}: {version} although {needed:?} was acknowledged before {asked}"
            ));
        }
        let grace = 2 * self.timing.delay().as_micros() as u64;
        if commits[version].lost.is_some_and(|lost| lost + grace < asked) {
            let what = format!("{source:?} at {now}: {version}, which was lost before {asked}");
            self.violation = Some(what);
        }
    }
}
