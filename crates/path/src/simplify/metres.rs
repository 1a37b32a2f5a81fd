//! Tolerance in metres on the sphere.

use super::InvalidTolerance;
use super::rdp::{Line, simplify};
use crate::path::Path;
use crate::point::{EARTH_RADIUS_METRES, Point};

/// Simplifies so that no point of the original is farther than `tolerance` metres from the result,
/// measured on the sphere to the great-circle arcs between the points that are left.
///
/// There is no projection: positions are unit vectors, so the antimeridian and the poles are ordinary
/// places, and a metre is a metre at every latitude.
///
/// # Errors
/// A tolerance that is negative or not finite.
pub fn metres(path: &Path, tolerance: f64) -> Result<Path, InvalidTolerance> {
    let limit = measure_of_angle(tolerance / EARTH_RADIUS_METRES);
    simplify(path, tolerance, limit, |points| Sphere(points.map(unit_vector).collect()))
}

/// Positions as unit vectors from the centre of the Earth. One unit in the last place is 1 nm.
///
/// The measure of a distance of angle δ is sin²δ up to a quarter of the Earth and grows on from
/// there, see [`measure_of_chord`]. It needs no trigonometry and no root: a point whose foot lies
/// on the arc is at sin δ = |p·n| from it, n being the normal of the plane of the great circle.
struct Sphere(Vec<Vector>);

type Vector = [f64; 3];

struct Arc {
    start: Vector,
    end: Vector,
    /// Unit normal of the plane of the great circle; `None` if the ends are equal or antipodes.
    normal: Option<Normal>,
}

struct Normal {
    unit: Vector,
    /// In the plane, at right angles to `start`, towards the end.
    onward: Vector,
    /// In the plane, at right angles to `end`, beyond the end.
    beyond: Vector,
}

/// Square of the shortest |a × b| taken as a direction: 6 nm on the ground.
const SHORTEST_SQUARE: f64 = 1e-30;

impl Line for Sphere {
    type Chord = Arc;

    fn chord(&self, a: usize, b: usize) -> Arc {
        let (start, end) = (self.0[a], self.0[b]);
        // a × b as a × (b − a): the difference of close vectors is exact, their product is not.
        let product = cross(start, minus(end, start));
        let square = dot(product, product);
        let normal = (square > SHORTEST_SQUARE).then(|| {
            let length = square.sqrt();
            let unit = [product[0] / length, product[1] / length, product[2] / length];
            Normal { unit, onward: cross(unit, start), beyond: cross(unit, end) }
        });
        Arc { start, end, normal }
    }

    fn measure(&self, arc: &Arc, i: usize) -> f64 {
        let from_start = minus(self.0[i], arc.start);
        let from_end = minus(self.0[i], arc.end);
        let (before, after) = match &arc.normal {
            // p·x = (p − a)·x wherever x is at right angles to a; the latter keeps its digits.
            Some(normal) => {
                let before = dot(from_start, normal.onward) < 0.0;
                let after = dot(from_end, normal.beyond) > 0.0;
                if !before && !after {
                    let sine = dot(from_start, normal.unit);
                    return sine * sine;
                }
                (before, after)
            }
            None => (true, true),
        };
        let chord_square = match (before, after) {
            (true, false) => dot(from_start, from_start),
            (false, true) => dot(from_end, from_end),
            // On the far side of the Earth, or without a great circle.
            _ => dot(from_start, from_start).min(dot(from_end, from_end)),
        };
        measure_of_chord(chord_square)
    }
}

/// The measure of two positions whose straight connection through the Earth has this squared
/// length c². sin²δ = c² − c⁴/4 rises to 1 at c² = 2, a quarter round the Earth; beyond it would
/// fall again, so c² − 1 takes over.
fn measure_of_chord(square: f64) -> f64 {
    if square <= 2.0 { square - square * square / 4.0 } else { square - 1.0 }
}

/// The same for an angle in radians; half a turn is as far as anything can be.
fn measure_of_angle(angle: f64) -> f64 {
    let half_chord = (angle.min(std::f64::consts::PI) / 2.0).sin();
    measure_of_chord(4.0 * half_chord * half_chord)
}

fn unit_vector(point: &Point) -> Vector {
    let (sin_lat, cos_lat) = point.lat.to_radians().sin_cos();
    let (sin_lon, cos_lon) = point.lon.to_radians().sin_cos();
    [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat]
}

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
