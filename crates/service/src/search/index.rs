//! The index in the store: its rows, and the candidates of a search.

use super::upkeep::FEWEST;
use super::{Corpus, SEGMENT, pairs, pairs_of};
use crate::markets::Words;
use crate::store::{Conn, Parameter as _, Result, Row, StoreError, Tx, params};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Maximum number of changes that a search reads. There are more only while an existing store is first indexed;
/// searches are refused then.
const MOST_CHANGES: usize = 8192;

/// Segments per statement to a server.
const SEGMENTS_AT_ONCE: usize = 16;

/// The number of values in a statement to a server is a multiple of this, so that few statements are prepared.
const VALUES_STEP: usize = 8;

/// Texts per batch when a store is filled; their pairs are in memory.
const ADDED_AT_ONCE: usize = 4000;

/// Rows per statement to a server.
const ROWS_AT_ONCE: usize = 64;

/// Appends without reading the row; duplicates are harmless.
const APPEND: &str = "INSERT INTO search_pairs (kind, segment, pair, ids) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET ids = CAST(ids || excluded.ids AS BLOB)";

/// Notes that the text of an item is new. Searches find it after the commit.
pub(crate) fn note(tx: &mut Tx<'_>, kind: Corpus, id: i64) -> Result<()> {
    let insert = "INSERT INTO search_changes (kind, item_id) VALUES (?, ?)";
    let number = tx.insert(insert, params![kind.number, id])?;
    // About once per batch.
    if number % FEWEST as i64 == 0 {
        tx.effects().leave_texts();
    }
    Ok(())
}

/// Indexes items at once, for filling a store.
pub(crate) fn add_all(
    tx: &Tx<'_>,
    kind: Corpus,
    texts: impl Iterator<Item = (i64, String)>,
) -> Result<()> {
    let mut texts = texts.map(|(id, text)| (kind, id, text)).peekable();
    while texts.peek().is_some() {
        append(tx, &additions(texts.by_ref().take(ADDED_AT_ONCE)))?;
    }
    Ok(())
}

/// A row of the index: kind, segment, pair, and two bytes per id in the segment, little-endian.
pub(super) type Addition = (i64, i64, i64, Vec<u8>);

/// Rows for these texts, in the order of the index.
pub(super) fn additions(texts: impl Iterator<Item = (Corpus, i64, String)>) -> Vec<Addition> {
    let mut all: Vec<(i64, i64, i64, u16)> = Vec::new();
    for (kind, id, text) in texts {
        let within = u16::try_from(id % SEGMENT).unwrap_or_default();
        all.extend(pairs(&text).map(|pair| (kind.number, id / SEGMENT, pair, within)));
    }
    all.sort_unstable();
    all.dedup();
    let rows = all.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)).filter_map(|row| {
        let (kind, segment, pair, _) = *row.first()?;
        Some((kind, segment, pair, row.iter().flat_map(|one| one.3.to_le_bytes()).collect()))
    });
    rows.collect()
}

pub(super) fn append(tx: &Tx<'_>, rows: &[Addition]) -> Result<()> {
    if !tx.is_shared() {
        let append = |(kind, segment, pair, ids): &Addition| {
            tx.run(APPEND, params![kind, segment, pair, ids]).map(drop)
        };
        return rows.iter().try_for_each(append);
    }
    rows.chunks(ROWS_AT_ONCE).try_for_each(|some| {
        let sql = format!(
            "INSERT INTO search_pairs (kind, segment, pair, ids) VALUES (?, ?, ?, ?){}
             ON DUPLICATE KEY UPDATE ids = CONCAT(ids, VALUES(ids))",
            ", (?, ?, ?, ?)".repeat(some.len() - 1)
        );
        let values: Vec<_> = some
            .iter()
            .flat_map(|(kind, segment, pair, ids)| {
                [kind.value(), segment.value(), pair.value(), ids.value()]
            })
            .collect();
        tx.run(&sql, &values).map(drop)
    })
}

/// Ids of one segment as bits.
struct Bits(Box<[u64; Bits::WORDS]>);

impl Bits {
    const WORDS: usize = SEGMENT as usize / 64;

    fn of(ids: &[u8]) -> Self {
        let mut bits = Box::new([0; Self::WORDS]);
        for id in ids.as_chunks::<2>().0 {
            let id = usize::from(u16::from_le_bytes(*id));
            if let Some(word) = bits.get_mut(id / 64) {
                *word |= 1 << (id % 64);
            }
        }
        Self(bits)
    }

    fn keep_common(&mut self, other: &Bits) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(word, other)| *word &= other);
    }

    fn has(&self, id: i64) -> bool {
        let id = (id % SEGMENT) as usize;
        self.0[id / 64] >> (id % 64) & 1 == 1
    }

    /// The ids, highest first.
    fn down(&self, segment: i64) -> impl Iterator<Item = i64> {
        self.0.iter().enumerate().rev().flat_map(move |(at, word)| {
            let ids = (0..64).rev().filter(move |bit| word >> bit & 1 == 1);
            ids.map(move |bit| segment * SEGMENT + at as i64 * 64 + bit)
        })
    }
}

/// Candidates of one search, in one snapshot.
pub(super) struct Candidates<'c> {
    conn: &'c Conn<'c>,
    kind: Corpus,
    pairs: Vec<i64>,
    /// Not indexed yet; highest first.
    changed: Vec<i64>,
    /// Segments read so far; `None` = without candidates.
    known: HashMap<i64, Option<Bits>>,
}

