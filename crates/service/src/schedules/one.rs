//! `GET` and `DELETE /v1/schedules/{id}`.

use super::represent::ScheduleBody;
use super::{Schedule, ScheduleId, Schedules};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{By, Conditions, PathId, Problem, Refusal, body};
use crate::store::StoreError;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

impl Schedules {
    /// Deletes a schedule of this user. Dropping the future does not undo it.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn remove(
        &self,
        id: ScheduleId,
        by: By<Schedule>,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let counted = Arc::clone(&self.counted);
        let committed = move || {
            counted.deleted.fetch_add(1, Ordering::Relaxed);
        };
        self.store.delete(id, by, committed).await
    }
}
