//! Many threads at once, checked against what is known to have been written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use madang_cache::{CacheConfig, Loaded, ManualClock, Policy, entry_weight};
use tokio::runtime::Builder;
use tokio::task::yield_now;

use crate::kit::{Boom, Kit, SECOND, body, plain, text_of, value};

const KEYS: usize = 8;
const THREADS: usize = 4;
const TASKS: usize = 8;
const ROUNDS: usize = 400;

/// The state behind the cache: for each key a number that only grows.
#[derive(Default)]
struct Truth {
    written: [AtomicU64; KEYS],
    /// The largest number whose write has finished: nobody may be given less after that.
    finished: [AtomicU64; KEYS],
}

#[derive(Clone)]
struct World {
    kit: Kit,
    clock: Arc<ManualClock>,
    truth: Arc<Truth>,
}

impl World {
    fn new() -> Self {
        // Room for about half of the keys, and lives of a few dozen operations, so that all ways
        // of serving are met.
        let capacity = entry_weight("0", Some(&value("1234"))) * (KEYS as u64 / 2);
        let config = CacheConfig { shards: 2, ..CacheConfig::with_capacity(capacity) };
        let policy = Policy {
            soft_ttl: 50 * SECOND,
            hard_ttl: 300 * SECOND,
            refresh_ahead: Some(0.3),
            soft_timeout: Duration::ZERO,
            jitter: 0.5,
            ..plain()
        };
        let (kit, clock) = Kit::with_manual_clock(&config, policy);
        Self { kit, clock, truth: Arc::default() }
    }

    async fn write(&self, key: usize) {
        yield_now().await;
        let new = self.truth.written[key].fetch_add(1, Ordering::SeqCst) + 1;
        yield_now().await;
        self.kit.write(&key.to_string());
        self.truth.finished[key].fetch_max(new, Ordering::SeqCst);
    }

    async fn read(&self, key: usize, fails: bool) {
        let floor = self.truth.finished[key].load(Ordering::SeqCst);
        let truth = Arc::clone(&self.truth);
        let loader = move || async move {
            yield_now().await;
            let seen = truth.written[key].load(Ordering::SeqCst);
            // Time for a write to come between.
            for _ in 0..seen % 4 {
                yield_now().await;
            }
            if fails { Err(Boom(0)) } else { Ok(Loaded::Store(value(&seen.to_string()))) }
        };
        let Ok(got) = self.kit.get_with(&key.to_string(), loader).await else { return };
        let given: u64 = text_of(&got.value.unwrap()).parse().unwrap();
        let ceiling = self.truth.written[key].load(Ordering::SeqCst);
        assert!(given >= floor, "{:?}: {given} is older than the finished {floor}", got.served);
        assert!(given <= ceiling, "{:?}: {given} was never written", got.served);
    }

    async fn work(self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..ROUNDS {
            let key = rng.usize(..KEYS);
            self.clock.advance(SECOND);
            match rng.u32(..10) {
                0 => self.write(key).await,
                1 => self.read(key, true).await,
                _ => self.read(key, false).await,
            }
        }
    }
}

#[test]
fn nobody_is_given_less_than_the_last_finished_write() {
    let world = World::new();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let world = world.clone();
            thread::spawn(move || {
                let runtime = Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    let tasks: Vec<_> = (0..TASKS)
                        .map(|task| {
                            tokio::spawn(world.clone().work((thread * TASKS + task) as u64))
                        })
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let m = world.kit.metrics();
    assert!(m.hits > 0 && m.coalesced > 0 && m.vetoed_fills > 0, "not much of a test: {m:?}");
    assert!(m.evictions > 0 && m.stale_served > 0 && m.refreshes > 0, "not much of a test: {m:?}");
}

#[test]
fn the_budget_holds_at_every_moment_while_many_threads_fill() {
    let capacity = 100_000;
    let kit = Kit::with_config(&CacheConfig::with_capacity(capacity));
    let watched = thread::scope(|scope| {
        let fillers: Vec<_> = (0..3_u64)
            .map(|seed| {
                let kit = kit.clone();
                scope.spawn(move || fill(&kit, seed))
            })
            .collect();
        let used = || kit.cache.used_bytes().max(kit.metrics().bytes);
        let mut most = 0;
        while fillers.iter().any(|filler| !filler.is_finished()) {
            most = most.max(used());
        }
        for filler in fillers {
            filler.join().unwrap();
        }
        // This thread may not have run while they did.
        most.max(used())
    });
    assert!(watched <= capacity, "{watched}");
    assert!(watched > capacity / 2, "not much of a test: {watched}");
    assert_eq!(kit.cache.used_bytes(), kit.metrics().bytes);
}

fn fill(kit: &Kit, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..3_000 {
            let key = rng.u32(..500).to_string();
            let text = "x".repeat(rng.usize(..3_000) * rng.usize(..4));
            kit.get(&key, body(&text)).await;
            if rng.u32(..20) == 0 {
                kit.write(&key);
            }
        }
    });
}
