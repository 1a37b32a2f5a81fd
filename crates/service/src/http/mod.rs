//! HTTP beneath the systems: listener and connections, deadlines and limits, problems, negotiation,
//! conditional answers, paging, JSON bodies.

mod acceptor;
pub mod body;
mod body_room;
mod client;
mod condition;
mod connection;
pub mod edge;
pub mod gate;
pub mod json;
pub mod negotiate;
mod operations;
pub mod page;
pub mod problem;
mod request_id;
pub mod rfc3339;
pub mod server;
pub mod splice;
mod worker;

pub use client::{ClientAddress, OverTls, Proxies};
pub use condition::{By, Conditions};
pub use gate::Gate;
pub use json::{JsonBody, JsonObject, Secret};
pub use problem::{FieldError, Problem};
pub use request_id::RequestId;
