//! The attempt limiter: counters, the seam behind which they can be shared, and waiting.
//!
//! # Windows
//! Every counter of failures slides in eighths of its window: the clock is cut into steps of
//! `window / 8`, a failure belongs to the step in which it was reported, and it counts in that step
//! and the eight after it. So no interval as long as the window ever holds more failures than
//! allowed, and a failure is forgotten between one and nine eighths of a window after it happened.
//! A clock that stands still forgets nothing; one that leaps ahead forgets at once.
//!
//! # Reservations
//! An attempt is counted *before* its password is hashed, as in flight, on every axis that it
//! counts against (pair, account, address, password), and it is admitted only if failures and
//! attempts in flight together leave room on all of them. All counters of one attempt are looked at
//! and changed while the locks of all of them are held, taken in the order pair, account, address,
//! password; there is no moment at which another attempt could see half a reservation, and nothing
//! to roll back.
//!
//! # Waiting
//! An attempt for which only those in flight leave no room is neither admitted nor refused: it
//! waits until they end (a success makes room, the last allowed failure refuses everybody), at most
//! [`Waiting::longest`](crate::config::Waiting). Those who wait for the same allowance are served in
//! the order in which they came, and newcomers stand behind them. Places are bounded, per allowance
//! and in total. A waiter that goes away, for whatever reason, wakes the one behind it.
//!
//! # Memory
//! Each kind of counter lives in a table of fixed size: sets of eight, found by a keyed hash that
//! nobody outside can predict. Refused attempts never take a place. When a set is full, the entry
//! with the fewest failures goes, among equals the one not touched for longest; entries with attempts
//! in flight or under suspicion are the last. To make the guard forget an account, address or pair
//! with n failures, an attacker must therefore fail n times with each of eight others that fall into
//! the same set, and cannot tell which do: on average that takes as many password hashes as
//! n times the table has places (655,360 for a pair used up, at the default capacity, within 15 min).
//! An entry with a single failure is forgotten sooner, which gives one guess back.

mod answer;
mod distinct;
mod id;
mod ip;
mod memory;
mod room;
mod rules;
mod store;
mod table;
mod window;

pub use answer::Answer;
pub use id::Id;
pub use memory::MemoryStore;
pub use store::{
    AttemptStore, Axis, Decision, Request, StoreError, StoreFigures, Subject, Verdict,
};

pub(crate) use id::Hashing;
pub(crate) use ip::IpBlock;
pub(crate) use room::{Place, Room};
