//! `GET /v1/tracks`: by nearness or by length.

use super::represent::length;
use super::types::{Position, TrackSummary};
use super::{Tracks, all_tracks};
use crate::http::body::respond;
use crate::http::page::{self, Page, Query, read_cursor, write_cursor};
use crate::http::{Answer, FieldError, Problem, Read};
use crate::response_cache::{LoadError, Wanted, no_listing};
use http::HeaderMap;
use madang_path::Point;
use serde::Serialize;

/// A track in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackItem {
    /// Identifier.
    id: i64,
    /// Name.
    name: String,
    /// Rating in stars, 0 to 5; 0 = not rated.
    rate: f64,
    /// Length of the full path in metres.
    length_metres: f64,
    /// Points of the full path.
    points_total: u64,
    /// First point: latitude, longitude.
    start: [f64; 2],
    /// Distance of the start from `near`, in metres; absent in other lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance_metres: Option<f64>,
}

/// A track with its path (documentation of the JSON that `represent` writes).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrackBody {
    /// Identifier.
    id: i64,
    /// Name.
    name: String,
    /// Rating in stars, 0 to 5; 0 = not rated.
    rate: f64,
    /// Length of the full path in metres, whatever the detail.
    length_metres: f64,
    /// Points of the full path.
    points_total: u64,
    /// Points in this answer.
    points_returned: u64,
    /// The level of detail of this answer.
    detail: String,
    /// Largest distance in metres of a left-out point from the returned line.
    tolerance_metres: f64,
    /// Lines of `[latitude, longitude, elevation?]`; with `encoding=points`.
    segments: Option<Vec<Vec<Vec<f64>>>>,
    /// The same lines in Google's encoding; with `encoding=polyline`.
    polylines: Option<Vec<String>>,
}

impl TrackItem {
    fn new(track: TrackSummary, distance_metres: Option<f64>) -> Self {
        Self {
            id: track.id,
            name: track.name,
            rate: track.rate,
            length_metres: length(track.length_metres),
            points_total: track.points_total,
            start: [track.start.lat, track.start.lon],
            distance_metres: distance_metres.map(length),
        }
    }
}

/// Tracks, longest first or nearest first.
#[utoipa::path(get, path = "/v1/tracks", tag = "tracks", operation_id = "listTracks",
    params(
        ("near" = Option<String>, Query, description = "latitude,longitude: tracks by the distance of their start, nearest first"),
        ("sort" = Option<String>, Query, description = "length: longest first (default when near is not given)"),
        ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "One page", body = Page<TrackItem>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(read: Read) -> Answer {
    let Asked { order, limit } = Asked::parse(read.query()).map_err(Problem::invalid)?;
    let (tracks, headers) = (&read.app.tracks, &read.headers);
    match order {
        Order::Near(centre, after) => {
            let _turn = tracks.responses.reads().enter().await?;
            let page = tracks.near_page(centre, after, limit).await?;
            let compress = tracks.responses.compress(false, headers);
            Ok(respond(&tracks.responses.json(page, compress).await?, headers))
        }
        Order::Length(after) => tracks.length_page(after, limit, headers).await,
    }
}

/// A request for a page.
pub(crate) struct Asked {
    order: Order,
    limit: usize,
}

/// The order of a page, with the position of the last track before it.
pub(crate) enum Order {
    Length(Option<Position>),
    Near(Point, Option<Position>),
}

impl Asked {
    /// Reads a query, and reports all errors at once.
    pub(crate) fn parse(query: &str) -> Result<Asked, Vec<FieldError>> {
        let query = Query::of(query);
        let [near, cursor] = ["near", "cursor"].map(|name| query.get(name));
        let mut errors = Vec::new();
        let limit = page::limit(query.get("limit")).map_err(|e| errors.push(e));
        match (query.get("sort"), near) {
            (Some("length"), Some(_)) => {
                errors.push(FieldError::new("sort", "either near or sort, not both"));
            }
            (Some("length") | None, _) => {}
            (Some(_), _) => errors.push(FieldError::new("sort", "length")),
        }
        let order = match near {
            Some(near) => near_order(near, cursor),
            None => length_order(cursor),
        };
        match (order, limit, errors.is_empty()) {
            (Ok(order), Ok(limit), true) => Ok(Asked { order, limit }),
            (order, ..) => {
                errors.extend(order.err());
                Err(errors)
            }
        }
    }
}

/// Name of a listing, to which its cursors belong: around another centre their distance would mean nothing.
fn near_listing(centre: Point) -> String {
    format!("tracks:near:{},{}", centre.lat, centre.lon)
}

fn near_order(near: &str, cursor: Option<&str>) -> Result<Order, FieldError> {
    let centre = page::point("near", near)?;
    let after = cursor.map(|cursor| read_cursor(&near_listing(centre), cursor)).transpose()?;
    Ok(Order::Near(centre, after))
}

const LENGTH_LISTING: &str = "tracks:length";

fn length_order(cursor: Option<&str>) -> Result<Order, FieldError> {
    Ok(Order::Length(cursor.map(|cursor| read_cursor(LENGTH_LISTING, cursor)).transpose()?))
}

impl Tracks {
    /// The first page by length, as its JSON text.
    ///
    /// # Errors
    /// When the store or the compute pool fails.
    pub async fn listing(&self, limit: usize) -> Result<String, Problem> {
        let page = self.length_page(None, limit, &HeaderMap::new()).await?;
        let text = axum::body::to_bytes(page.into_body(), usize::MAX).await;
        let text = text.map_err(|error| Problem::internal(error.to_string()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Nearest first. Not cached: clients choose any coordinates, and hardly two of them the same.
    async fn near_page(
        &self,
        centre: Point,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<TrackItem>, LoadError> {
        let found = self.store.nearest(centre, after, limit + 1).await?;
        Ok(Page::cut(
            found,
            limit,
            |(track, metres)| write_cursor(&near_listing(centre), *metres, track.id),
            |(track, metres)| TrackItem::new(track, Some(metres)),
        ))
    }

    async fn length_page(
        &self,
        after: Option<Position>,
        limit: usize,
        headers: &HeaderMap,
    ) -> Answer {
        let key = match after {
            None => format!("{limit}"),
            Some((metres, id)) => format!("{limit}.{:x}.{id}", metres.to_bits()),
        };
        let wanted = Wanted { key: &key, stamps: &[all_tracks()], kept: true };
        let store = self.store.clone();
        let make = move || async move {
            let tracks = store.by_length(after, limit + 1).await?;
            Ok(Some(Page::cut(
                tracks,
                limit,
                |track| write_cursor(LENGTH_LISTING, track.length_metres, track.id),
                |track| TrackItem::new(track, None),
            )))
        };
        self.responses.answer(&self.lists, wanted, headers, make, no_listing).await
    }
}
