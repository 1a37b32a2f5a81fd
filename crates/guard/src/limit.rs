//! The attempt limiter: counters, the trait through which nodes share them, and waiting.
//!
//! # Windows
//! Every counter of failures slides in eighths of its window: the clock is cut into steps of `window / 8`, a failure
//! belongs to the step in which it was reported, and it counts in that step and the eight after it. So no interval as
//! long as the window ever holds more failures than allowed, and a failure expires between one and nine eighths of a
//! window after it happened. While the clock stands still nothing expires; a leap ahead expires failures at once.
//!
//! # Reservations
//! An attempt is counted *before* its password is hashed, as in flight, on every axis that it counts against (pair,
//! account, address, password), and it is admitted only if failures and attempts in flight together leave room on all
//! of them. All counters of one attempt are read and changed while the locks of all of them are held, taken in the
//! order pair, account, address, password (for a device token: the device token, then all device tokens of the
//! account): no other attempt sees half a reservation, and there is nothing to roll back.
//!
//! # Waiting
//! An attempt for which only those in flight leave no room is neither admitted nor refused: it waits until they end
//! (a success makes room, the last allowed failure refuses all waiters), at most
//! [`Waiting::longest`](crate::config::Waiting). Waiters for the same allowance are served in order of arrival. Their
//! number is bounded, per allowance and in total. A waiter that leaves, for any reason, wakes the next.
//!
//! # Memory
//! Each kind of counter lives in a table of fixed size: sets of eight, found by a keyed hash that nobody outside can
//! predict. Refused attempts never take a place. When a set is full, the entry with the fewest failures is evicted,
//! among equals the least recently used; entries under suspicion go after all others, and entries with attempts in
//! flight never. So an entry with n failures is evicted only once seven others in its set have n each. Every failure
//! costs a password hash, and nobody outside can tell which names or addresses share a set: to reach one set on
//! purpose an attacker has to fill all, with 7 n / 8 failures per place of the table. For a pair that is used up (ten
//! failures) that is 573,440 hashes within 15 minutes at the default capacity; a core that computes argon2id at
//! OWASP's parameters manages about 40,000. A flood does evict entries with one or two failures, which gives that
//! many guesses back.

mod distinct;
mod id;
mod ip;
mod memory;
mod room;
mod rules;
mod store;
mod table;
mod valkey;
mod window;

pub use id::Id;
pub use memory::MemoryStore;
pub use store::{
    Answer, AttemptOutcome, AttemptStore, Axis, Decision, ProofStore, Request, StoreError,
    StoreMetrics, Subject,
};
pub use valkey::ValkeyStore;

pub(crate) use id::Hashing;
pub(crate) use ip::IpLimiter;
pub(crate) use room::{QueuePlace, Room};
