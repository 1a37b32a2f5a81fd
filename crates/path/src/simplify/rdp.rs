//! The method itself, for any notion of distance.

use super::InvalidTolerance;
use crate::path::Path;
use crate::point::Point;

/// Divisions of a stretch after which it is halved instead of divided at its farthest point.
///
/// The deepest of 39 real tracks takes 46, at a tolerance of 1 mm. It bounds the work to this many
/// distances per point, plus log₂ n.
pub const MAX_DEPTH: u32 = 256;

/// A line of positions in which distances from a chord can be measured.
///
/// `measure` may return any quantity that grows with the distance, as long as it is the same for
/// all chords; the tolerance is then given in that quantity.
pub(super) trait Line {
    /// A straight connection of two positions, with values computed once for it.
    type Chord;

    /// The chord from position `a` to position `b`.
    fn chord(&self, a: usize, b: usize) -> Self::Chord;

    /// Distance of position `i` from the chord, in the measure of this line.
    fn measure(&self, chord: &Self::Chord, i: usize) -> f64;
}

/// Removes from each segment the points within `limit`, in the measure of the line that `line` makes of them. With a
/// `tolerance` of 0 only repeated positions are removed.
pub(super) fn simplify<L: Line>(
    path: &Path,
    tolerance: f64,
    limit: f64,
    line: impl Fn(&mut dyn Iterator<Item = &Point>) -> L,
) -> Result<Path, InvalidTolerance> {
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        return Err(InvalidTolerance(tolerance));
    }
    Ok(path.filtered(|segment| {
        let mut kept = distinct_spots(segment);
        if tolerance > 0.0 {
            let line = line(&mut kept.iter().map(|&i| &segment[i]));
            let inner = keep(&line, kept.len(), limit);
            kept = inner.into_iter().map(|i| kept[i]).collect();
        }
        kept.into_iter().map(|i| segment[i]).collect()
    }))
}

/// Indices of a segment's points without those that repeat the previous position. The first and the
/// last point always stay.
fn distinct_spots(segment: &[Point]) -> Vec<usize> {
    let mut distinct: Vec<usize> = Vec::with_capacity(segment.len());
    for (index, point) in segment.iter().enumerate() {
        if index == 0 || !point.same_spot(&segment[index - 1]) {
            distinct.push(index);
        }
    }
    let last = segment.len() - 1;
    match distinct.as_slice() {
        // The whole segment is one spot; its two ends keep it a line.
        [0] if last > 0 => distinct.push(last),
        [.., end] if *end != last => {
            distinct.pop();
            distinct.push(last);
        }
        _ => {}
    }
    distinct
}

/// Positions of `len` to keep, in order, so that all others are within `tolerance`.
fn keep<L: Line>(line: &L, len: usize, tolerance: f64) -> Vec<usize> {
    let mut kept = vec![0];
    if len < 2 {
        return kept;
    }
    // Stretches still to be looked at, the nearest on top; a stack of our own, because recursion
    // on a hostile line would exhaust that of the thread.
    let mut stretches = vec![(0, len - 1, 0)];
    while let Some((a, b, depth)) = stretches.pop() {
        match farthest(line, a, b) {
            Some((index, measure)) if measure > tolerance => {
                let middle = if depth < MAX_DEPTH { index } else { a + (b - a) / 2 };
                stretches.push((middle, b, depth + 1));
                stretches.push((a, middle, depth + 1));
            }
            _ => kept.push(b),
        }
    }
    kept
}

/// The first of the positions between `a` and `b` that are farthest from their chord.
fn farthest<L: Line>(line: &L, a: usize, b: usize) -> Option<(usize, f64)> {
    if b - a < 2 {
        return None;
    }
    let chord = line.chord(a, b);
    let mut best = (a + 1, line.measure(&chord, a + 1));
    for index in a + 2..b {
        let measure = line.measure(&chord, index);
        if measure > best.1 {
            best = (index, measure);
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Heights over equal steps, measured straight down, that count how often they are measured.
    struct Heights {
        heights: Vec<f64>,
        measured: Cell<usize>,
    }

    impl Line for Heights {
        type Chord = (usize, usize);

        fn chord(&self, a: usize, b: usize) -> (usize, usize) {
            (a, b)
        }

        fn measure(&self, &(a, b): &(usize, usize), i: usize) -> f64 {
            self.measured.set(self.measured.get() + 1);
            let share = (i - a) as f64 / (b - a) as f64;
            let chord = self.heights[a] + share * (self.heights[b] - self.heights[a]);
            (self.heights[i] - chord).abs()
        }
    }

    #[test]
    fn a_line_made_to_be_divided_one_point_at_a_time_takes_bounded_work() {
        // A zigzag that fades out: the farthest point is always the next one.
        const POINTS: usize = 20_000;
        let height = |i: usize| {
            let side = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
            side * (POINTS - i) as f64
        };
        let line = Heights { heights: (0..POINTS).map(height).collect(), measured: Cell::new(0) };
        let kept = keep(&line, POINTS, 0.5);
        assert_eq!(kept, (0..POINTS).collect::<Vec<_>>());
        let bound = POINTS * (MAX_DEPTH as usize + 1 + POINTS.ilog2() as usize + 1);
        assert!(line.measured.get() <= bound, "{} measures", line.measured.get());
        // Without the bound it would be half the square.
        assert!(line.measured.get() > POINTS * MAX_DEPTH as usize / 2);
    }

    #[test]
    fn of_several_farthest_points_the_first_divides() {
        let heights = vec![0.0, 1.0, 1.0, 1.0, 0.0];
        let line = Heights { heights, measured: Cell::new(0) };
        assert_eq!(keep(&line, 5, 0.9), [0, 1, 4]);
    }

    #[test]
    fn repeated_spots_are_one_and_the_ends_stay() {
        let spots = |lats: &[f64]| {
            distinct_spots(&lats.iter().map(|&lat| Point::new(lat, 0.0)).collect::<Vec<_>>())
        };
        assert_eq!(spots(&[1.0]), [0]);
        assert_eq!(spots(&[1.0, 1.0, 1.0]), [0, 2]);
        assert_eq!(spots(&[1.0, 1.0, 2.0]), [0, 2]);
        assert_eq!(spots(&[1.0, 2.0, 2.0, 2.0]), [0, 3]);
        assert_eq!(spots(&[1.0, 2.0, 1.0, 1.0]), [0, 1, 3]);
    }
}
