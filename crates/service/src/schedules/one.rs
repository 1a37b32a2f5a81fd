//! `GET /v1/schedules/{id}`.

use super::ScheduleId;
use super::represent::ScheduleBody;
use crate::accounts::Caller;
use crate::app::App;
use crate::http::Problem;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use std::sync::Arc;

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
    id: Result<Path<ScheduleId>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_schedule()) };
    let _turn = app.reads.enter().await?;
    let schedules = &app.schedules;
    let found = schedules.store().find(id, caller.id).await?.ok_or_else(no_such_schedule)?;
    Ok(schedules.bodies.private(ScheduleBody::from(found), &headers).await?)
}

/// Whether somebody else has one is nobody's business: the same answer, for the same work.
pub(super) fn no_such_schedule() -> Problem {
    Problem::not_found("you have no schedule with this id")
}
