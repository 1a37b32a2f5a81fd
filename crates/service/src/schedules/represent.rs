//! Schedules as clients see them.

use super::LoadError;
use super::{Schedule, Schedules};
use crate::http::body::{Compress, finish, respond};
use crate::http::negotiate::Encodings;
use crate::http::rfc3339::format_utc;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use madang_cache::Value;
use serde::Serialize;

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
    fn from(schedule: Schedule) -> Self {
        let values = schedule.values;
        Self {
            id: schedule.id,
            title: values.title,
            location_id: values.location,
            start_at: format_utc(values.start_at_ms),
            end_at: format_utc(values.end_at_ms),
            created_at: format_utc(values.created_at_ms),
        }
    }
}

impl Schedules {
    /// Writes JSON on the compute pool, and compresses it.
    pub(super) async fn write(
        &self,
        body: impl Serialize + Send + 'static,
        compress: Compress,
    ) -> Result<Value, LoadError> {
        let value = self.compute.run(move |()| {
            // Numbers and strings into memory: cannot fail.
            let json = serde_json::to_vec(&body).unwrap_or_default();
            finish(json, "application/json", compress)
        });
        Ok(value.await?)
    }

    /// The answer with something of the caller's own: no cache that others share may keep it.
    pub(super) async fn private(
        &self,
        body: impl Serialize + Send + 'static,
        headers: &HeaderMap,
    ) -> Result<Response, LoadError> {
        let compress = Compress::plan(self.compression, None, Encodings::accepted(headers));
        let mut response = respond(&self.write(body, compress).await?, headers);
        let no_sharing = HeaderValue::from_static("private, no-cache");
        response.headers_mut().insert(header::CACHE_CONTROL, no_sharing);
        response.headers_mut().append(header::VARY, HeaderValue::from_static("authorization"));
        Ok(response)
    }
}
