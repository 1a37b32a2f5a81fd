//! The promises of the cache, one test each.
//!
//! Time stands still in most of them: the runtime's clock is paused, and moves when a test moves
//! it or when everybody waits for a timer. Loaders stop at gates that the test opens.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod backoff;
mod coherence;
mod expiry;
mod kit;
mod metrics;
mod model;
mod refresh;
mod runtimes;
mod single_flight;
mod stale;
mod stress;
