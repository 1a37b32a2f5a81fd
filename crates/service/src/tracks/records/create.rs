//! `POST /v1/tracks/{id}/records`: a run.

use super::super::{TrackId, no_such_track};
use super::NewRun;
use crate::http::json::table::{Asked, Number, Time, optional, required, table};
use crate::http::rfc3339::{format_utc, now_ms};
use crate::http::{Answer, Create, JsonObject, PathId, Problem};
use serde::Serialize;

/// Longest run in seconds: a week, more than any continuous race on foot.
const LONGEST_SECONDS: f64 = 7.0 * 86_400.0;

/// Tolerated lead of a phone's clock.
const AHEAD_MS: i64 = 5 * 60 * 1000;

table! {
    /// A run to be stored.
    struct Fields: NewRunBody (All);
    /// Duration in seconds, to the millisecond; a week at most.
    duration: Number = required("durationSeconds", Number(0.001..=LONGEST_SECONDS), 4210.5);
    /// Start, RFC 3339 with any offset; the run has ended by now; absent = it has just ended.
    ran_at: Time = optional("ranAt", Time, "2026-11-01T07:30:00+09:00");
}

/// A run that was stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct CreatedRun {
    /// Its id.
    id: i64,
    /// The track.
    track_id: TrackId,
    /// Duration in seconds.
    duration_seconds: f64,
    /// Start, RFC 3339 in UTC.
    ran_at: String,
    /// Whether it is now the runner's best on this track, the one that is ranked.
    personal_best: bool,
}

/// Stores a run of the caller on a track. The fastest of a runner is the one that is ranked.
#[utoipa::path(post, path = "/v1/tracks/{id}/records", tag = "tracks", operation_id = "createTrackRecord",
    security(("bearer" = [])),
    params(
        ("id" = i64, Path, description = "Id of the track"),
        ("Idempotency-Key" = Option<String>, Header),
    ),
    request_body = NewRunBody,
    responses(
        (status = 201, description = "Stored; Location leads to the ranking", body = CreatedRun),
        (status = 404, description = "There is no such track"),
    ))]
pub(in super::super) async fn create(id: PathId<TrackId>, create: Create) -> Answer {
    let track = id.or(no_such_track)?;
    let Create { app, caller, once, body } = create;
    let now = now_ms();
    let (duration_ms, ran_at_ms) = read(body, now)?;
    let run = NewRun { track, user: caller.id, duration_ms, ran_at_ms, created_at_ms: now };
    let records = app.tracks.records.clone();
    let stored = app.writes.run(async move { records.add(run, once).await }).await??;
    let stored = stored.made().ok_or_else(no_such_track)?;
    Ok(stored.answer(|run| {
        let body = CreatedRun {
            id: run.id,
            track_id: track,
            duration_seconds: super::seconds(duration_ms),
            ran_at: format_utc(run.ran_at_ms),
            personal_best: run.personal_best,
        };
        crate::http::created(format!("/v1/tracks/{track}/records"), body)
    }))
}

/// Reads duration and beginning of a run, in milliseconds.
fn read(mut body: JsonObject, now: i64) -> Result<(i64, i64), Problem> {
    let Fields { duration, ran_at } = Fields::read(&mut body, Asked::All);
    #[allow(clippy::cast_possible_truncation, reason = "within a week of milliseconds")]
    let duration = duration.map(|seconds| (seconds * 1000.0).round() as i64);
    let began = match (body.has("ranAt"), duration) {
        (true, _) => ran_at,
        (false, duration) => duration.map(|ms| now - ms),
    };
    if began.zip(duration).is_some_and(|(began, took)| began + took > now + AHEAD_MS) {
        body.refuse("ranAt", "a time at least durationSeconds in the past");
    }
    body.finish((duration, began))
}
