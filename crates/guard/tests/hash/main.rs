//! Schemes, stored hashes and the pool, with real hashing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod known_answers;
mod pool;
mod refused;
mod scheme;
mod stored;
