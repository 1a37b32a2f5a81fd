//! `GET` and `DELETE /v1/tracks/{id}`; the latter for its owner alone.

use super::represent::{Form, Recipe, key, render};
use super::{TrackId, TrackState, Tracks, no_such_track, one_track};
use crate::config::Detail;
use crate::current;
use crate::http::body::respond;
use crate::http::negotiate::media_type;
use crate::http::problem::FieldError;
use crate::http::{Answer, By, PathId, Problem, Read, Write};
use crate::ops::record::Part;
use crate::response_cache::LoadError;
use crate::store::load_with;
use http::{HeaderMap, StatusCode};
use madang_cache::{Loaded, Value};
use std::time::Duration;

/// Time until a retry makes sense when there was no memory for a body.
const AGAIN: Duration = Duration::from_secs(1);

/// One track with its path.
///
/// `lengthMetres` and `pointsTotal` are those of the full path whatever the detail; `toleranceMetres`
/// says how far a left-out point may be from the line. With `Accept: application/geo+json` or
/// `application/gpx+xml` the same path comes in that format, and `encoding` has no meaning.
#[utoipa::path(get, path = "/v1/tracks/{id}", tag = "tracks", operation_id = "getTrack",
    params(
        ("id" = i64, Path, description = "Id of the track"),
        ("detail" = Option<String>, Query, description = "full, high (within 2 m), medium (10 m) or low (50 m); unset: the setting tracks.detail"),
        ("encoding" = Option<String>, Query, description = "points (default) or polyline (Google's encoding, 5 decimals)"),
    ),
    responses(
        (status = 200, description = "The track", body = super::list::TrackBody),
        (status = 304, description = "The client has it already (If-None-Match)"),
        (status = 404, description = "There is no such track"),
    ))]
pub(super) async fn one(id: PathId<TrackId>, read: Read) -> Answer {
    let id = id.or(no_such_track)?;
    let (tracks, headers) = (&read.app.tracks, &read.headers);
    let (detail, form) = choose(read.query(), headers, tracks.settings.detail)?;
    let body = tracks.body(id, detail, form, headers).await?.ok_or_else(no_such_track)?;
    Ok(respond(&body, headers))
}

/// Deletes a track. Only its owner may; public trails have none.
#[utoipa::path(delete, path = "/v1/tracks/{id}", tag = "tracks", operation_id = "deleteTrack",
    security(("bearer" = [])),
    params(("id" = i64, Path, description = "Id of the track")),
    responses(
        (status = 204, description = "It is gone, with its runs and its ranking"),
        (status = 403, description = "It belongs to somebody else, or to nobody"),
        (status = 404, description = "There is no such track"),
    ))]
pub(super) async fn delete(id: PathId<TrackId>, write: Write) -> Answer<StatusCode> {
    let id = id.or(no_such_track)?;
    let Write { app, caller, conditions } = write;
    let tracks = app.tracks.store().clone();
    let by = By::new(caller.id, conditions, |now: TrackState| Some(now.version()));
    let removed = app.writes.run(async move { tracks.delete(id, by).await });
    let not_the_owner = || Problem::forbidden("only its owner may delete a track");
    removed.await??.map_err(|refusal| refusal.answer(not_the_owner, no_such_track))?;
    Ok(StatusCode::NO_CONTENT)
}

fn choose(query: &str, headers: &HeaderMap, default: Detail) -> Answer<(Detail, Form)> {
    let (mut detail, mut form) = (default, Form::Points);
    let mut errors = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match (&*name, &*value) {
            ("detail", level) => match Detail::parse(level) {
                Some(level) => detail = level,
                None => errors.push(FieldError::new("detail", "full, high, medium or low")),
            },
            ("encoding", "points") => form = Form::Points,
            ("encoding", "polyline") => form = Form::Polyline,
            ("encoding", _) => errors.push(FieldError::new("encoding", "points or polyline")),
            _ => {}
        }
    }
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    match media_type(headers, &["application/json", "application/geo+json", "application/gpx+xml"])
    {
        "application/geo+json" => form = Form::GeoJson,
        "application/gpx+xml" => form = Form::Gpx,
        _ => {}
    }
    Ok((detail, form))
}

impl Tracks {
    /// The finished body of a track, from the cache or made now.
    async fn body(
        &self,
        id: TrackId,
        detail: Detail,
        form: Form,
        headers: &HeaderMap,
    ) -> Answer<Option<Value>> {
        let key = key(id, detail, form);
        if let Some(value) = self.details.peek_fresh(&key) {
            current::cached(true);
            return Ok(Some(value));
        }
        self.responses.reads().take_token().await?;
        current::cached(false);
        let _time = current::time(Part::Load);
        let (client, this) = (headers.clone(), self.clone());
        let reads = self.responses.reads().for_current_client();
        let load = move || async move { reads.load(this.load(id, detail, form, client)).await };
        Ok(self.details.get(&key, &[one_track(id)], load).await?.value)
    }

    async fn load(
        self,
        id: TrackId,
        detail: Detail,
        form: Form,
        client: HeaderMap,
    ) -> Result<Loaded, LoadError> {
        let Some(track) = load_with(vec![one_track(id)], self.store.find(id)).await? else {
            return Ok(Loaded::Absent);
        };
        let kept = self.is_kept(track.summary.length_metres);
        let compress = self.responses.compress(kept, &client);
        let recipe = Recipe { detail, form, simplify: self.settings.simplify };
        let answers = self.responses.answers().clone();
        let made = self.responses.compute().run(move |()| {
            // Reserved here and not before: only as many are made at once as there are threads.
            let making = answers.make(recipe.most_bytes(track.summary.points_total));
            let _making = making.ok_or(LoadError::NoRoom)?;
            render(&track, recipe, compress)
        });
        let value = match made.await? {
            Ok(value) => value,
            // A limit, not a failure of this track.
            Err(LoadError::NoRoom) => return Ok(Loaded::Overloaded { retry_after: AGAIN }),
            Err(error) => return Err(error),
        };
        Ok(if kept { Loaded::Store(value) } else { Loaded::Bypass(value) })
    }
}
