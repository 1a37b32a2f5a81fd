//! Black-box tests of the command: the real program, real sockets, real files.
//!
//! Each test starts `madang` as a process, with a data directory of its own and a port the system
//! picks, and judges by what leaves the process: answers, output, exit codes, files.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod abuse;
mod accounts;
mod accounts_guard;
mod accounts_hash;
mod accounts_input;
mod accounts_suspicion;
mod accounts_tokens;
mod articles;
mod articles_input;
mod bodies;
mod client_address;
mod conditional;
mod connections;
mod demo;
mod disk;
mod docs;
mod faults;
mod harness;
mod health;
mod home;
mod home_access;
mod home_markets;
mod home_page;
mod idempotency;
mod import;
mod import_markets;
mod import_refusals;
mod likes;
mod likes_crash;
mod market_views;
mod markets;
mod metrics;
mod optimisations;
mod overload;
mod posts;
mod posts_input;
mod protocol;
mod repository;
mod request_ids;
mod schedules;
mod schedules_input;
mod schedules_limit;
mod seed;
mod seed_articles;
mod settings;
mod settings_file;
mod shared_work;
mod shutdown;
mod track_detail;
mod track_formats;
mod track_lists;
mod track_near;
mod track_records;
mod track_uploads;
