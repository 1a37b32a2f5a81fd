//! `DELETE /v1/schedules/{id}`.

use super::one::no_such_schedule;
use super::represent::ScheduleBody;
use super::{Deletion, Schedule, ScheduleId, Schedules};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{By, Conditions, Problem, body};
use crate::store::StoreError;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    id: Result<Path<ScheduleId>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Ok(Path(id)) = id else { return Err(no_such_schedule()) };
    let this = Arc::clone(&app);
    let version = |now: Schedule| Some(body::version(&ScheduleBody::from(now)));
    let by = By::new(caller.id, conditions, version);
    let removed = app.writes.run(async move { this.schedules.remove(id, by).await });
    match removed.await?? {
        Deletion::Deleted => Ok(StatusCode::NO_CONTENT),
        Deletion::Outdated => Err(Problem::precondition_failed()),
        Deletion::Absent => Err(no_such_schedule()),
    }
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
    ) -> Result<Deletion, StoreError> {
        let counted = Arc::clone(&self.counted);
        let committed = move || {
            counted.deleted.fetch_add(1, Ordering::Relaxed);
        };
        self.store.delete(id, by, committed).await
    }
}
