//! Nodes with memory, a shared cache and lagging replicas over one database, in simulated time. The protocol runs
//! through random orders of events, and every answer is compared with the writes acknowledged before its request. A
//! run depends on its seed alone, so it can be repeated.
//!
//! Simulated are: slow, failing and paged polls, stalled commits, commits with an unknown outcome, clocks of
//! different rates, nodes that pause, die and restart, suspended machines, lanes that change owners, deleted rows, a
//! primary that crashes or is replaced by a replica that lacks some writes, servers of a cluster that lag behind one
//! another, a cache that loses entries and goes back in time.

mod database;
mod node;
mod world;

use crate::planted::{Mistake, plant};
use world::{Kind, World};

/// Schedules of each kind, unless `SIMULATION_SEEDS` says otherwise.
const SEEDS: u64 = 500;

/// The first of these seeds with a violation in a world of any kind.
fn search(seeds: impl IntoIterator<Item = u64>) -> Option<(Kind, u64, String)> {
    let mut runs = seeds.into_iter().flat_map(|seed| Kind::ALL.map(|kind| (kind, seed)));
    runs.find_map(|(kind, seed)| Some((kind, seed, World::run(kind, seed).err()?)))
}

#[test]
fn no_answer_is_older_than_what_was_acknowledged_before_it_was_asked_for() {
    let seeds = std::env::var("SIMULATION_SEEDS");
    let seeds: u64 = seeds.map_or(SEEDS, |text| text.parse().expect("a number"));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found: Vec<_> = std::thread::scope(|scope| {
        let search = |first| move || search((first..seeds).step_by(threads));
        let searches: Vec<_> =
            (0..seeds).take(threads).map(|first| scope.spawn(search(first))).collect();
        searches.into_iter().filter_map(|one| one.join().unwrap()).collect()
    });
    assert!(found.is_empty(), "(kind, seed, what was found): {found:?}");
}

#[test]
fn every_way_of_answering_is_taken() {
    plant(None);
    for kind in Kind::ALL {
        let served =
            (0..40).map(|seed| World::run(kind, seed).unwrap()).fold([0; 5], |sum, run| {
                let mut sum = sum;
                sum.iter_mut().zip(run).for_each(|(sum, n)| *sum += n);
                sum
            });
        // Hits, bodies of the shared tier, loads from the primary and from replicas, and joined loads.
        assert!(served.iter().all(|n| *n > 100), "{kind:?}: {served:?}");
    }
}

#[test]
fn every_planted_mistake_is_found() {
    let missed: Vec<_> = Mistake::ALL
        .iter()
        .filter(|&&mistake| {
            plant(Some(mistake));
            let found = search(0..1000);
            if let Some((kind, seed, what)) = &found {
                println!("{mistake:?}: {kind:?}, seed {seed}: {what}");
            }
            found.is_none()
        })
        .collect();
    plant(None);
    assert!(missed.is_empty(), "{missed:?}");
}
