//! One position on the Earth, and the distance between two.

/// Mean Earth radius (R1 of the WGS 84 / IUGG ellipsoid, Moritz 2000), in metres.
pub const EARTH_RADIUS_METRES: f64 = 6_371_008.8;

/// Largest elevation accepted, above or below sea level, in metres: the edge of space. It includes
/// every placeholder seen in practice (0, -1, -9999, -32768) and bounds the numbers of
/// [`crate::compact`].
pub const MAX_ELEVATION_METRES: f64 = 100_000.0;

/// A position in WGS 84.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Latitude in degrees, north positive.
    pub lat: f64,
    /// Longitude in degrees, east positive.
    pub lon: f64,
    /// Elevation in metres; `None` if the source has none for this point.
    pub ele: Option<f64>,
}

/// A coordinate of a [`Point`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidPoint {
    /// Not a number, infinite, or outside -90 to 90.
    #[error("latitude {0} is not between -90 and 90 degrees")]
    Latitude(f64),
    /// Not a number, infinite, or outside -180 to 180.
    #[error("longitude {0} is not between -180 and 180 degrees")]
    Longitude(f64),
    /// Not a number, infinite, or beyond [`MAX_ELEVATION_METRES`].
    #[error("elevation {0} is not between -100000 and 100000 metres")]
    Elevation(f64),
}

impl Point {
    /// A point without elevation.
    pub const fn new(lat: f64, lon: f64) -> Self {
        Self { lat, lon, ele: None }
    }

    /// The same point with an elevation in metres.
    #[must_use]
    pub const fn at_elevation(self, metres: f64) -> Self {
        Self { ele: Some(metres), ..self }
    }

    /// Checks that every coordinate is finite and in range.
    ///
    /// # Errors
    /// The first invalid coordinate, with its value.
    pub fn check(&self) -> Result<(), InvalidPoint> {
        // Ranges contain neither NaN nor an infinity, so one test covers both.
        if !(-90.0..=90.0).contains(&self.lat) {
            return Err(InvalidPoint::Latitude(self.lat));
        }
        if !(-180.0..=180.0).contains(&self.lon) {
            return Err(InvalidPoint::Longitude(self.lon));
        }
        match self.ele {
            Some(ele) if !(-MAX_ELEVATION_METRES..=MAX_ELEVATION_METRES).contains(&ele) => {
                Err(InvalidPoint::Elevation(ele))
            }
            _ => Ok(()),
        }
    }

    /// True if both have the same position, regardless of elevation.
    pub(crate) fn same_spot(&self, other: &Self) -> bool {
        self.lat == other.lat && self.lon == other.lon
    }
}

/// Great-circle distance in metres on a sphere of [`EARTH_RADIUS_METRES`]; elevation is ignored.
///
/// The haversine formula (Sinnott 1984), which stays exact for points close together, where the
/// spherical law of cosines loses digits.
pub fn distance_metres(a: &Point, b: &Point) -> f64 {
    Haversine::from(a).metres_to(&Haversine::from(b))
}

/// A point prepared for the haversine formula, so that a chain of points takes one cosine each.
#[derive(Clone, Copy)]
pub(crate) struct Haversine {
    lat: f64,
    lon: f64,
    cos_lat: f64,
}

impl From<&Point> for Haversine {
    fn from(point: &Point) -> Self {
        let lat = point.lat.to_radians();
        Self { lat, lon: point.lon.to_radians(), cos_lat: lat.cos() }
    }
}

impl Haversine {
    pub(crate) fn metres_to(&self, other: &Self) -> f64 {
        let sin_lat = ((other.lat - self.lat) / 2.0).sin();
        let sin_lon = ((other.lon - self.lon) / 2.0).sin();
        let h = sin_lat * sin_lat + self.cos_lat * other.cos_lat * sin_lon * sin_lon;
        // Rounding can make h exceed 1 between antipodes, where asin would return NaN.
        2.0 * EARTH_RADIUS_METRES * h.sqrt().min(1.0).asin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUARTER: f64 = EARTH_RADIUS_METRES * std::f64::consts::FRAC_PI_2;

    #[test]
    fn distances_agree_with_values_worked_out_by_hand() {
        let degree = EARTH_RADIUS_METRES.to_radians();
        let cases = [
            (Point::new(0.0, 0.0), Point::new(1.0, 0.0), degree),
            (Point::new(0.0, 179.5), Point::new(0.0, -179.5), degree),
            (Point::new(60.0, 10.0), Point::new(60.0, 10.0), 0.0),
            (Point::new(0.0, 0.0), Point::new(0.0, 90.0), QUARTER),
            (Point::new(0.0, 0.0), Point::new(90.0, 77.0), QUARTER),
            (Point::new(-90.0, 5.0), Point::new(90.0, 5.0), 2.0 * QUARTER),
            (Point::new(12.0, -30.0), Point::new(-12.0, 150.0), 2.0 * QUARTER),
        ];
        for (a, b, expected) in cases {
            let metres = distance_metres(&a, &b);
            assert!((metres - expected).abs() < 1e-6, "{a:?} {b:?}: {metres} {expected}");
            assert_eq!(metres, distance_metres(&b, &a));
        }
    }

    proptest! {
        #[test]
        fn antipodes_are_half_the_earth_apart(lat in -90.0..=90.0f64, lon in -180.0..=0.0f64) {
            let metres = distance_metres(&Point::new(lat, lon), &Point::new(-lat, lon + 180.0));
            prop_assert!((metres - 2.0 * QUARTER).abs() < 1.0, "{}", metres);
        }
    }

    #[test]
    fn a_point_out_of_range_or_not_finite_is_refused_by_name() {
        let ok = Point::new(90.0, -180.0).at_elevation(-32768.0);
        assert_eq!(ok.check(), Ok(()));
        for bad in [90.000_001, -91.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let point = Point { lat: bad, ..ok };
            assert!(matches!(point.check(), Err(InvalidPoint::Latitude(_))), "{bad}");
        }
        for bad in [180.000_001, -181.0, f64::INFINITY, f64::NAN] {
            let point = Point { lon: bad, ..ok };
            assert!(matches!(point.check(), Err(InvalidPoint::Longitude(_))), "{bad}");
        }
        for bad in [100_001.0, f64::NEG_INFINITY, f64::NAN] {
            let point = ok.at_elevation(bad);
            assert!(matches!(point.check(), Err(InvalidPoint::Elevation(_))), "{bad}");
        }
    }
}
