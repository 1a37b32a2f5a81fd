//! HTTP beneath the systems: listener and connections, deadlines and limits, problems, negotiation,
//! conditional answers, paging, JSON bodies.

mod acceptor;
pub mod answers;
pub mod body;
mod body_room;
mod client;
mod condition;
mod connection;
mod connection_slots;
mod cors;
pub mod dynamic_members;
pub mod edge;
pub mod gate;
pub(crate) mod head;
pub mod json;
pub(crate) mod label;
pub(crate) mod limits;
pub mod negotiate;
mod operations;
pub mod page;
pub mod page_policy;
pub mod problem;
mod request;
mod request_id;
pub mod rfc3339;
pub mod server;
mod sharers;
mod worker;

pub use answers::AnswerRoom;
pub use body_room::SMALL_BODY;
pub use client::{ClientAddress, OverTls, Proxies};
pub use condition::{By, Conditions, Refusal, Remover};
pub use edge::LargestBody;
pub use gate::Gate;
pub use json::{JsonBody, JsonObject, Secret};
pub use problem::{FieldError, Problem};
pub(crate) use request::{Answer, Create, PathId, Read, Write};
pub use request_id::RequestId;

/// 201 with what was made and where it is.
pub(crate) fn created(location: String, body: impl serde::Serialize) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    (::http::StatusCode::CREATED, [(::http::header::LOCATION, location)], axum::Json(body))
        .into_response()
}

/// 200 with what nobody may keep.
pub(crate) fn not_stored(body: impl serde::Serialize) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    ([(::http::header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
}
