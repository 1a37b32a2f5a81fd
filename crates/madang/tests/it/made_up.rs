//! Requests made up by a grammar, by the hundred thousand: the server answers each as its OpenAPI document says, and
//! uses no more memory for having answered many.
//!
//! `FUZZ_REQUESTS` says how many, and `FUZZ_SEED` which: `make soak` asks for ten million of a seed of its own. The
//! requests follow from the seed alone, whatever is answered; what is wrong is printed with the bytes that were sent.

mod answers;
mod grammar;
mod operations;
mod sender;

use crate::answers::memory;
use crate::harness::{Setup, stores};
use operations::Operations;
use sender::{Sender, Tally};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Operations that a short run may not carry out: luck decides whether a row is its caller's.
const MOST_MISSING: usize = 4;
/// Clients at once, each with connections of its own. Two never found the connection that was reset in about one of half
/// a million, which eight did.
const CLIENTS: u64 = 8;
/// Memory that may come with time: caches and pools that had not been full, and what allocators keep.
const MOST_GROWTH: u64 = 64 << 20;
/// Requests after which those are full.
const WARM_UP: u64 = 2_000_000;

fn asked(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn requests_of_a_grammar_are_answered_as_documented() {
    let (wanted, seed) = (asked("FUZZ_REQUESTS", 40_000), asked("FUZZ_SEED", 1));
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let operations = Arc::new(Operations::of(&server));
    let stopped = AtomicBool::new(false);
    let warm_up = WARM_UP.min(wanted / 2);
    let began = Instant::now();
    let (mut done, mut after_warm_up, mut said) = (0, 0, 0);
    let (counted, counts) = channel();
    let tally = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut sender = Sender::new(&server, Arc::clone(&operations), seed, client);
                let (stopped, counted) = (&stopped, counted.clone());
                scope.spawn(move || {
                    // One that has found something ends the others.
                    let _ends = Ends(stopped);
                    while !stopped.load(Ordering::Relaxed)
                        && counted.send(sender.exchange()).is_ok()
                    {}
                    sender.tally
                })
            })
            .collect();
        drop(counted);
        // Ends when the last client has ended, be it by a finding.
        for count in counts {
            done += count;
            if after_warm_up == 0 && done >= warm_up {
                after_warm_up = memory(&server, "VmRSS");
            }
            if done / 250_000 > said {
                said = done / 250_000;
                let rate = done as f64 / began.elapsed().as_secs_f64();
                println!(
                    "{done} requests, {rate:.0} a second, {} MiB",
                    memory(&server, "VmRSS") >> 20
                );
            }
            if done >= wanted {
                stopped.store(true, Ordering::Relaxed);
            }
        }
        clients.into_iter().fold(Tally::default(), |all, client| all.and(&client.join().unwrap()))
    });
    println!("{tally} in {:.0} s, seed {seed}", began.elapsed().as_secs_f64());
    let missing = tally.missing(&operations);
    assert!(missing.len() <= MOST_MISSING, "never carried out: {missing:?}");
    server.is_well();
    assert!(!server.log().contains("ERROR"), "{}", server.log());
    let at_the_end = memory(&server, "VmRSS");
    let grown = at_the_end.saturating_sub(after_warm_up);
    assert!(grown <= MOST_GROWTH, "memory grew from {after_warm_up} to {at_the_end} bytes");
}

/// Stops all clients when it is dropped.
struct Ends<'s>(&'s AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
