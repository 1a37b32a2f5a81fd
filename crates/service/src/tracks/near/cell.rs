//! Cells: rectangles of degrees whose starts are neighbours in the order of `track_starts`.
//!
//! A code takes one bit of longitude and one of latitude in turn (Morton 1966; the migration that made the
//! table says how). Codes that begin with the same bits are a cell, and a range of the table.

use madang_path::{EARTH_RADIUS_METRES, Point, distance_metres};
use std::ops::RangeInclusive;

/// Half the circumference, the largest distance.
pub(super) const HALF_WORLD_METRES: f64 = EARTH_RADIUS_METRES * std::f64::consts::PI;

/// Bits of a code: 32 of longitude, the first and the last among them, and 31 of latitude.
const BITS: u32 = 63;
/// The largest longitude and latitude in steps.
const LAST_LON: f64 = 4_294_967_295.0;
const LAST_LAT: f64 = 2_147_483_647.0;

/// Margin of a cell in degrees, a tenth of a millimetre: a start may have been rounded over its edge.
const EDGE_DEGREES: f64 = 1e-9;

/// Largest error of a distance to a cell, in metres. Haversines are exact to nanometres except near the other side of
/// the world, where they lose digits (Sinnott 1984): within 20 km of it a metre.
const SLACK_METRES: f64 = 0.001;
const FAR_SLACK_METRES: f64 = 1.0;
const FAR_METRES: f64 = HALF_WORLD_METRES - 20_000.0;

/// Codes that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    first: i64,
    last: i64,
}

/// The code of a start, as in the generated column of the file.
pub(in super::super) fn code_of(start: Point) -> i64 {
    // Within the range of the type: degrees are checked before they are stored.
    let x = ((start.lon + 180.0) / 360.0 * LAST_LON) as u64;
    let y = ((start.lat + 90.0) / 180.0 * LAST_LAT) as u64;
    (spread(x) | spread(y) << 1) as i64
}

/// A zero after each of the lower 32 bits (H. S. Warren, "Hacker's Delight", 7-2).
const fn spread(bits: u64) -> u64 {
    let bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    let bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    let bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

/// A rectangle of degrees; it never crosses the 180th meridian.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    south: f64,
    north: f64,
    west: f64,
    east: f64,
}

impl Cell {
    /// Everything.
    pub(super) const WORLD: Cell = Cell { first: 0, last: i64::MAX };

    /// The two halves of the smallest cell with both codes, which must differ: one is in each.
    pub(super) fn between(one: i64, other: i64) -> [Cell; 2] {
        let differ = (one ^ other).leading_zeros();
        // The sign takes one bit. Below the first bit in which they differ, everything.
        let below = i64::MAX >> differ;
        let first = one.min(other) & !below & !(below + 1);
        let middle = first | (below + 1);
        [Cell { first, last: middle - 1 }, Cell { first: middle, last: middle | below }]
    }

    pub(super) fn codes(self) -> RangeInclusive<i64> {
        self.first..=self.last
    }

    /// No start in it is nearer to `point` than this.
    pub(super) fn nearest_metres(self, point: Point) -> f64 {
        let metres = self.bounds().metres_from(point);
        let slack = if metres > FAR_METRES { FAR_SLACK_METRES } else { SLACK_METRES };
        (metres - slack).max(0.0)
    }

    /// No start in it is farther from `point` than this.
    ///
    /// Up to a quarter of the world to its east and west that is a corner, because the cosine of the distance
    /// along a side (see [`Bounds::metres_from`]) then has its minimum at an end. Else: the farthest point is the one
    /// nearest to the antipode.
    pub(super) fn farthest_metres(self, point: Point) -> f64 {
        let bounds = self.bounds();
        let is_beside = |lon: f64| (lon - point.lon).abs() <= 90.0;
        if is_beside(bounds.west) && is_beside(bounds.east) {
            let corners = [
                (bounds.south, bounds.west),
                (bounds.south, bounds.east),
                (bounds.north, bounds.west),
                (bounds.north, bounds.east),
            ];
            let metres = |(lat, lon)| distance_metres(&point, &Point { lat, lon, ele: None });
            return corners.into_iter().map(metres).fold(0.0, f64::max) + SLACK_METRES;
        }
        let lon = if point.lon > 0.0 { point.lon - 180.0 } else { point.lon + 180.0 };
        let opposite = Point { lat: -point.lat, lon, ele: None };
        HALF_WORLD_METRES - bounds.metres_from(opposite) + FAR_SLACK_METRES
    }

