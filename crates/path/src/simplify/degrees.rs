//! Tolerance in degrees, for comparison.

use super::InvalidTolerance;
use super::rdp::{Line, simplify};
use crate::path::Path;
use crate::point::Point;

/// Simplifies with plane geometry on raw latitudes and longitudes, as general-purpose geometry
/// libraries do without a projection.
///
/// A degree in metres then depends on the direction and the place: a tolerance of 0.0005° is 56 m
/// north–south everywhere, but east–west 44 m in Seoul, 20 m at 69°, and nothing at the poles. A path
/// over the antimeridian seems to run back round the whole Earth and keeps nearly all its points there.
/// Prefer [`metres`](super::metres()).
///
/// # Errors
/// A tolerance that is negative or not finite.
pub fn degrees(path: &Path, tolerance: f64) -> Result<Path, InvalidTolerance> {
    let plane = |points: &mut dyn Iterator<Item = &Point>| {
        Plane(points.map(|point| [point.lon, point.lat]).collect())
    };
    simplify(path, tolerance, tolerance * tolerance, plane)
}

/// Positions as x and y. The measure is the square of the distance to the chord.
struct Plane(Vec<[f64; 2]>);

struct Chord {
    start: [f64; 2],
    vector: [f64; 2],
    /// 1 / |vector|², or 0 where both ends are one spot: every foot is then the start.
    inverse_square: f64,
}

impl Line for Plane {
    type Chord = Chord;

    fn chord(&self, a: usize, b: usize) -> Chord {
        let (start, end) = (self.0[a], self.0[b]);
        let vector = [end[0] - start[0], end[1] - start[1]];
        let square = vector[0] * vector[0] + vector[1] * vector[1];
        let inverse_square = if square > 0.0 { 1.0 / square } else { 0.0 };
        Chord { start, vector, inverse_square }
    }

    fn measure(&self, chord: &Chord, i: usize) -> f64 {
        let p = [self.0[i][0] - chord.start[0], self.0[i][1] - chord.start[1]];
        let along = (p[0] * chord.vector[0] + p[1] * chord.vector[1]) * chord.inverse_square;
        let along = along.clamp(0.0, 1.0);
        let off = [p[0] - along * chord.vector[0], p[1] - along * chord.vector[1]];
        off[0] * off[0] + off[1] * off[1]
    }
}
