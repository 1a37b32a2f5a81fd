//! `GET` and `DELETE /v1/schedules/{id}`.

use super::{Schedule, ScheduleId};
use crate::accounts::Caller;
use crate::http::rfc3339::format_utc;
use crate::http::{Answer, By, PathId, Problem, Read, Write, body};
use http::StatusCode;
use serde::Serialize;

/// A schedule. All times are UTC.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScheduleBody {
    /// Identifier.
    id: i64,
    /// Title.
    title: String,
    /// Location: the id of one of `GET /v1/locations`.
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
pub(super) async fn one(id: PathId<ScheduleId>, caller: Caller, read: Read) -> Answer {
    let id = id.or(no_such_schedule)?;
    let _turn = read.app.reads.enter().await?;
    let schedules = &read.app.schedules;
    let found = schedules.store().find(id, caller.id).await?.ok_or_else(no_such_schedule)?;
    Ok(schedules.responses.private(ScheduleBody::from(found), &read.headers).await?)
}

/// Deletes one of the caller's schedules; it no longer counts towards the limit.
#[utoipa::path(delete, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "deleteSchedule",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the schedule")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "The caller has no such schedule, or no longer"),
    ))]
pub(super) async fn delete(id: PathId<ScheduleId>, write: Write) -> Answer<StatusCode> {
    let id = id.or(no_such_schedule)?;
    let Write { app, caller, conditions } = write;
    let store = app.schedules.store.clone();
    let version = |now: Schedule| Some(body::version(&ScheduleBody::from(now)));
    let by = By::new(caller.id, conditions, version);
    let removed = app.writes.run(async move { store.delete(id, by).await });
    removed.await??.map_err(|refusal| refusal.answer(no_such_schedule, no_such_schedule))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The same response, for the same work, whether or not another user has a schedule of this id.
fn no_such_schedule() -> Problem {
    Problem::not_found("you have no schedule with this id")
}
