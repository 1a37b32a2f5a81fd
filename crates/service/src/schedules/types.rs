//! Types of schedules and places.

use crate::accounts::UserId;
use serde::Serialize;

/// Identifier of a schedule, never reused.
pub type ScheduleId = i64;

/// Identifier of a place. Places are inserted by migrations.
pub type LocationId = i64;

/// A schedule to be stored. Its values have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// The owner.
    pub user: UserId,
    /// The place.
    pub location: LocationId,
    /// 1 to 100 characters.
    pub title: String,
    /// Begin, UTC, in milliseconds since 1970.
    pub start_at_ms: i64,
    /// End, after the begin, likewise.
    pub end_at_ms: i64,
    /// Creation time, likewise.
    pub created_at_ms: i64,
}

/// A stored schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub id: ScheduleId,
    pub values: NewSchedule,
}

/// A place.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = LocationItem)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// Identifier, the `locationId` of schedules.
    #[schema(value_type = i64)]
    pub id: LocationId,
    /// Name in Korean.
    pub name: String,
    /// Name in English.
    pub name_english: String,
    /// Latitude and longitude, WGS 84 degrees.
    pub position: [f64; 2],
}
