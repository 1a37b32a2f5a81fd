//! `POST /v1/schedules`.

use super::{CreateError, Draft, ScheduleId};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{JsonObject, Problem};
use crate::idempotency::IdempotencyKey;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A schedule to be made (documentation of the JSON that [`Draft`] reads).
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes the body in the OpenAPI document")]
pub(super) struct CreateBody {
    /// What is planned: 1 to 100 characters on one line.
    #[schema(min_length = 1, max_length = 100)]
    title: String,
    /// Where: the id of one of `GET /v1/locations`.
    #[schema(minimum = 1)]
    location_id: i64,
    /// Begin, RFC 3339 with any offset, from 1970 to 9999 in UTC.
    #[schema(example = "2026-11-21T18:30:00+09:00", format = DateTime)]
    start_at: String,
    /// End, likewise: after the begin, within 366 days of it.
    #[schema(example = "2026-11-21T20:00:00+09:00", format = DateTime)]
    end_at: String,
}

/// The schedule that was made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedBody {
    /// Its identifier.
    id: i64,
    /// The same, under the name that existing scripts read.
    schedule_id: i64,
}

/// Makes a schedule of the caller's own.
#[utoipa::path(post, path = "/v1/schedules", tag = "schedules", operation_id = "createSchedule",
    security(("bearer" = [])),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters: sent again with the same body, the first answer comes back"),
    ),
    request_body = CreateBody,
    responses(
        (status = 201, description = "Made; `Location` leads to it", body = CreatedBody),
        (status = 400, description = "The body is no JSON"),
        (status = 401, description = "No valid token"),
        (status = 409, description = "The caller has as many schedules as allowed (`schedule-limit`)"),
        (status = 422, description = "A field has a wrong type or value, or the place is unknown"),
        (status = 503, description = "Too much is in progress"),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonObject,
) -> Result<Response, Problem> {
    let once = key.of(caller.id, body.bytes());
    let new = Draft::read(body)?.of(caller.id);
    let this = Arc::clone(&app);
    let made = app.writes.run(async move { this.schedules.add(new, once).await }).await??;
    Ok(made.answer(created))
}

fn created(id: ScheduleId) -> Response {
    let location = [(header::LOCATION, format!("/v1/schedules/{id}"))];
    let body = axum::Json(CreatedBody { id, schedule_id: id });
    (StatusCode::CREATED, location, body).into_response()
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
                Problem::unauthorized("the account of this token no longer exists")
            }
            CreateError::Store(error) => error.into(),
        }
    }
}
