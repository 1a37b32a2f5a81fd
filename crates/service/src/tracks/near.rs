//! Nearest-first search with an expanding box.
//!
//! The index finds what lies in a box of degrees; distance is then measured on the sphere. A box is
//! only trusted for the circle it surely holds, so the search widens until that circle holds a full page.

use super::store::Near;
use super::types::{AfterDistance, TrackSummary};
use madang_path::{Point, distance_metres};
use std::cmp::Ordering;

/// Mean Earth radius in metres (IUGG, R1), the one that lengths use.
const EARTH_RADIUS_METRES: f64 = 6_371_008.8;
/// First radius: a walk to the start of a run.
const FIRST_RADIUS_METRES: f64 = 2_000.0;
/// Half the circumference: nothing is farther away.
const HALF_WORLD_METRES: f64 = EARTH_RADIUS_METRES * std::f64::consts::PI;

/// A box in degrees; `west <= east`, so one that crosses the 180th meridian is two of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub south: f64,
    pub north: f64,
    pub west: f64,
    pub east: f64,
}

/// Runs `query` over growing boxes until `limit` tracks after `after` are found or the world is done.
///
/// Memory is bounded by `limit`, however many tracks a box holds.
pub(super) fn search<E>(
    centre: Point,
    after: Option<AfterDistance>,
    limit: usize,
    mut query: impl FnMut(Area, &mut dyn FnMut(TrackSummary)) -> Result<(), E>,
) -> Result<Vec<Near>, E> {
    let mut radius = FIRST_RADIUS_METRES.max(after.map_or(0.0, |a| a.metres * 1.25));
    loop {
        let whole_world = radius >= HALF_WORLD_METRES;
        let mut nearest = Nearest { limit, items: Vec::with_capacity(limit.min(128) + 1) };
        for area in boxes(centre, radius) {
            query(area, &mut |track| {
                let metres = distance_metres(&centre, &track.start);
                let is_after =
                    after.is_none_or(|a| order(metres, track.id, a.metres, a.id).is_gt());
                if is_after && (whole_world || metres <= radius) {
                    nearest.offer(track, metres);
                }
            })?;
        }
        if whole_world || nearest.items.len() >= limit {
            return Ok(nearest.items);
        }
        radius *= 4.0;
    }
}

/// The best `limit` items so far, sorted.
struct Nearest {
    limit: usize,
    items: Vec<Near>,
}

impl Nearest {
    fn offer(&mut self, track: TrackSummary, metres: f64) {
        let at = self.items.partition_point(|(t, m)| order(*m, t.id, metres, track.id).is_lt());
        if at < self.limit {
            self.items.insert(at, (track, metres));
            self.items.truncate(self.limit);
        }
    }
}

/// By distance, equal distances by id: the order of the listing and of its cursor.
fn order(metres: f64, id: i64, other_metres: f64, other_id: i64) -> Ordering {
    metres.total_cmp(&other_metres).then(id.cmp(&other_id))
}

/// One or two boxes that hold every point within `radius` metres of `centre`.
///
/// The widest longitude of a circle is asin(sin r / cos lat), not r / cos lat: J. P. Matuschek,
/// "Finding Points Within a Distance of a Latitude/Longitude" (2010), section 3.3. A circle that
/// holds a pole takes all longitudes.
fn boxes(centre: Point, radius: f64) -> Vec<Area> {
    // Rounding must never shave a point off the edge.
    let angle = radius / EARTH_RADIUS_METRES * (1.0 + 1e-9) + 1e-12;
    let degrees = angle.to_degrees();
    let (south, north) = (centre.lat - degrees, centre.lat + degrees);
    let whole = Area { south: south.max(-90.0), north: north.min(90.0), west: -180.0, east: 180.0 };
    if south <= -90.0 || north >= 90.0 {
        return vec![whole];
    }
    let ratio = angle.sin() / centre.lat.to_radians().cos();
    if angle >= std::f64::consts::FRAC_PI_2 || ratio >= 1.0 {
        return vec![whole];
    }
    let half = ratio.asin().to_degrees() + 1e-9;
    let (west, east) = (centre.lon - half, centre.lon + half);
    if west < -180.0 {
        vec![Area { west: west + 360.0, ..whole }, Area { east, ..whole }]
    } else if east > 180.0 {
        vec![Area { west, ..whole }, Area { east: east - 360.0, ..whole }]
    } else {
        vec![Area { west, east, ..whole }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn track(id: i64, lat: f64, lon: f64) -> TrackSummary {
        TrackSummary {
            id,
            name: format!("t{id}"),
            rate: 0.0,
            length_metres: 1.0,
            points_total: 2,
            start: Point { lat, lon, ele: None },
        }
    }

    fn run(
        tracks: &[TrackSummary],
        centre: Point,
        after: Option<AfterDistance>,
        limit: usize,
    ) -> Vec<i64> {
        let found = search::<()>(centre, after, limit, |area, found| {
            tracks
                .iter()
                .filter(|t| {
                    (area.south..=area.north).contains(&t.start.lat)
                        && (area.west..=area.east).contains(&t.start.lon)
                })
                .for_each(|t| found(t.clone()));
            Ok(())
        });
        found.unwrap().into_iter().map(|(t, _)| t.id).collect()
    }

    proptest! {
        #[test]
        fn finds_what_a_full_scan_finds_anywhere_on_earth(
            starts in prop::collection::vec((-90.0..=90.0f64, -180.0..=180.0f64), 1..60),
            lat in -90.0..=90.0f64, lon in -180.0..=180.0f64, limit in 1usize..30,
        ) {
            let centre = Point { lat, lon, ele: None };
            let tracks: Vec<_> = starts.iter().zip(1..).map(|(s, id)| track(id, s.0, s.1)).collect();
            let mut all: Vec<_> = tracks.iter().map(|t| (distance_metres(&centre, &t.start), t.id)).collect();
            all.sort_by(|a, b| order(a.0, a.1, b.0, b.1));
            let wanted: Vec<_> = all.iter().map(|(_, id)| *id).collect();
            let first = run(&tracks, centre, None, limit);
            prop_assert_eq!(&first[..], &wanted[..limit.min(wanted.len())]);
            let last = all[first.len() - 1];
            let next = run(&tracks, centre, Some(AfterDistance { metres: last.0, id: last.1 }), limit);
            let end = wanted.len().min(first.len() + limit);
            prop_assert_eq!(&next[..], &wanted[first.len()..end]);
        }
    }

    #[test]
    fn a_box_across_the_180th_meridian_is_two() {
        let centre = Point { lat: 10.0, lon: 179.995, ele: None };
        assert_eq!(boxes(centre, 2_000.0).len(), 2);
        let tracks = [track(1, 10.0, -179.999), track(2, 10.0, 179.5)];
        assert_eq!(run(&tracks, centre, None, 2), vec![1, 2]);
    }
}
