//! Schemes, stored hashes and the pool, with real hashing.
#![allow(clippy::unwrap_used)] // helpers of tests

mod child;
mod known_answers;
mod pool;
mod refused;
mod scheme;
mod stored;