    fn bounds(self) -> Bounds {
        let ((west, south), (east, north)) = (steps(self.first), steps(self.last));
        let lon = |steps: f64| steps / LAST_LON * 360.0 - 180.0;
        let lat = |steps: f64| steps / LAST_LAT * 180.0 - 90.0;
        Bounds {
            south: (lat(south) - EDGE_DEGREES).max(-90.0),
            north: (lat(north + 1.0) + EDGE_DEGREES).min(90.0),
            west: (lon(west) - EDGE_DEGREES).max(-180.0),
            east: (lon(east + 1.0) + EDGE_DEGREES).min(180.0),
        }
    }
}

/// Longitude and latitude of a code, in steps.
fn steps(code: i64) -> (f64, f64) {
    let (mut lon, mut lat) = (0u32, 0u32);
    for bit in (0..BITS).rev() {
        let set = u32::from(code >> bit & 1 == 1);
        if bit % 2 == 0 {
            lon = lon << 1 | set;
        } else {
            lat = lat << 1 | set;
        }
    }
    (f64::from(lon), f64::from(lat))
}

impl Bounds {
    /// Distance of the nearest point of the rectangle; 0 if `point` is in it.
    ///
    /// Beside its meridians the nearest point lies on the nearer of its two sides, since on one parallel
    /// the distance grows with the difference of longitudes. Along a side the cosine of the distance is
    /// a sine of the latitude, sin φ' sin φ + cos φ' cos Δλ cos φ, so it is largest at one latitude, or at
    /// an end when that is beyond it.
    fn metres_from(&self, point: Point) -> f64 {
        if (self.west..=self.east).contains(&point.lon) {
            let lat = point.lat.clamp(self.south, self.north);
            return distance_metres(&point, &Point { lat, ..point });
        }
        let side = |lon: f64| {
            let metres = |lat: f64| distance_metres(&point, &Point { lat, lon, ele: None });
            let (lat, apart) = (point.lat.to_radians(), (lon - point.lon).to_radians());
            let best = lat.sin().atan2(lat.cos() * apart.cos()).to_degrees();
            let ends = metres(self.south).min(metres(self.north));
            if (self.south..=self.north).contains(&best) { ends.min(metres(best)) } else { ends }
        };
        side(self.west).min(side(self.east))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn halves_are_what_the_first_different_bit_tells_apart() {
        let halves = |one, other| Cell::between(one, other).map(|cell| (cell.first, cell.last));
        assert_eq!(halves(0, i64::MAX), [(0, (1 << 62) - 1), (1 << 62, i64::MAX)]);
        assert_eq!(halves(0b1011, 0b1000), [(0b1000, 0b1001), (0b1010, 0b1011)]);
        assert_eq!(halves(6, 7), [(6, 6), (7, 7)]);
    }

    proptest! {
        #[test]
        fn no_point_of_a_cell_is_nearer_or_farther_than_its_bounds(
            code in 0..=i64::MAX, bits in 0u32..=63, inside in (0.0..=1.0f64, 0.0..=1.0f64),
            lat in prop_oneof![-90.0..=90.0f64, Just(90.0), Just(-90.0), Just(0.0)],
            lon in prop_oneof![-180.0..=180.0f64, Just(180.0), Just(-180.0), Just(0.0)],
        ) {
            let below = i64::MAX.checked_shr(bits).unwrap_or(0);
            let cell = Cell { first: code & !below, last: code | below };
            let bounds = cell.bounds();
            let start = Point {
                lat: bounds.south + (bounds.north - bounds.south) * inside.0,
                lon: bounds.west + (bounds.east - bounds.west) * inside.1,
                ele: None,
            };
            let point = Point { lat, lon, ele: None };
            let metres = distance_metres(&point, &start);
            let (nearest, farthest) = (cell.nearest_metres(point), cell.farthest_metres(point));
            prop_assert!(nearest <= metres, "{nearest} > {metres}");
            prop_assert!(metres <= farthest, "{metres} > {farthest}");
            // And they are not far off for a small cell, or a search would read too much.
            if bits > 40 {
                prop_assert!(farthest - nearest < 60_000.0, "{nearest} {farthest}");
            }
        }
    }
}
