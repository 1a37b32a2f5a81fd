//! HTTP beneath the systems: listener and connections, deadlines and limits, problems, negotiation,
//! conditional answers, paging.

mod acceptor;
pub mod body;
mod connection;
pub mod edge;
pub mod negotiate;
mod operations;
pub mod page;
pub mod problem;
mod request_id;
pub mod server;
mod worker;

pub use problem::{FieldError, Problem};
pub use request_id::RequestId;
