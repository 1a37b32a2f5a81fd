//! The promises of this crate, kept against real processes that are really killed.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod balancer;
mod budget;
mod databases;
mod help;
mod nginx;
mod no_process_left;
mod observe;
mod run;
mod tls;
