//! `GET /v1/schedules`: the caller's own, by begin.

use super::represent::ScheduleBody;
use super::{AfterStart, Schedule};
use crate::accounts::{Caller, UserId};
use crate::app::App;
use crate::http::Problem;
use crate::http::page::{Page, asked, write_whole_cursor};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use std::sync::Arc;

/// The caller's schedules, by begin, those that begin together by id.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    security(("bearer" = [])),
    params(
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<ScheduleBody>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let listing = listing(caller.id);
    let (limit, after) = asked(query.as_deref().unwrap_or(""), &listing)?;
    let _turn = app.reads.enter().await?;
    let schedules = &app.schedules;
    let after = after.map(|(start_at_ms, id)| AfterStart { start_at_ms, id });
    let found = schedules.store().page(caller.id, after, limit + 1).await?;
    let cursor = |last: &Schedule| write_whole_cursor(&listing, last.values.start_at_ms, last.id);
    let page = Page::cut(found, limit, cursor, ScheduleBody::from);
    Ok(schedules.responses.private(page, &headers).await?)
}

/// A cursor belongs to its user: it is a position among that user's schedules.
fn listing(user: UserId) -> String {
    format!("schedules:{user}")
}
