//! `POST /v1/tracks`: users' own tracks.

pub(crate) mod read;

use super::represent::length;
use super::{NewTrack, PreparedTrack, Stored, TrackId, TrackStore};
use crate::accounts::{Caller, UserId};
use crate::app::App;
use crate::http::{Answer, Problem};
use crate::idempotency::{IdempotencyKey, Once};
use crate::store::StoreError;
use axum::extract::{RawQuery, State};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};
use read::{NewTrackBody, Upload, UploadFormat};
use serde::Serialize;
use std::sync::Arc;

/// A track that was stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedTrack {
    /// Its id.
    id: TrackId,
    /// Its name.
    name: String,
    /// Length of the path in metres.
    length_metres: f64,
    /// Points of the path.
    points_total: u64,
}

/// True for the head of an upload, the one request whose body may be large.
pub(crate) fn is_upload(parts: &Parts) -> bool {
    parts.method == Method::POST && parts.uri.path() == "/v1/tracks"
}

/// Stores a track: as JSON, or as a GPX or GeoJSON file.
///
/// A file's own name is taken unless `name` says otherwise. The same name and path are stored once:
/// sent again, whoever sent them first, they are answered 409.
#[utoipa::path(post, path = "/v1/tracks", tag = "tracks", operation_id = "createTrack",
    security(("bearer" = [])),
    params(
        ("name" = Option<String>, Query, description = "name of the track in a GPX or GeoJSON file that has none, or instead of its own"),
        ("Idempotency-Key" = Option<String>, Header),
    ),
    request_body(content(
        (NewTrackBody = "application/json"),
        (String = "application/gpx+xml"),
        (serde_json::Value = "application/geo+json"),
    )),
    responses(
        (status = 201, description = "Stored; Location leads to it", body = CreatedTrack),
        (status = 409, description = "The same name and path are there already"),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let kind = UploadFormat::of(&headers)?;
    let name = read::name_of(query.as_deref().unwrap_or(""))?;
    let permit = app.uploads.enter().await?;
    let owner = caller.id;
    let prepare = move |(): &mut ()| {
        // Held until the work is done or discarded, also when the client has left meanwhile.
        let _permit = permit;
        prepare(kind, body, name, owner, key)
    };
    let (track, about, once) = app.compute.run(prepare).await.map_err(StoreError::from)??;
    let tracks = app.tracks.store().clone();
    let stored = app.writes.run(async move { tracks.create(track, once).await }).await??;
    match stored.outcome {
        Stored::Created(id) => Ok(stored.answer(|_| {
            crate::http::created(format!("/v1/tracks/{id}"), CreatedTrack { id, ..about })
        })),
        Stored::Exists(id) => Err(Problem::conflict(
            "track-exists",
            format!("a track with this name and path exists: /v1/tracks/{id}"),
        )),
    }
}

/// Reads, measures and encodes the path, and hashes the body: too much for an event loop.
fn prepare(
    kind: UploadFormat,
    body: Bytes,
    name: Option<String>,
    owner: UserId,
    key: IdempotencyKey,
) -> Answer<(PreparedTrack, CreatedTrack, Once)> {
    let once = key.used_by(owner, &body);
    let Upload { name, rate, path } = read::track(kind, body, name)?;
    let about = CreatedTrack {
        // Set when the track is stored.
        id: 0,
        name: name.clone(),
        length_metres: length(path.length_metres()),
        points_total: path.points() as u64,
    };
    let track = NewTrack { name, rate, path, owner: Some(owner) };
    Ok((TrackStore::prepare(track), about, once))
}
