//! The metrics count exactly what happened.

use madang_cache::{Cache, CacheConfig, Loaded, MetricsSnapshot, Policy, entry_weight};
use tokio::time::advance;

use crate::kit::{Boom, Kit, MS, SECOND, body, plain, value};

/// A snapshot with the given figures and zero elsewhere. (The type is not exhaustive, so that it
/// may grow; a test compares all of it nevertheless.)
fn figures(set: impl FnOnce(&mut MetricsSnapshot)) -> MetricsSnapshot {
    let mut snapshot = MetricsSnapshot::default();
    set(&mut snapshot);
    snapshot
}

#[tokio::test(start_paused = true)]
async fn every_look_up_is_counted_once() {
    let kit = Kit::new(Policy { failure_backoff: 100 * MS, max_entry_bytes: 1000, ..plain() });
    kit.get("k", body("v")).await; // miss, load
    kit.hit("k").await; // hit
    assert!(kit.peek("k").is_some()); // hit
    assert!(kit.peek("unknown").is_none()); // not counted
    kit.get("none", Ok(Loaded::Absent)).await; // miss, load
    kit.hit("none").await; // negative hit
    let load = kit.begin_load("slow").await; // miss, load
    let follower = kit.join_load("slow").await; // coalesced
    kit.write("slow");
    load.answer(body("v")).await; // vetoed
    follower.await.unwrap();
    kit.get("large", body(&"x".repeat(1000))).await; // miss, load, refused by size
    kit.get("bypass", Ok(Loaded::Bypass(value("v")))).await; // miss, load, refused by predicate
    advance(60 * SECOND).await;
    kit.get("k", Err(Boom(1))).await; // miss, load, error, stale
    kit.hit("k").await; // backing off, stale
    assert_eq!(
        kit.metrics(),
        figures(|m| {
            m.hits = 2;
            m.negative_hits = 1;
            m.misses = 6;
            m.coalesced = 1;
            m.stale_served = 2;
            m.loads = 6;
            m.load_errors = 1;
            m.vetoed_fills = 1;
            m.refused_by_predicate = 1;
            m.refused_by_size = 1;
            m.backing_off = 1;
            m.entries = 2; // "none" is dead, and not yet met
            m.bytes = entry_weight("k", Some(&value("v"))) + entry_weight("none", None);
        })
    );
}

#[tokio::test(start_paused = true)]
async fn each_name_has_figures_of_its_own_and_evictions_go_to_the_name_that_lost() {
    let weight = entry_weight("1", Some(&value("v")));
    let config = CacheConfig { shards: 1, ..CacheConfig::with_capacity(2 * weight) };
    let cache = Cache::new(&config).unwrap();
    let [tracks, markets] = ["tracks", "markets"].map(|name| Kit::part_of(&cache, name, plain()));
    tracks.get("1", body("v")).await;
    markets.get("1", body("v")).await;
    markets.get("2", body("v")).await;
    let all = cache.metrics();
    let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["tracks", "markets"]);
    let lost = figures(|m| (m.misses, m.loads, m.evictions) = (1, 1, 1));
    assert_eq!(all[0].1, lost);
    let filled = figures(|m| (m.misses, m.loads, m.entries, m.bytes) = (2, 2, 2, 2 * weight));
    assert_eq!(all[1].1, filled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counts_of_many_threads_add_up() {
    let kit = Kit::new(plain());
    kit.get("k", body("v")).await;
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let kit = kit.clone();
            std::thread::spawn(move || (0..1000).filter(|_| kit.peek("k").is_some()).count())
        })
        .collect();
    let hits: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((hits, kit.metrics().hits), (20_000, 20_000));
}
