//! `GET /v1/schedules`: the caller's own, by begin; and `POST`.

use super::draft::{self, NewScheduleBody};
use super::one::ScheduleBody;
use super::{CreateError, Schedule};
use crate::accounts::Caller;
use crate::http::page::{Page, asked, write_whole_cursor};
use crate::http::{Answer, Create, Problem, Read};
use serde::Serialize;

/// The caller's schedules, by begin, those that begin together by id.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    security(("bearer" = [])),
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "One page", body = Page<ScheduleBody>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(caller: Caller, read: Read) -> Answer {
    // A cursor belongs to its user: it is a position among that user's schedules.
    let listing = format!("schedules:{}", caller.id);
    let (limit, after) = asked(read.query(), &listing)?;
    let _turn = read.app.reads.enter().await?;
    let schedules = &read.app.schedules;
    let found = schedules.store().page(caller.id, after, limit + 1).await?;
    let cursor = |last: &Schedule| write_whole_cursor(&listing, last.values.start_at_ms, last.id);
    let page = Page::cut(found, limit, cursor, ScheduleBody::from);
    Ok(schedules.responses.private(page, &read.headers).await?)
}

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
    params(("Idempotency-Key" = Option<String>, Header)),
    request_body = NewScheduleBody,
    responses(
        (status = 201, description = "Made; `Location` leads to it", body = CreatedSchedule),
        (status = 409, description = "The caller has as many schedules as allowed (`schedule-limit`)"),
    ))]
pub(super) async fn create(create: Create) -> Answer {
    let Create { app, caller, once, body } = create;
    let new = draft::schedule(body, caller.id)?;
    let (store, limit) = (app.schedules.store.clone(), app.schedules.limit);
    let made = app.writes.run(async move { store.create(new, once, limit).await }).await??;
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
            CreateError::UnknownUser => Problem::account_gone(),
            CreateError::Store(error) => error.into(),
        }
    }
}
