//! The body of a new schedule, checked.

use super::{LocationId, NewSchedule};
use crate::accounts::UserId;
use crate::http::json::table::{Asked, Line, Time, Whole, required, table};
use crate::http::rfc3339::now_ms;
use crate::http::{JsonObject, Problem};

/// Most characters of a title.
pub const LONGEST_TITLE: usize = 100;

/// Highest id of a place that is looked up: far beyond all there will be, and exact in every client.
const HIGHEST_LOCATION: i64 = 1_000_000_000;

/// Longest time from begin to end, in milliseconds: 366 days, so that a year fits whichever it is. What
/// takes longer is a slip of the pen, and would lie across every listing by time.
pub const LONGEST_MS: i64 = 366 * 24 * 3600 * 1000;

table! {
    /// A schedule to be made.
    pub(super) struct Fields: NewScheduleBody (All);
    /// What is planned, on one line.
    title: Line = required("title", Line(1..=LONGEST_TITLE), "한강 달리기");
    /// Where: the id of one of `GET /v1/locations`.
    location: Whole = required("locationId", Whole(1..=HIGHEST_LOCATION), 1);
    /// Begin, RFC 3339 with any offset, from 1970 to 9999 in UTC.
    start: Time = required("startAt", Time, "2026-12-01T19:00:00+09:00");
    /// End, likewise: after the begin, within 366 days of it.
    end: Time = required("endAt", Time, "2026-12-01T20:30:00+09:00");
}

/// What a client asks to be stored. Times are UTC, in milliseconds since 1970, from 1970 to 9999.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// 1 to [`LONGEST_TITLE`] characters on one line, at least one of them visible.
    pub title: String,
    /// Where; whether there is such a place is for the store to say.
    pub location: LocationId,
    /// Begin.
    pub start_at_ms: i64,
    /// End: after the begin by [`LONGEST_MS`] at most.
    pub end_at_ms: i64,
}

impl Draft {
    /// Reads a body.
    ///
    /// # Errors
    /// 422 with every field that is wrong.
    pub fn read(mut body: JsonObject) -> Result<Draft, Problem> {
        let Fields { title, location, start, end } = Fields::read(&mut body, Asked::All);
        if let (Some(start), Some(end)) = (start, end) {
            if end <= start {
                body.refuse("endAt", "a time after startAt");
            } else if end - start > LONGEST_MS {
                body.refuse("endAt", "a time within 366 days of startAt");
            }
        }
        let (title, location, start_at_ms, end_at_ms) =
            body.finish((title, location, start, end))?;
        Ok(Draft { title, location, start_at_ms, end_at_ms })
    }

    /// The schedule it becomes for this user, now.
    pub fn owned_by(self, user: UserId) -> NewSchedule {
        NewSchedule {
            user,
            location: self.location,
            title: self.title,
            start_at_ms: self.start_at_ms,
            end_at_ms: self.end_at_ms,
            created_at_ms: now_ms(),
        }
    }
}
