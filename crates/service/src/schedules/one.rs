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
        (status = 403, description = "It is somebody else's"),
        (status = 404, description = "There is no such schedule"),
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
    match schedules.store().find(id).await? {
        Some(found) if found.values.user == caller.id => {
            Ok(schedules.bodies.private(ScheduleBody::from(found), &headers).await?)
        }
        Some(_) => Err(not_the_owner()),
        None => Err(no_such_schedule()),
    }
}

pub(super) fn no_such_schedule() -> Problem {
    Problem::not_found("there is no schedule with this id")
}

pub(super) fn not_the_owner() -> Problem {
    Problem::forbidden("this schedule is somebody else's")
}
