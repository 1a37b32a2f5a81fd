//! The same parts as in the command; what they are is said there.

#![allow(dead_code, reason = "what stores is left out")]

#[path = "../../../crates/madang/src/import/markets/cell.rs"]
mod cell;
#[path = "../../../crates/madang/src/import/markets/facilities.rs"]
mod facilities;
#[path = "../../../crates/madang/src/import/markets/fuzzing.rs"]
pub mod fuzzing;
#[path = "../../../crates/madang/src/import/markets/json.rs"]
mod json;
#[path = "../../../crates/madang/src/import/markets/report.rs"]
mod report;
#[path = "../../../crates/madang/src/import/markets/row.rs"]
mod row;
#[path = "../../../crates/madang/src/import/markets/table.rs"]
mod table;
