//! Whole experiments with real servers and a real load, and their failures.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod broken;
mod budget;
mod cgroup;
mod containers;
mod databases;
mod duet;
mod file;
mod generator;
mod help;
mod hooks;
#[path = "../fixture/host.rs"]
mod host;
mod invariants;
mod killed;
mod korean;
mod nothing_good;
mod page;
mod recorded;
mod refused;
mod report_schema;
mod resample;
mod rich;
mod rounds;
mod schema;
#[path = "../fixture/sql.rs"]
mod sql;
mod stored;
mod trees;
mod verdicts;
