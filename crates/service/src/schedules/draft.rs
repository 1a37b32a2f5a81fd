//! The body of a new schedule, checked.

use super::NewSchedule;
use crate::accounts::UserId;
use crate::http::json::table::{Asked, Line, Time, Whole, required, table};
use crate::http::rfc3339::now_ms;
use crate::http::{JsonObject, Problem};

/// Highest id of a place that is looked up: far beyond all real ones, and exact in every client.
const HIGHEST_LOCATION: i64 = 1_000_000_000;

/// Longest duration in milliseconds: 366 days, so that any year fits. A longer one is a mistake, and would appear in
/// every listing by time.
const LONGEST_MS: i64 = 366 * 24 * 3600 * 1000;

table! {
    /// A schedule to be made.
    pub(super) struct Fields: NewScheduleBody (All);
    /// Title, on one line.
    title: Line = required("title", Line(1..=100), "한강 달리기");
    /// Location: the id of one of `GET /v1/locations`.
    location: Whole = required("locationId", Whole(1..=HIGHEST_LOCATION), 1);
    /// Begin, RFC 3339 with any offset, from 1970 to 9999 in UTC.
    start: Time = required("startAt", Time, "2026-12-01T19:00:00+09:00");
    /// End, likewise: after the begin, within 366 days of it.
    end: Time = required("endAt", Time, "2026-12-01T20:30:00+09:00");
}

/// Reads a schedule of this user, created now. The store checks that the place exists.
pub(crate) fn schedule(mut body: JsonObject, user: UserId) -> Result<NewSchedule, Problem> {
    let Fields { title, location, start, end } = Fields::read(&mut body, Asked::All);
    if let (Some(start), Some(end)) = (start, end) {
        if end <= start {
            body.refuse("endAt", "a time after startAt");
        } else if end - start > LONGEST_MS {
            body.refuse("endAt", "a time within 366 days of startAt");
        }
    }
    let (title, location, start_at_ms, end_at_ms) = body.finish((title, location, start, end))?;
    Ok(NewSchedule { user, location, title, start_at_ms, end_at_ms, created_at_ms: now_ms() })
}
