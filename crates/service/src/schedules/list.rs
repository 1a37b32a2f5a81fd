//! `GET /v1/schedules`: the caller's own, by begin.

use super::AfterStart;
use super::represent::ScheduleBody;
use crate::accounts::{Caller, UserId};
use crate::app::App;
use crate::http::Problem;
use crate::http::page::{self, Page, read_cursor, write_cursor};
use crate::http::problem::FieldError;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use std::sync::Arc;

/// The caller's schedules, by begin, those that begin together by id.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    security(("bearer" = [])),
    params(
        ("limit" = Option<u32>, Query, description = "items, 1 to 100; default 20"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before"),
    ),
    responses(
        (status = 200, description = "One page", body = Page<ScheduleBody>),
        (status = 401, description = "No valid token"),
        (status = 422, description = "A parameter has a wrong value"),
        (status = 503, description = "Too much is in progress"),
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
    let mut found = schedules.store().page(caller.id, after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found
        .last()
        .filter(|_| more)
        .map(|last| write_cursor(&listing, sort_value(last.values.start_at_ms), last.id));
    let items: Vec<_> = found.into_iter().map(ScheduleBody::from).collect();
    Ok(schedules.private(Page { items, next_cursor }, &headers).await?)
}

/// A cursor belongs to its user: it is a position among that user's schedules.
fn listing(user: UserId) -> String {
    format!("schedules:{user}")
}

/// Limit and position of a request, by any whole number and an id.
pub(super) fn asked(query: &str, listing: &str) -> Result<(usize, Option<(i64, i64)>), Problem> {
    let (mut limit, mut cursor) = (None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => limit = Some(value.into_owned()),
            "cursor" => cursor = Some(value.into_owned()),
            _ => {}
        }
    }
    let limit = page::limit(limit.as_deref());
    let after = cursor.map(|cursor| position(listing, &cursor)).transpose();
    match (limit, after) {
        (Ok(limit), Ok(after)) => Ok((limit, after)),
        (limit, after) => {
            Err(Problem::invalid(limit.err().into_iter().chain(after.err()).collect()))
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "what `sort_value` made of a whole number")]
fn position(listing: &str, cursor: &str) -> Result<(i64, i64), FieldError> {
    read_cursor(listing, cursor).map(|(sort, id)| (sort as i64, id))
}

/// Cursors sort by a floating-point number, which holds every millisecond up to the year 9999 exactly.
#[allow(clippy::cast_precision_loss, reason = "times are below 2^53")]
pub(super) fn sort_value(ms: i64) -> f64 {
    ms as f64
}
