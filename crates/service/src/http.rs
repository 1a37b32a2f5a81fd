//! HTTP below the systems: listener, connections, deadlines, limits, problems, negotiation, conditional requests,
//! paging, JSON bodies.

mod acceptor;
pub(crate) mod answers;
pub(crate) mod body;
mod body_room;
mod client;
mod condition;
mod connection;
mod connection_slots;
mod cors;
pub(crate) mod dynamic_members;
pub(crate) mod edge;
pub(crate) mod gate;
pub(crate) mod head;
pub(crate) mod json;
pub(crate) mod limits;
pub(crate) mod negotiate;
mod operations;
pub(crate) mod page;
pub(crate) mod page_policy;
pub(crate) mod problem;
mod request;
mod request_id;
pub mod rfc3339;
pub mod server;
mod worker;

use ::http::{StatusCode, header};
use axum::Json;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

pub(crate) use answers::AnswerRoom;
pub(crate) use body_room::SMALL_BODY;
pub(crate) use client::{ClientAddress, OverTls, Proxies};
pub use condition::Refusal;
pub(crate) use condition::{By, Conditions, Remover};
pub(crate) use edge::LargestBody;
pub(crate) use gate::Gate;
pub(crate) use json::{JsonBody, JsonObject, Secret};
pub(crate) use problem::FieldError;
pub use problem::Problem;
pub(crate) use request::{Answer, Create, PathId, Read, Write};
pub(crate) use request_id::RequestId;

/// 201 with the new item and its location.
pub(crate) fn created(location: String, body: impl Serialize) -> Response {
    (StatusCode::CREATED, [(header::LOCATION, location)], Json(body)).into_response()
}

/// 200 with a body that no cache may keep.
pub(crate) fn not_stored(body: impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
