//! One page of a search: candidates in the order of a listing, each checked before it is shown.

use super::index::Candidates;
use super::{Corpus, are_in};
use crate::markets::Words;
use crate::store::{Conn, Result};

/// Maximum number of candidates to sort. More of them are dense in every part of a listing, so it is read along its
/// own index.
const MOST_SORTED: usize = if cfg!(test) { 6 } else { 4000 };

/// Maximum number of texts checked for one page, and their bytes: a dozen milliseconds.
const MOST_TEXTS: usize = if cfg!(test) { 9 } else { 2000 };
const MOST_BYTES: usize = 2 << 20;

/// Maximum number of index entries read for one page along a listing: some 50 ms.
const MOST_ENTRIES: usize = if cfg!(test) { 100 } else { 200_000 };

/// Positions of a listing read at a time.
const STRIDE: usize = if cfg!(test) { 5 } else { 256 };

/// Texts read at a time.
const TEXTS_AT_ONCE: usize = if cfg!(test) { 4 } else { 21 };

/// Position of an item in a listing: its sort value (0 when sorted by id alone), and its id.
pub(crate) type Position = (i64, i64);

/// A listing that can be searched.
pub(crate) trait Listing {
    type Item;

    const KIND: Corpus;

    /// True if it is sorted by id alone, highest first.
    fn is_by_id(&self) -> bool;

    /// True if its order is ascending.
    fn is_rising(&self) -> bool;

    /// True if it holds a small part of all items, so that most candidates are not in it.
    fn is_narrow(&self) -> bool;

    /// Index entries read for each position of a walk.
    fn entries_for_each(&self) -> usize;

    /// Positions of the given items that are in the listing.
    fn positions(&self, conn: &Conn<'_>, ids: &[i64]) -> Result<Vec<Position>>;

    /// The next positions after one.
    fn walk(&self, conn: &Conn<'_>, after: Option<Position>, limit: usize)
    -> Result<Vec<Position>>;

    /// The given items that are in the listing, in their order, each with its [text](super::text).
    fn read(&self, conn: &Conn<'_>, ids: &[i64]) -> Result<Vec<(String, Self::Item)>>;
}

/// Result of a search.
#[derive(Debug)]
pub(crate) struct Hits<T> {
    /// In the order of the listing.
    pub(crate) items: Vec<T>,
    /// Position to continue from when the search stopped early.
    pub(crate) more: Option<Position>,
}

impl<T> Hits<T> {
    /// The items of a listing without a search.
    pub(crate) fn all(items: Vec<T>) -> Self {
        Self { items, more: None }
    }
}

/// Up to `limit` items of a listing that contain all words, after a position. `words` must not be empty.
pub(crate) fn page<L: Listing>(
    conn: &Conn<'_>,
    listing: &L,
    words: &Words,
    after: Option<Position>,
    limit: usize,
) -> Result<Hits<L::Item>> {
    let mut candidates = Candidates::of(conn, L::KIND, words)?;
    let below = after.filter(|_| listing.is_by_id()).map_or(i64::MAX, |(_, id)| id);
    let mut checks = Checks { conn, listing, words, limit, texts: 0, bytes: 0, items: Vec::new() };
    let (ids, all) = candidates.newest(below, MOST_SORTED)?;
    if listing.is_by_id() && !listing.is_narrow() {
        let positions: Vec<Position> = ids.iter().map(|id| (0, *id)).collect();
        let ended = checks.at(&positions)?;
        let lowest = positions.last().copied().filter(|_| !all);
        return Ok(checks.hits(ended.unwrap_or(lowest)));
    }
    if !all {
        return along(checks, &mut candidates, after);
    }
    let mut positions = listing.positions(conn, &ids)?;
    positions.sort_unstable();
    if let Some(after) = after {
        positions.retain(|one| if listing.is_rising() { *one > after } else { *one < after });
    }
    if !listing.is_rising() {
        positions.reverse();
    }
    let ended = checks.at(&positions)?;
    Ok(checks.hits(ended.unwrap_or(None)))
}

/// Reads a listing along its own index, and checks its candidates.
fn along<L: Listing>(
    mut checks: Checks<'_, L>,
    candidates: &mut Candidates<'_>,
    after: Option<Position>,
) -> Result<Hits<L::Item>> {
    let mut from = after;
    let mut entries = 0;
    while entries < MOST_ENTRIES {
        let mut places = checks.listing.walk(checks.conn, from, STRIDE)?;
        let last = places.last().copied().filter(|_| places.len() == STRIDE);
        let ids: Vec<i64> = places.iter().map(|(_, id)| *id).collect();
        let mut is_one = candidates.among(&ids)?.into_iter();
        places.retain(|_| is_one.next() == Some(true));
        if let Some(ended) = checks.at(&places)? {
            return Ok(checks.hits(ended));
        }
        if last.is_none() {
            return Ok(checks.hits(None));
        }
        from = last;
        entries += STRIDE * checks.listing.entries_for_each();
    }
    Ok(checks.hits(from))
}

/// The checks of texts for one page.
struct Checks<'a, L: Listing> {
    conn: &'a Conn<'a>,
    listing: &'a L,
    words: &'a Words,
    limit: usize,
    texts: usize,
    bytes: usize,
    items: Vec<L::Item>,
}

impl<L: Listing> Checks<'_, L> {
    /// Checks items until the page is full (`Some(None)`) or the limit of checks is reached (`Some` position to
    /// continue).
    fn at(&mut self, positions: &[Position]) -> Result<Option<Option<Position>>> {
        for some in positions.chunks(TEXTS_AT_ONCE) {
            let ids: Vec<i64> = some.iter().map(|(_, id)| *id).collect();
            for (text, item) in self.listing.read(self.conn, &ids)? {
                self.bytes += text.len();
                if are_in(self.words, &text) {
                    self.items.push(item);
                }
                if self.items.len() == self.limit {
                    return Ok(Some(None));
                }
            }
            self.texts += some.len();
            if self.texts >= MOST_TEXTS || self.bytes >= MOST_BYTES {
                return Ok(Some(some.last().copied()));
            }
        }
        Ok(None)
    }

    fn hits(self, more: Option<Position>) -> Hits<L::Item> {
        Hits { items: self.items, more }
    }
}
