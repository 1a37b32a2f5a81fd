//! The promises of this crate, kept against real processes that are really killed.

mod help;
mod nginx;
mod no_process_left;
mod observe;
mod run;
