//! `GET /v1/tracks/{id}/records`: the ranking.

use super::super::{TrackId, Tracks, no_such_track, one_track};
use super::{Ranked, ranking_of};
use crate::http::page::{self, Page, write_whole_cursor};
use crate::http::rfc3339::format_utc;
use crate::http::{Answer, PathId, Read};
use crate::response_cache::Wanted;
use serde::Serialize;

/// A place in the ranking.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct RankItem {
    /// Id of the run.
    id: i64,
    /// 1 + how many runners were faster; equal times share a rank.
    rank: u64,
    /// The runner.
    nickname: String,
    /// Duration of the run in seconds.
    duration_seconds: f64,
    /// Start, RFC 3339 in UTC.
    ran_at: String,
}

/// The runners of a track, fastest first: each with one personal best.
#[utoipa::path(get, path = "/v1/tracks/{id}/records", tag = "tracks", operation_id = "listTrackRecords",
    params(
        ("id" = i64, Path, description = "Id of the track"),
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<RankItem>),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "There is no such track"),
    ))]
pub(in super::super) async fn list(id: PathId<TrackId>, read: Read) -> Answer {
    let track = id.or(no_such_track)?;
    let listing = format!("track-ranking:{track}");
    let (limit, after) = page::asked(read.query(), &listing)?;
    let key = match after {
        None => format!("{track}.{limit}"),
        Some((duration_ms, user)) => format!("{track}.{limit}.{duration_ms}.{user}"),
    };
    let stamps = [one_track(track), ranking_of(track)];
    let wanted = Wanted { key: &key, stamps: &stamps, kept: true };
    let Tracks { responses, rankings, records, .. } = &read.app.tracks;
    let records = records.clone();
    let make = move || async move {
        let found = records.ranking(track, after, limit + 1).await?;
        let cursor = |last: &Ranked| write_whole_cursor(&listing, last.duration_ms, last.user);
        Ok(found.map(|rows| Page::cut(rows, limit, cursor, RankItem::from)))
    };
    responses.answer(rankings, wanted, &read.headers, make, no_such_track).await
}

impl From<Ranked> for RankItem {
    fn from(run: Ranked) -> Self {
        Self {
            id: run.id,
            rank: run.rank,
            nickname: run.nickname,
            duration_seconds: super::seconds(run.duration_ms),
            ran_at: format_utc(run.ran_at_ms),
        }
    }
}
