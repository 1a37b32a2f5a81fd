//! The promises of the guard, one test each.
//!
//! Both clocks stand still unless a test moves them, and the runtime's timer advances only when all tasks wait for it.
//! A test that holds a reservation plays the part of the password hash.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cafe;
mod device_tokens;
mod kit;
mod limits;
mod memory;
mod model;
mod modes;
mod proofs;
mod spraying;
mod stores;
mod stress;
mod waiting;
