//! Nodes with memory, a shared tier and lagging replicas over one database, in made-up time: the protocol is run
//! through random orders of events, and every answer is compared with what had been acknowledged before it was
//! asked for. What depends on nothing but the seed can be run again.
//!
//! In it are: slow, failing and paged polls, stalled commits, commits whose outcome is unknown, clocks of
//! different rates, nodes that pause, die and start again, machines that are suspended, lanes that change hands,
//! deleted rows, a primary that crashes or is replaced by a replica that had not received everything, servers of a
//! cluster that lag behind each other, a tier that forgets and goes back in time.

mod database;
mod node;
mod world;

use crate::planted::{Mistake, plant};
use world::{Kind, World};

/// What is to be run: `SIMULATION_SEEDS`, or this many of each kind.
const SEEDS: u64 = 150;

fn seeds() -> u64 {
    std::env::var("SIMULATION_SEEDS").map_or(SEEDS, |text| text.parse().expect("a number"))
}

/// The first seed of each kind that shows a fault, among so many, and what it shows.
fn search(kinds: &[Kind], seeds: u64) -> Option<(Kind, u64, String)> {
    let runs = (0..seeds).flat_map(|seed| kinds.iter().map(move |kind| (*kind, seed)));
    runs.into_iter().find_map(|(kind, seed)| {
        let found = World::run(kind, seed).err()?;
        Some((kind, seed, found))
    })
}

#[test]
fn no_answer_is_older_than_what_was_acknowledged_before_it_was_asked_for() {
    plant(None);
    let found = search(&Kind::ALL, seeds());
    assert_eq!(found, None, "(kind, seed, what was found)");
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
    use Mistake::*;
    let all = [
        DateByEnd,
        ForgetGaps,
        EndAtClosed,
        ClaimHighest,
        JoinAny,
        RemoteAny,
        ReplicaAny,
        ReplicaUnfresh,
        LabelAtEnd,
        StoreMoved,
        KeepMoved,
        NoDelay,
        HitMoved,
        NoMargin,
        RevealAtOnce,
        LeaveGap,
        ClaimUnfilled,
        InsertUnowned,
        DeleteBeyondGap,
        IgnoreMarks,
        StartAtZero,
        AnyHistory,
        IgnoreHistory,
        ReadWithoutWait,
    ];
    let missed: Vec<Mistake> = all
        .into_iter()
        .filter(|mistake| {
            plant(Some(*mistake));
            let found = search(&Kind::ALL, 1000);
            if let Some((kind, seed, what)) = &found {
                println!("{mistake:?}: {kind:?}, seed {seed}: {what}");
            }
            found.is_none()
        })
        .collect();
    plant(None);
    assert_eq!(missed, []);
}
