//! Lists: `limit` and an opaque `cursor` (keyset paging), answered as `{items, nextCursor}`.

use super::problem::{FieldError, Problem};
use madang_path::Point;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;

/// Number of items without `limit`.
pub(crate) const DEFAULT_LIMIT: usize = 20;
/// Maximum number of items of one page.
pub(crate) const MAX_LIMIT: usize = 100;

/// Decoded parameters of a query; the last one of a name counts.
pub(crate) struct Query<'q>(Vec<(Cow<'q, str>, Cow<'q, str>)>);

impl<'q> Query<'q> {
    pub(crate) fn of(query: &'q str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// One page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    /// The items, in the order of the list.
    pub(crate) items: Vec<T>,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A page of rows that were read with a limit of one more: the extra row shows that there is a next page.
    /// `cursor` writes the position of the last row shown.
    pub(crate) fn cut<R>(
        mut found: Vec<R>,
        limit: usize,
        cursor: impl FnOnce(&R) -> String,
        item: impl FnMut(R) -> T,
    ) -> Self {
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| more).map(cursor);
        Page { items: found.into_iter().map(item).collect(), next_cursor }
    }

    /// Sets the cursor of a last page, so that a search that stopped early goes on from there.
    pub(crate) fn or_more(self, more: Option<String>) -> Self {
        Page { next_cursor: self.next_cursor.or(more), ..self }
    }
}

/// Reads `limit` and `cursor` of a listing sorted by a whole number (below 2^53 in size) and an id.
///
/// # Errors
/// 422 for both.
#[allow(clippy::cast_possible_truncation, reason = "`write_whole_cursor` wrote a whole number")]
pub(crate) fn asked(query: &str, listing: &str) -> Result<(usize, Option<(i64, i64)>), Problem> {
    let query = Query::of(query);
    let limit = limit(query.get("limit"));
    let after = query.get("cursor").map(|cursor| read_cursor(listing, cursor)).transpose();
    match (limit, after) {
        (Ok(limit), Ok(after)) => Ok((limit, after.map(|(sort, id)| (sort as i64, id)))),
        (limit, after) => {
            Err(Problem::invalid(limit.err().into_iter().chain(after.err()).collect()))
        }
    }
}

/// [`write_cursor`] for a whole number, which a double holds exactly below 2^53, as it does milliseconds up to the
/// year 9999.
#[allow(clippy::cast_precision_loss, reason = "callers sort by numbers below 2^53")]
pub(crate) fn write_whole_cursor(listing: &str, sort: i64, id: i64) -> String {
    write_cursor(listing, sort as f64, id)
}

pub(crate) fn limit(text: Option<&str>) -> Result<usize, FieldError> {
    let Some(text) = text else { return Ok(DEFAULT_LIMIT) };
    let read = text.parse().ok().filter(|n| (1..=MAX_LIMIT).contains(n));
    read.ok_or_else(|| FieldError::new("limit", format!("a whole number from 1 to {MAX_LIMIT}")))
}

/// Reads latitude and longitude in degrees, separated by a comma.
pub(crate) fn point(field: &str, text: &str) -> Result<Point, FieldError> {
    let wrong = || FieldError::new(field, "latitude,longitude in degrees, such as 37.52,126.92");
    let (lat, lon) = text.split_once(',').ok_or_else(wrong)?;
    let (Ok(lat), Ok(lon)) = (lat.trim().parse(), lon.trim().parse()) else { return Err(wrong()) };
    let point = Point { lat, lon, ele: None };
    point.check().map_err(|_| wrong())?;
    Ok(point)
}

/// Writes a cursor: the position (a sort value and an id) and a check of the position and the listing, so that an
/// altered cursor, or one of another listing, is rejected.
pub(crate) fn write_cursor(listing: &str, sort: f64, id: i64) -> String {
    let position = [sort.to_bits().to_be_bytes(), id.to_be_bytes()].concat();
    crate::hex(&[&position[..], &check(listing, &position)].concat())
}

/// Reads a cursor of this listing.
pub(crate) fn read_cursor(listing: &str, text: &str) -> Result<(f64, i64), FieldError> {
    let mut bytes = [0; 24];
    let is_whole =
        text.len() == 2 * bytes.len() && base16ct::mixed::decode(text, &mut bytes).is_ok();
    let (position, given) = bytes.split_at(16);
    if !is_whole || given != check(listing, position) {
        return Err(FieldError::new("cursor", "a nextCursor of the same listing"));
    }
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
    Ok((f64::from_bits(word(0)), word(8).cast_signed()))
}

fn check(listing: &str, position: &[u8]) -> [u8; 8] {
    let digest =
        Sha256::new().chain_update(listing).chain_update([0]).chain_update(position).finalize();
    std::array::from_fn(|i| digest[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_reads_back_and_an_altered_one_is_refused(sort in any::<f64>(), id in any::<i64>(), at in 0usize..48, to in "[0-9a-f]") {
            let cursor = write_cursor("tracks", sort, id);
            let (s, i) = read_cursor("tracks", &cursor).unwrap();
            prop_assert_eq!((s.to_bits(), i), (sort.to_bits(), id));
            prop_assert!(read_cursor("posts", &cursor).is_err());
            let mut altered = cursor.clone();
            altered.replace_range(at..=at, &to);
            prop_assert_eq!(read_cursor("tracks", &altered).is_ok(), altered == cursor);
        }

        #[test]
        fn any_text_is_answered_without_a_panic(text in "\\PC{0,60}") {
            prop_assert!(read_cursor("tracks", &text).is_err());
        }
    }
}
