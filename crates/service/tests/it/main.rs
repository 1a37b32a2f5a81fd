//! Integration tests of the service: one binary, one module a promise.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod coherence;
mod durability;
mod full_disk;
mod harness;
mod left_clients;
