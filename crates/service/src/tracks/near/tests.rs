//! Nearest-first search against a full scan, and the rows it reads.
#![allow(clippy::disallowed_types, reason = "fills the tables and looks at them")]

use super::*;
use crate::store::{plan, test_schema};
use proptest::prelude::*;

fn store(starts: &[(f64, f64)]) -> rusqlite::Connection {
    let conn = test_schema();
    conn.execute_batch("BEGIN").unwrap();
    let mut insert = conn
        .prepare(
            "INSERT INTO tracks (name, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms)
             VALUES ('t', 1, 2, ?, ?, randomblob(32), 0)",
        )
        .unwrap();
    for (lat, lon) in starts {
        insert.execute([lat, lon]).unwrap();
    }
    drop(insert);
    conn.execute_batch("COMMIT").unwrap();
    conn
}

/// Tracks, number `i` of which starts at these expressions.
fn many(count: usize, lat: &str, lon: &str) -> rusqlite::Connection {
    let conn = test_schema();
    let sql = format!(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {count})
         INSERT INTO tracks (name, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms)
         SELECT 't', 1, 2, round({lat}, 7), round({lon}, 7), randomblob(32), 0 FROM n"
    );
    conn.execute_batch(&format!("BEGIN; {sql}; COMMIT")).unwrap();
    conn
}

fn point(lat: f64, lon: f64) -> Point {
    Point { lat, lon, ele: None }
}

/// A page and the number of rows read for it.
fn page(
    conn: &rusqlite::Connection,
    centre: Point,
    after: Option<Position>,
) -> (Option<Vec<(TrackId, f64)>>, usize) {
    let conn = Conn::sqlite(conn);
    let mut search = Search::new(&conn, centre, after, 20);
    let found = search.run().unwrap();
    (found, search.rows)
}

/// Rows read for each of several pages, each from the previous one's cursor.
fn rows_of_pages(conn: &rusqlite::Connection, centre: Point, pages: usize) -> Vec<usize> {
    let mut after = None;
    let mut all = Vec::new();
    for number in 0..pages {
        let (found, rows) = page(conn, centre, after);
        let found = found.unwrap_or_else(|| panic!("gave up on page {number}"));
        let (id, metres) = *found.last().unwrap();
        after = Some((metres, id));
        all.push(rows);
    }
    all
}

/// Anywhere, on few spots, and so close to these that some share a code.
fn starts() -> impl Strategy<Value = Vec<(f64, f64)>> {
    let spot = prop_oneof![
        (-90.0..=90.0f64, -180.0..=180.0f64),
        (
            prop::sample::select(vec![-90.0, 0.0, 37.5, 90.0]),
            prop::sample::select(vec![-180.0, 0.0, 127.0, 180.0])
        ),
    ];
    let step = prop::sample::select(vec![0.0, 0.0, 0.0, 1e-9, 1e-8, 1e-7, 1e-6, 0.01]);
    let start = (spot, step.clone(), step)
        .prop_map(|((lat, lon), north, east)| ((lat + north).min(90.0), (lon + east).min(180.0)));
    let copies = (start, 1usize..40).prop_map(|(start, count)| vec![start; count]);
    prop::collection::vec(copies, 1..12).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn finds_what_a_full_scan_finds_anywhere_on_earth(
        starts in starts(), centre in (-90.0..=90.0f64, -180.0..=180.0f64), at in prop::option::of(0usize..400),
        limit in 1usize..30,
    ) {
        // From anywhere, from one of the starts, and from the point opposite to one.
        let centre = match at {
            Some(at) if at % 2 == 0 => starts[at % starts.len()],
            Some(at) => {
                let (lat, lon) = starts[at % starts.len()];
                (-lat, if lon > 0.0 { lon - 180.0 } else { lon + 180.0 })
            }
            None => centre,
        };
        let centre = point(centre.0, centre.1);
        let conn = store(&starts);
        let mut all: Vec<_> = starts
            .iter()
            .zip(1..)
            .map(|(start, id)| (id, distance_metres(&centre, &point(start.0, start.1))))
            .collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let mut after = None;
        for wanted in all.chunks(limit) {
            let found = search(&Conn::sqlite(&conn), centre, after, limit).unwrap().unwrap();
            prop_assert_eq!(&found[..], wanted);
            after = wanted.last().map(|(id, metres)| (*metres, *id));
        }
        prop_assert_eq!(search(&Conn::sqlite(&conn), centre, after, limit).unwrap(), Some(Vec::new()));
    }
}

#[test]
fn tracks_on_one_spot_are_read_page_by_page_however_many_there_are() {
    let (here, beside) = (point(37.5, 127.0), point(37.6, 127.1));
    for centre in [here, beside] {
        let thousand = rows_of_pages(&many(1_000, "37.5", "127.0"), centre, 50);
        let more = rows_of_pages(&many(100_000, "37.5", "127.0"), centre, 50);
        for (page, (few, many)) in thousand.iter().zip(&more).enumerate() {
            assert!(many <= &(2 * few), "page {page} of 100,000: {many} rows, of 1,000: {few}");
            assert!(*many < 100, "page {page}: {many} rows");
        }
    }
}

#[test]
fn tracks_a_few_centimetres_apart_are_no_dearer_than_those_of_a_country() {
    // 317 by 317, the second kilometres apart.
    let grid = |step: &str| {
        many(100_000, &format!("37.5 + (i / 317) * {step}"), &format!("127.0 + (i % 317) * {step}"))
    };
    let (dense, wide) = (grid("0.0000003"), grid("0.01"));
    let rows = |conn: &rusqlite::Connection, step: f64| {
        rows_of_pages(conn, point(37.5 + 100.5 * step, 127.0 + 100.3 * step), 50)
    };
    for rows in [rows(&dense, 0.000_000_3), rows(&wide, 0.01)] {
        assert!(rows[0] < 1000 && rows[49] < 5000, "{rows:?}");
    }
}

#[test]
fn a_circle_of_tracks_around_its_very_centre_is_given_up_not_answered_wrongly() {
    let starts: Vec<_> = (0..150_000)
        .map(|i| (f64::from(i) * std::f64::consts::TAU / 150_000.0).sin_cos())
        .map(|(sin, cos)| (0.01 * sin, 127.0 + 0.01 * cos))
        .collect();
    let circle = store(&starts);
    let (found, rows) = page(&circle, point(0.0, 127.0), None);
    assert_eq!(found, None);
    assert!(rows <= MOST_ROWS + LEAF + 3, "{rows}");
    // From anywhere else it is an ordinary set of tracks.
    let (found, rows) = page(&circle, point(0.0, 127.005), None);
    assert!(found.is_some() && rows < 20_000, "{rows}");
}

#[test]
fn every_statement_is_a_seek_in_the_table_of_starts() {
    let conn = test_schema();
    for sql in [FEW, FIRST, LAST, SPOT_NORTH, SPOT_EAST, ON_SPOT] {
        let plan = plan(&conn, sql);
        assert_eq!(plan.len(), 1, "{sql}: {plan:?}");
        assert!(plan[0].starts_with("SEARCH track_starts USING PRIMARY KEY"), "{sql}: {plan:?}");
    }
}