impl<'c> Candidates<'c> {
    pub(super) fn of(conn: &'c Conn<'c>, kind: Corpus, words: &Words) -> Result<Self> {
        let changes = conn.rows(
            "SELECT kind, item_id FROM search_changes ORDER BY number LIMIT ?",
            params![MOST_CHANGES],
            |row| Ok((row.get::<i64>(0)?, row.get(1)?)),
        )?;
        if changes.len() == MOST_CHANGES {
            return Err(StoreError::GivenUp("the search index is being built"));
        }
        let ours = changes.into_iter().filter(|(number, _)| *number == kind.number);
        let mut changed: Vec<i64> = ours.map(|(_, id)| id).collect();
        changed.sort_unstable_by(|a, b| b.cmp(a));
        changed.dedup();
        Ok(Self { conn, kind, pairs: pairs_of(words), changed, known: HashMap::new() })
    }

    /// The highest ids below `below`, more than `most` if there are, and whether they are all.
    pub(super) fn newest(&mut self, below: i64, most: usize) -> Result<(Vec<i64>, bool)> {
        let last = "SELECT max(segment) FROM search_pairs WHERE kind = ?";
        let last: Option<i64> = self.conn.one(last, params![self.kind.number])?;
        let last = last.unwrap_or(-1).min(below.saturating_sub(1) / SEGMENT);
        let mut ids: Vec<i64> = Vec::new();
        // The newest segment first: it is enough for words of many texts.
        let mut at_once = 1;
        let mut next = last;
        while next >= 0 && ids.len() <= most {
            let some: Vec<i64> = (0..=next).rev().take(at_once).collect();
            self.look_at(&some)?;
            for segment in &some {
                if let Some(Some(bits)) = self.known.get(segment) {
                    ids.extend(bits.down(*segment).filter(|id| *id < below));
                }
            }
            next -= some.len() as i64;
            at_once = SEGMENTS_AT_ONCE;
        }
        let all = next < 0;
        // Changes below the segments read belong to a later page.
        let from = if all { i64::MIN } else { (next + 1) * SEGMENT };
        ids.extend(self.changed.iter().filter(|id| (from..below).contains(*id)));
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        Ok((ids, all))
    }

    /// For each of these ids, true if it is a candidate.
    pub(super) fn among(&mut self, ids: &[i64]) -> Result<Vec<bool>> {
        let mut segments: Vec<i64> = ids.iter().map(|id| id / SEGMENT).collect();
        segments.sort_unstable();
        segments.dedup();
        for some in segments.chunks(SEGMENTS_AT_ONCE) {
            self.look_at(some)?;
        }
        let is_one = |id: &i64| {
            let bits = self.known.get(&(id / SEGMENT));
            bits.is_some_and(|bits| bits.as_ref().is_some_and(|bits| bits.has(*id)))
                || self.changed.binary_search_by(|one| id.cmp(one)).is_ok()
        };
        Ok(ids.iter().map(is_one).collect())
    }

    fn look_at(&mut self, segments: &[i64]) -> Result<()> {
        let mut wanted = segments.to_vec();
        wanted.retain(|segment| !self.known.contains_key(segment));
        if self.conn.is_shared() && !wanted.is_empty() {
            return self.ask_server(&wanted);
        }
        for segment in wanted {
            let bits = self.in_segment(segment)?;
            self.known.insert(segment, bits);
        }
        Ok(())
    }

    /// Reads pair by pair, until no candidate is left.
    fn in_segment(&self, segment: i64) -> Result<Option<Bits>> {
        let find = "SELECT ids FROM search_pairs WHERE kind = ? AND segment = ? AND pair = ?";
        let mut common: Option<Bits> = None;
        for pair in &self.pairs {
            let read = |row: &Row<'_>| row.get::<Vec<u8>>(0);
            let found = self.conn.first(find, params![self.kind.number, segment, pair], read)?;
            let Some(found) = found else { return Ok(None) };
            let found = Bits::of(&found);
            match &mut common {
                Some(common) => common.keep_common(&found),
                None => common = Some(found),
            }
        }
        Ok(common)
    }

    /// Reads all pairs of these segments in one statement, that is, one round trip.
    fn ask_server(&mut self, segments: &[i64]) -> Result<()> {
        let mut values = vec![self.kind.number];
        let mut sql = "SELECT segment, pair, ids FROM search_pairs WHERE kind = ?".to_owned();
        for (column, wanted) in [("segment", segments), ("pair", &self.pairs)] {
            let Some(last) = wanted.last() else { return Ok(()) };
            let asked = wanted.len().next_multiple_of(VALUES_STEP);
            let more = std::iter::repeat_n(last, asked - wanted.len());
            values.extend(wanted.iter().chain(more));
            // Writing to a string does not fail.
            let _ = write!(sql, " AND {column} IN (?{})", ", ?".repeat(asked - 1));
        }
        let values: Vec<_> = values.iter().map(i64::value).collect();
        let read = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<Vec<u8>>(2)?));
        let mut found: HashMap<i64, (usize, Bits)> = HashMap::new();
        for (segment, ids) in self.conn.rows(&sql, &values, read)? {
            let bits = Bits::of(&ids);
            match found.get_mut(&segment) {
                Some((pairs, common)) => {
                    *pairs += 1;
                    common.keep_common(&bits);
                }
                None => drop(found.insert(segment, (1, bits))),
            }
        }
        for segment in segments {
            let bits = found.remove(segment).filter(|(pairs, _)| *pairs == self.pairs.len());
            self.known.insert(*segment, bits.map(|(_, bits)| bits));
        }
        Ok(())
    }
}
