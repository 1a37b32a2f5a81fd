//! Schedules as clients see them.

use super::Schedule;
use crate::http::rfc3339::format_utc;
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
