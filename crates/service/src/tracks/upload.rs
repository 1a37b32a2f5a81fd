//! `POST /v1/tracks` and `DELETE /v1/tracks/{id}`: users' own tracks.

use super::{Deleted, NewTrack, Stored, TrackId, TrackStore, WriteTrackError};
use crate::accounts::Caller;
use crate::app::App;
use crate::http::{FieldError, Problem};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use madang_path::{Document, Limits};
use std::sync::Arc;

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

/// Stores a track: JSON, GPX or GeoJSON.
#[utoipa::path(post, path = "/v1/tracks", tag = "tracks",
    request_body(content = String, content_type = "application/gpx+xml"),
    responses(
        (status = 201, description = "Stored; Location leads to it"),
        (status = 401, description = "No valid token"),
    ))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let _ = (&headers, &query);
    let prepared = app
        .compute
        .run(move |()| {
            let document: Document = madang_path::read(&body, &Limits::default())
                .map_err(|e| Problem::invalid_field("body", e.to_string()))?;
            let name = document
                .name
                .ok_or_else(|| Problem::invalid(vec![FieldError::new("name", "a name")]))?;
            let path = document.path;
            Ok::<_, Problem>(TrackStore::prepare(NewTrack {
                name,
                rate: 0.0,
                path,
                owner: Some(caller.id),
            }))
        })
        .await
        .map_err(crate::store::StoreError::from)??;
    match app.tracks.add_prepared(prepared).await? {
        Stored::Created(id) => {
            let mut response = StatusCode::CREATED.into_response();
            if let Ok(location) = HeaderValue::from_str(&format!("/v1/tracks/{id}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
        Stored::Exists(_) => {
            Err(Problem::conflict("track-exists", "the same name and path are there already"))
        }
    }
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
