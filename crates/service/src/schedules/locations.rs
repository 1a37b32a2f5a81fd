//! `GET /v1/locations`: the places where something can be planned.

use super::{Location, Schedules};
use crate::http::page::{Page, asked, write_whole_cursor};
use crate::http::{Answer, Read};
use crate::response_cache::{Wanted, no_listing};
use madang_cache::Stamp;

/// Places, by id.
#[utoipa::path(get, path = "/v1/locations", tag = "schedules", operation_id = "listLocations",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "One page", body = Page<Location>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn list(read: Read) -> Answer {
    let (limit, after) = asked(read.query(), LISTING)?;
    let after = after.map(|(_, id)| id);
    let key = match after {
        None => format!("{limit}"),
        Some(after) => format!("{limit}.{after}"),
    };
    // Nothing invalidates this stamp yet: no code writes places.
    let stamps = [Stamp::new("locations")];
    let wanted = Wanted { key: &key, stamps: &stamps, kept: true };
    let store = read.app.schedules.store.clone();
    let make = move || async move {
        let found = store.locations(after.unwrap_or(0), limit + 1).await?;
        let cursor = |last: &Location| write_whole_cursor(LISTING, 0, last.id);
        Ok(Some(Page::cut(found, limit, cursor, |place| place)))
    };
    let Schedules { responses, locations, .. } = &read.app.schedules;
    responses.answer(locations, wanted, &read.headers, make, no_listing).await
}

const LISTING: &str = "locations";
