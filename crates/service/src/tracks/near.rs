//! Nearest-first search: the best cell first (Hjaltason and Samet, "Distance Browsing in Spatial
//! Databases", 1999, section 3).
//!
//! A queue holds cells by the least distance that a start in them can have, and starts by their distance. A start at
//! its head is the next item of the page; a cell is read if it holds a few starts, else replaced by its two halves.
//! So a page costs a seek for each level of the tree and some rows around the result, however many tracks there are
//! and however close together. Starts on one spot are read by their ids and only as many as a page has, and cells
//! that lie wholly before the cursor are never read.
//!
//! **Limit.** Starts that are equally far from the centre to within the size of their cells have to be read before
//! the first of them is known: a hundred thousand on a circle around exactly this point. A search reads at most
//! [`MOST_ROWS`] rows and then gives up; it never returns a wrong order.

mod cell;
#[cfg(test)]
mod tests;

use super::types::{Position, TrackId};
use crate::store::{Conn, Result, Row, Value, params};
use cell::Cell;
pub(super) use cell::code_of;
use madang_path::{Point, distance_metres};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Starts of a cell that are read at once instead of its halves.
const LEAF: usize = 16;

/// Rows that one search may read: some tens of milliseconds.
const MOST_ROWS: usize = 100_000;

/// Up to `limit` tracks after `after`, nearest first, equally near ones by id; `None` if that would read too many
/// rows.
pub(super) fn search(
    conn: &Conn<'_>,
    centre: Point,
    after: Option<Position>,
    limit: usize,
) -> Result<Option<Vec<(TrackId, f64)>>> {
    Search::new(conn, centre, after, limit).run()
}

struct Search<'conn> {
    conn: &'conn Conn<'conn>,
    centre: Point,
    after: Option<Position>,
    limit: usize,
    queue: BinaryHeap<Reverse<Entry>>,
    /// Rows read so far.
    rows: usize,
}

struct Start {
    at: Point,
    id: TrackId,
}

/// An item of the queue, ordered by distance.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// Bits of the distance in metres: those of numbers that are not negative are in their order.
    distance: u64,
    item: Item,
}

/// At one distance cells come first: one may contain a start with a lower id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Cell(Cell),
    Track(TrackId),
}

impl<'conn> Search<'conn> {
    fn new(conn: &'conn Conn<'conn>, centre: Point, after: Option<Position>, limit: usize) -> Self {
        Search { conn, centre, after, limit, queue: BinaryHeap::new(), rows: 0 }
    }

    fn run(&mut self) -> Result<Option<Vec<(TrackId, f64)>>> {
        let mut found = Vec::with_capacity(self.limit.min(128));
        self.offer_cell(Cell::WORLD);
        while found.len() < self.limit
            && let Some(Reverse(Entry { distance, item })) = self.queue.pop()
        {
            match item {
                Item::Track(id) => found.push((id, f64::from_bits(distance))),
                Item::Cell(cell) => self.open(cell)?,
            }
            if self.rows > MOST_ROWS {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    fn offer_cell(&mut self, cell: Cell) {
        let before =
            self.after.is_some_and(|(metres, _)| cell.farthest_metres(self.centre) < metres);
        if !before {
            self.offer(cell.nearest_metres(self.centre), Item::Cell(cell));
        }
    }

    fn offer_start(&mut self, start: &Start) {
        let metres = distance_metres(&self.centre, &start.at);
        if self.is_after(metres, start.id) {
            self.offer(metres, Item::Track(start.id));
        }
    }

    fn offer(&mut self, metres: f64, item: Item) {
        self.queue.push(Reverse(Entry { distance: metres.to_bits(), item }));
    }

    fn is_after(&self, metres: f64, id: TrackId) -> bool {
        self.after.is_none_or(|(last, of)| metres.total_cmp(&last).then(id.cmp(&of)).is_gt())
    }

    /// Replaces a cell by its starts or its halves.
    fn open(&mut self, cell: Cell) -> Result<()> {
        let few = self.read(FEW, params![cell.codes().start(), cell.codes().end(), LEAF + 1])?;
        if few.len() <= LEAF {
            few.iter().for_each(|start| self.offer_start(start));
            return Ok(());
        }
        // The cell may be mostly empty: its starts lie between these two.
        let (first, last) = (self.end_of(FIRST, cell)?, self.end_of(LAST, cell)?);
        if first == last {
            return self.open_spots(first);
        }
        Cell::between(first, last).into_iter().for_each(|half| self.offer_cell(half));
        Ok(())
    }

    /// As [`open`](Self::open), for the smallest cell, a few millimetres wide. It has one spot, unless rows were
    /// written by hand.
    fn open_spots(&mut self, code: i64) -> Result<()> {
        let mut next = self.spot(SPOT_NORTH, params![code, -91.0])?;
        while let Some(spot) = next
            && self.rows <= MOST_ROWS
        {
            let metres = distance_metres(&self.centre, &spot);
            // At the distance of the cursor only the ids after the cursor's count.
            let from = match self.after {
                Some((last, _)) if metres < last => None,
                Some((last, id)) if metres.total_cmp(&last).is_eq() => Some(id),
                _ => Some(TrackId::MIN),
            };
            if let Some(from) = from {
                let limit = self.limit;
                let of_spot = params![code, spot.lat, spot.lon, from, limit];
                self.read(ON_SPOT, of_spot)?.iter().for_each(|start| self.offer_start(start));
            }
            next = match self.spot(SPOT_EAST, params![code, spot.lat, spot.lon])? {
                None => self.spot(SPOT_NORTH, params![code, spot.lat])?,
                east => east,
            };
        }
        Ok(())
    }

    fn read(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Start>> {
        let read = |row: &Row<'_>| Ok(Start { at: at(row)?, id: row.get(2)? });
        let found = self.conn.rows(sql, values, read)?;
        self.rows += found.len();
        Ok(found)
    }

    fn end_of(&mut self, sql: &str, cell: Cell) -> Result<i64> {
        self.rows += 1;
        self.conn.one(sql, params![cell.codes().start(), cell.codes().end()])
    }

    fn spot(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Option<Point>> {
        self.rows += 1;
        self.conn.first(sql, values, at)
    }
}

const FEW: &str = "SELECT lat, lon, id FROM track_starts WHERE cell BETWEEN ? AND ? LIMIT ?";
const FIRST: &str = "SELECT min(cell) FROM track_starts WHERE cell BETWEEN ? AND ?";
const LAST: &str = "SELECT max(cell) FROM track_starts WHERE cell BETWEEN ? AND ?";
/// The southernmost spot of a cell beyond this latitude.
const SPOT_NORTH: &str =
    "SELECT lat, lon FROM track_starts WHERE cell = ? AND lat > ? ORDER BY lat, lon LIMIT 1";
/// The next spot of a cell on this latitude.
const SPOT_EAST: &str =
    "SELECT lat, lon FROM track_starts WHERE cell = ? AND lat = ? AND lon > ? ORDER BY lon LIMIT 1";
const ON_SPOT: &str = "SELECT lat, lon, id FROM track_starts
     WHERE cell = ? AND lat = ? AND lon = ? AND id > ? ORDER BY id LIMIT ?";

fn at(row: &Row<'_>) -> Result<Point> {
    Ok(Point { lat: row.get(0)?, lon: row.get(1)?, ele: None })
}
