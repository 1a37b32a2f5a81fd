//! A small language for tests: start the program, ask it, look at what it says.

pub mod browser;
pub mod client;
pub mod command;
pub mod data;
pub mod database;
pub mod namespace;
pub mod people;
pub mod server;
pub mod stores;
pub mod up;

pub use client::{Answer, Connection};
pub use command::{Madang, Output};
pub use people::{PASSWORD, Person};
pub use server::{Server, Setup, sum};

pub use madang_testing::{DEADLINE, until as eventually};
