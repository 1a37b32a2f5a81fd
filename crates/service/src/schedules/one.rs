//! `GET` and `DELETE /v1/schedules/{id}`.

use super::{Schedule, ScheduleId};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::rfc3339::format_utc;
use crate::http::{By, Conditions, PathId, Problem, body};
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use std::sync::Arc;

/// A schedule. All times are UTC.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScheduleBody {
    /// Identifier.
    id: i64,
    /// What is planned.
    title: String,
    /// Where: the id of one of `GET /v1/locations`.
    location_id: i64,
    /// Begin, RFC 3339, UTC with milliseconds.
    start_at: String,
    /// End, likewise.
    end_at: String,
    /// When the schedule was made, likewise.
    created_at: String,
}

impl From<Schedule> for ScheduleBody {
    fn from(Schedule { id, values }: Schedule) -> Self {
        Self {
            id,
            title: values.title,
            location_id: values.location,
            start_at: format_utc(values.start_at_ms),
            end_at: format_utc(values.end_at_ms),
            created_at: format_utc(values.created_at_ms),
        }
    }
}

/// One of the caller's schedules.
#[utoipa::path(get, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "getSchedule",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the schedule")),
    responses(
        (status = 200, description = "The schedule", body = ScheduleBody),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "The caller has no such schedule"),
    ))]
pub(super) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: PathId<ScheduleId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_schedule()) };
    let _turn = app.reads.enter().await?;
    let schedules = &app.schedules;
    let found = schedules.store().find(id, caller.id).await?.ok_or_else(no_such_schedule)?;
    Ok(schedules.responses.private(ScheduleBody::from(found), &headers).await?)
}

/// Deletes one of the caller's schedules; it no longer counts towards the limit.
#[utoipa::path(delete, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "deleteSchedule",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the schedule")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "The caller has no such schedule, or no longer"),
    ))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    conditions: Conditions,
    id: PathId<ScheduleId>,
) -> Result<StatusCode, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_schedule()) };
    let this = Arc::clone(&app);
    let version = |now: Schedule| Some(body::version(&ScheduleBody::from(now)));
    let by = By::new(caller.id, conditions, version);
    let removed = app.writes.run(async move { this.schedules.remove(id, by).await });
    removed.await??.map_err(|refusal| refusal.answer(no_such_schedule, no_such_schedule))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether somebody else has one is nobody's business: the same answer, for the same work.
fn no_such_schedule() -> Problem {
    Problem::not_found("you have no schedule with this id")
}
