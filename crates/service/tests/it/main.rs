//! Integration tests of the service: one binary, one module a promise.

mod durability;
mod harness;
mod left_clients;
