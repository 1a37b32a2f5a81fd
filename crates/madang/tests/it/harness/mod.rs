//! A small language for tests: start the program, ask it, look at what it says.

pub mod browser;
pub mod client;
pub mod command;
pub mod data;
pub mod database;
pub mod namespace;
pub mod people;
pub mod server;
pub mod stores;

pub use client::{Answer, Connection};
pub use command::{Madang, Output};
pub use people::{PASSWORD, Person};
pub use server::{Server, Setup};

use std::time::{Duration, Instant};

/// How long anything may take that is expected to happen; only a failing test waits this long.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Looks again and again until `look` finds something.
///
/// # Panics
/// When it has not by the deadline; `what` says what was waited for.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
