//! A path: one or more lines of points, always valid.

use crate::point::{Haversine, InvalidPoint, Point};

/// One or more segments of at least one [`Point`] each, at least two points in all.
///
/// Between two segments there is a gap: nobody went there, or the recorder was off. It adds no length
/// and is never drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    segments: Vec<Vec<Point>>,
    points: usize,
}

/// Points that do not form a [`Path`]. Segments and points are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum InvalidPath {
    /// No segment, or fewer than two points in all.
    #[error("a path needs at least 2 points, this one has {0}")]
    TooFewPoints(usize),
    /// A segment has no point.
    #[error("segment {0} has no point")]
    EmptySegment(usize),
    /// A coordinate is not finite or not in range.
    #[error("segment {segment}, point {index}: {reason}")]
    Point { segment: usize, index: usize, reason: InvalidPoint },
}

impl Path {
    /// A path of these points.
    ///
    /// # Errors
    /// An empty segment, fewer than two points, or a coordinate that is not finite or not in range.
    pub fn new(segments: Vec<Vec<Point>>) -> Result<Self, InvalidPath> {
        for (segment, line) in segments.iter().enumerate() {
            if line.is_empty() {
                return Err(InvalidPath::EmptySegment(segment));
            }
            for (index, point) in line.iter().enumerate() {
                point.check().map_err(|reason| InvalidPath::Point { segment, index, reason })?;
            }
        }
        let points = segments.iter().map(Vec::len).sum();
        if points < 2 {
            return Err(InvalidPath::TooFewPoints(points));
        }
        Ok(Self { segments, points })
    }

    /// Keeps some points of a valid path. `keep` must keep the first and last point of every segment.
    pub(crate) fn filtered(&self, keep: impl Fn(&[Point]) -> Vec<Point>) -> Self {
        let segments: Vec<Vec<Point>> = self.segments.iter().map(|line| keep(line)).collect();
        let points = segments.iter().map(Vec::len).sum();
        Self { segments, points }
    }

    /// The segments in order; none is empty.
    pub fn segments(&self) -> &[Vec<Point>] {
        &self.segments
    }

    /// Number of points in all segments.
    pub fn points(&self) -> usize {
        self.points
    }

    /// First point of the first segment.
    pub fn start(&self) -> Point {
        self.segments[0][0]
    }

    /// Last point of the last segment.
    pub fn end(&self) -> Point {
        let last = &self.segments[self.segments.len() - 1];
        last[last.len() - 1]
    }

    /// Length in metres: great-circle distances (haversine, mean Earth radius) summed inside each
    /// segment. Gaps between segments and elevation do not count.
    pub fn length_metres(&self) -> f64 {
        self.segments.iter().map(|line| line_metres(line)).sum()
    }
}

fn line_metres(line: &[Point]) -> f64 {
    let mut prepared = line.iter().map(Haversine::from);
    let Some(mut here) = prepared.next() else { return 0.0 };
    let mut metres = 0.0;
    for next in prepared {
        metres += here.metres_to(&next);
        here = next;
    }
    metres
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Vec<Point> {
        points.iter().map(|&(lat, lon)| Point::new(lat, lon)).collect()
    }

    #[test]
    fn empty_segments_single_points_and_bad_coordinates_are_refused() {
        assert_eq!(Path::new(vec![]), Err(InvalidPath::TooFewPoints(0)));
        assert_eq!(Path::new(vec![line(&[(1.0, 1.0)])]), Err(InvalidPath::TooFewPoints(1)));
        let hole = vec![line(&[(1.0, 1.0), (2.0, 2.0)]), vec![]];
        assert_eq!(Path::new(hole), Err(InvalidPath::EmptySegment(1)));
        let bad = vec![line(&[(1.0, 1.0)]), line(&[(1.0, 1.0), (1.0, f64::NAN)])];
        let Err(InvalidPath::Point { segment: 1, index: 1, reason }) = Path::new(bad) else {
            panic!("a NaN went through");
        };
        assert!(matches!(reason, InvalidPoint::Longitude(_)));
    }

    #[test]
    fn two_segments_of_one_point_make_a_path_of_no_length() {
        let path = Path::new(vec![line(&[(10.0, 20.0)]), line(&[(11.0, 20.0)])]).unwrap();
        assert_eq!((path.points(), path.length_metres()), (2, 0.0));
        assert_eq!(path.start(), Point::new(10.0, 20.0));
        assert_eq!(path.end(), Point::new(11.0, 20.0));
    }

    #[test]
    fn gaps_between_segments_and_elevation_do_not_count_for_the_length() {
        let degree = crate::EARTH_RADIUS_METRES.to_radians();
        let mut first = line(&[(0.0, 0.0), (1.0, 0.0)]);
        first[1].ele = Some(8_000.0);
        let path = Path::new(vec![first, line(&[(5.0, 0.0), (6.0, 0.0)])]).unwrap();
        assert!((path.length_metres() - 2.0 * degree).abs() < 1e-6);
    }
}
