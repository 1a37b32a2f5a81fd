//! Lists: `limit` and an opaque `cursor` (keyset paging), answered as `{items, nextCursor}`.

use super::problem::{FieldError, Problem};
use madang_path::Point;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;

/// Items when `limit` is not given.
pub const DEFAULT_LIMIT: usize = 20;
/// Most items of one page.
pub const MAX_LIMIT: usize = 100;

/// The parameters of a query as they are written; of two with one name the last counts.
pub struct Query<'q>(Vec<(Cow<'q, str>, Cow<'q, str>)>);

impl<'q> Query<'q> {
    /// Those of this query.
    pub fn of(query: &'q str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).collect())
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// One page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items, in the order of the list.
    pub items: Vec<T>,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A page of what a store found when it was asked for one item more than fits: that one says
    /// that there is a next page, and is not shown. `cursor` writes the position of the last item shown.
    pub fn cut<R>(
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

    /// The same page with this cursor if it would be the last one: a search that has looked at enough goes on
    /// from there.
    pub fn or_more(self, more: Option<String>) -> Self {
        Page { next_cursor: self.next_cursor.or(more), ..self }
    }
}

/// Reads `limit` and `cursor` of a listing that is sorted by whole numbers (below 2^53 in size) and ids.
///
/// # Errors
/// 422 with everything that is wrong with them.
pub fn asked(query: &str, listing: &str) -> Result<(usize, Option<(i64, i64)>), Problem> {
    let query = Query::of(query);
    let limit = limit(query.get("limit"));
    let after = query.get("cursor").map(|cursor| read_whole_cursor(listing, cursor)).transpose();
    match (limit, after) {
        (Ok(limit), Ok(after)) => Ok((limit, after)),
        (limit, after) => {
            Err(Problem::invalid(limit.err().into_iter().chain(after.err()).collect()))
        }
    }
}

/// [`write_cursor`] for a whole number, which a double holds exactly below 2^53: milliseconds up to
/// the year 9999 are.
#[allow(clippy::cast_precision_loss, reason = "callers sort by numbers below 2^53")]
pub fn write_whole_cursor(listing: &str, sort: i64, id: i64) -> String {
    write_cursor(listing, sort as f64, id)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "what `write_whole_cursor` made of a whole number"
)]
fn read_whole_cursor(listing: &str, cursor: &str) -> Result<(i64, i64), FieldError> {
    read_cursor(listing, cursor).map(|(sort, id)| (sort as i64, id))
}

/// Reads `limit`.
///
/// # Errors
/// When it is no whole number from 1 to [`MAX_LIMIT`].
pub fn limit(text: Option<&str>) -> Result<usize, FieldError> {
    match text {
        None => Ok(DEFAULT_LIMIT),
        Some(text) => match text.parse::<usize>() {
            Ok(n) if (1..=MAX_LIMIT).contains(&n) => Ok(n),
            _ => Err(FieldError::new("limit", format!("a whole number from 1 to {MAX_LIMIT}"))),
        },
    }
}

/// Reads a position.
///
/// # Errors
/// When it is no latitude and longitude in degrees, separated by a comma.
pub fn point(field: &str, text: &str) -> Result<Point, FieldError> {
    let wrong = || FieldError::new(field, "latitude,longitude in degrees, such as 37.52,126.92");
    let (lat, lon) = text.split_once(',').ok_or_else(wrong)?;
    let (Ok(lat), Ok(lon)) = (lat.trim().parse(), lon.trim().parse()) else { return Err(wrong()) };
    let point = Point { lat, lon, ele: None };
    point.check().map_err(|_| wrong())?;
    Ok(point)
}

/// Writes a cursor: the position (a sort value and an id) and a check over them and the listing they
/// belong to, so that an altered cursor, or one of another listing, is refused instead of misread.
pub fn write_cursor(listing: &str, sort: f64, id: i64) -> String {
    let mut bytes = Vec::with_capacity(24);
    bytes.extend_from_slice(&sort.to_bits().to_be_bytes());
    bytes.extend_from_slice(&id.to_be_bytes());
    let check = check(listing, &bytes);
    bytes.extend_from_slice(&check);
    crate::hex(&bytes)
}

/// Reads a cursor of this listing.
pub fn read_cursor(listing: &str, text: &str) -> Result<(f64, i64), FieldError> {
    let wrong = || FieldError::new("cursor", "a nextCursor of the same listing");
    if text.len() != 48 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let bytes: Vec<u8> = (0..24)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16))
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    let (position, given) = bytes.split_at(16);
    if given != check(listing, position) {
        return Err(wrong());
    }
    let word = |range: std::ops::Range<usize>| {
        position[range].try_into().map(u64::from_be_bytes).map_err(|_| wrong())
    };
    let sort = f64::from_bits(word(0..8)?);
    Ok((sort, word(8..16)?.cast_signed()))
}

fn check(listing: &str, position: &[u8]) -> [u8; 8] {
    let digest =
        Sha256::new().chain_update(listing).chain_update([0]).chain_update(position).finalize();
    let mut check = [0; 8];
    check.copy_from_slice(&digest[..8]);
    check
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
