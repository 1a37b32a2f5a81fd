//! `POST /v1/schedules`.

use super::draft::NewScheduleBody;
use super::{CreateError, Draft};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use crate::idempotency::IdempotencyKey;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

/// The schedule that was made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedSchedule {
    /// Its identifier.
    id: i64,
    /// The same, under the name that existing scripts read.
    schedule_id: i64,
}

/// Makes a schedule of the caller's own.
#[utoipa::path(post, path = "/v1/schedules", tag = "schedules", operation_id = "createSchedule",
    security(("bearer" = [])),
    params(
        ("Idempotency-Key" = Option<String>, Header),
    ),
    request_body = NewScheduleBody,
    responses(
        (status = 201, description = "Made; `Location` leads to it", body = CreatedSchedule),
        (status = 409, description = "The caller has as many schedules as allowed (`schedule-limit`)"),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonObject,
) -> Result<Response, Problem> {
    let once = key.used_by(caller.id, body.bytes());
    let new = Draft::read(body)?.owned_by(caller.id);
    let this = Arc::clone(&app);
    let made = app.writes.run(async move { this.schedules.add(new, once).await }).await??;
    Ok(made.answer(|id| {
        crate::http::created(format!("/v1/schedules/{id}"), CreatedSchedule { id, schedule_id: id })
    }))
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::LimitReached => Problem::conflict(
                "schedule-limit",
                "the limit of schedules per user is reached; delete one first",
            ),
            CreateError::UnknownLocation => {
                Problem::invalid_field("locationId", "an id from GET /v1/locations")
            }
            CreateError::UnknownUser => {
                Problem::invalid_token("the account of this token no longer exists")
            }
            CreateError::Store(error) => error.into(),
        }
    }
}
