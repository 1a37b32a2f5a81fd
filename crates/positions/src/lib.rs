//! When may one of several nodes answer from what it remembers?
//!
//! The promise: *an answer to a request that arrives after a write was acknowledged is never older than that
//! write, on any node.* It rests on one database and on clocks that measure elapsed time. Nothing here reads a
//! clock, opens a connection or waits: who uses it passes in the time and what the database said, so that a
//! simulation can run the same code through millions of orders of events.
//!
//! # Words
//! - A **lane** is one node's own sequence of numbers in the *outbox*, a table of the database. Each transaction
//!   that ends something others may remember inserts its row there, last: lane, number, effects. Every number
//!   becomes a row, its transaction's or an empty one ([`Lane`]).
//! - A **position** says how much of the outbox something contains: for each lane one number ([`Position`]).
//! - A **slot** stands for everything that a write may end: the bodies of an article, a page of posts. Slots are
//!   few and names are hashed onto them; to end too much is harmless.
//! - A **history** is what one database server remembers. After a crash or a failover it is another one, because
//!   what was seen before may not have been kept.
//!
//! # How the promise is kept
//! 1. A node polls the outbox and notes when each poll *began* ([`Follower::apply`]).
//! 2. It uses its memory for a request only if a complete poll began no earlier than [`Timing::window`] before
//!    that request arrived ([`Follower::is_fresh`]); otherwise the request waits for such a poll.
//! 3. A write is acknowledged no earlier than [`Timing::delay`] after its commit. The delay is longer than the
//!    window, so whoever asks after the acknowledgement is answered from a poll that began after the commit, and
//!    has seen its row.
//!
//! What was remembered elsewhere (a body in a shared tier, a replica) says at which position it was; it may be
//! used if that reaches every write that ended its slots ([`Follower::admits`]).
//!
//! ```
//! use madang_positions::{Follower, Moment, Poll, Position, Row, Slot, Timing};
//! use std::time::Duration;
//!
//! let timing = Timing::new(Duration::from_millis(25));
//! let mut node = Follower::new(1024, timing);
//! let at = |ms| Moment::since_boot(Duration::from_millis(ms));
//! let poll = |began, rows| Poll { began: at(began), history: 1, marks: Position::default(), rows };
//! node.apply(poll(1000, vec![]));
//! assert!(node.is_fresh(at(1015)) && !node.is_fresh(at(1030)));
//!
//! let post = Slot::of("post:17", 1024);
//! let (stamps, label) = (node.stamps(&[post]), node.label());
//! // ... a body is loaded here, and somebody changes the post ...
//! node.apply(poll(1010, vec![Row { lane: 0, number: 1, ends: vec![post], payload: () }]));
//! assert!(!node.unmoved(&stamps), "the body may be from before: it is not kept");
//! assert!(!node.admits(&label, &[post]), "nor is it taken from elsewhere");
//! ```

mod follower;
mod lane;
mod planted;
mod position;
#[cfg(test)]
mod simulation;
pub mod sql;
mod timing;

pub use follower::{Applied, Follower, Label, Poll, Replica, Row, Slot, Stamps, Wanted};
pub use lane::{Lane, Settled};
pub use position::{LANES, Position};
pub use timing::{Moment, Timing};
