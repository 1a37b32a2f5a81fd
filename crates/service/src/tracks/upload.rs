//! `POST /v1/tracks` and `DELETE /v1/tracks/{id}`: users' own tracks.

mod read;

use super::represent::length;
use super::{Deleted, NewTrack, Stored, TrackId, TrackStore, WriteTrackError};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::Problem;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use read::Kind;
use serde::Serialize;
use std::sync::Arc;

/// A new track (documentation of the JSON that `read` reads).
#[derive(utoipa::ToSchema)]
#[allow(dead_code, reason = "describes a body")]
struct NewTrackBody {
    /// 1 to 200 characters in one line.
    name: String,
    /// Rating in stars, 0 to 5; 0 or absent = not rated.
    rate: Option<f64>,
    /// Lines of `[latitude, longitude, elevation?]`: degrees and metres, WGS 84; two points at least.
    segments: Vec<Vec<Vec<f64>>>,
}

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

/// Stores a track: as JSON, or as a GPX or GeoJSON file.
///
/// A file's own name is taken unless `name` says otherwise. The same name and path are stored once:
/// sent again, whoever sent them first, they are answered 409.
#[utoipa::path(post, path = "/v1/tracks", tag = "tracks",
    params(
        ("name" = Option<String>, Query, description = "name of the track in a GPX or GeoJSON file that has none, or instead of its own"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters: sent again with the same body, the first answer comes back"),
    ),
    request_body(content(
        (NewTrackBody = "application/json"),
        (String = "application/gpx+xml"),
        (String = "application/geo+json"),
    )),
    responses(
        (status = 201, description = "Stored; Location leads to it", body = CreatedTrack),
        (status = 400, description = "The body cannot be read"),
        (status = 401, description = "No valid token"),
        (status = 409, description = "The same name and path are there already"),
        (status = 413, description = "The body is larger than server.max_body"),
        (status = 415, description = "Neither JSON, GPX nor GeoJSON"),
        (status = 422, description = "No path, or values that are not accepted"),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let kind = Kind::of(&headers)?;
    let name = read::name_of(query.as_deref().unwrap_or(""))?;
    // Reading, measuring and packing a long path is no work for an event loop.
    let prepared = app.compute.run(move |()| {
        let read = read::track(kind, body, name)?;
        let (points, metres) = (read.path.points() as u64, length(read.path.length_metres()));
        let about = (read.name.clone(), metres, points);
        let track =
            NewTrack { name: read.name, rate: read.rate, path: read.path, owner: Some(caller.id) };
        Ok::<_, Problem>((TrackStore::prepare(track), about))
    });
    let (track, (name, length_metres, points_total)) =
        prepared.await.map_err(crate::store::StoreError::from)??;
    match app.tracks.add_prepared(track).await? {
        Stored::Created(id) => {
            Ok(created(id, &CreatedTrack { id, name, length_metres, points_total }))
        }
        Stored::Exists(id) => Err(Problem::conflict(
            "track-exists",
            format!("the same name and path are there already: /v1/tracks/{id}"),
        )),
    }
}

/// Deletes a track. Only its owner may; public trails have none.
#[utoipa::path(delete, path = "/v1/tracks/{id}", tag = "tracks",
    params(("id" = i64, Path, description = "Id of the track")),
    responses(
        (status = 204, description = "It is gone, with its runs and its ranking"),
        (status = 401, description = "No valid token"),
        (status = 403, description = "It belongs to somebody else, or to nobody"),
        (status = 404, description = "There is no such track"),
    ))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    id: Result<Path<TrackId>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let missing = || Problem::not_found("there is no track with this id");
    let Ok(Path(id)) = id else { return Err(missing()) };
    match app.tracks.remove_owned(id, caller.id).await? {
        Deleted::Gone => Ok(StatusCode::NO_CONTENT),
        Deleted::NotOwner => Err(Problem::forbidden("only its owner may delete a track")),
        Deleted::Missing => Err(missing()),
    }
}

fn created(id: TrackId, body: &CreatedTrack) -> Response {
    let text = serde_json::to_vec(body).unwrap_or_default();
    let mut response = (StatusCode::CREATED, text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/tracks/{id}")) {
        headers.insert(header::LOCATION, location);
    }
    response
}

impl From<WriteTrackError> for Problem {
    fn from(error: WriteTrackError) -> Self {
        match error {
            WriteTrackError::Store(error) => error.into(),
            WriteTrackError::Cache(error) => {
                Problem::unavailable("too many writes at once", 1, error.to_string())
            }
            WriteTrackError::Abandoned => {
                Problem::unavailable("the server is stopping", 1, error.to_string())
            }
        }
    }
}
