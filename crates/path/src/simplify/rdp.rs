//! The method itself, for any notion of distance.

use crate::point::Point;

/// Divisions of a stretch after which it is halved instead of divided at its farthest point.
///
/// Real tracks stay below 60. It bounds the work to this many distances per point, plus log₂ n.
pub const MAX_DEPTH: u32 = 256;

/// A line of positions in which distances from a chord can be measured.
///
/// `measure` may return any quantity that grows with the distance, as long as it is the same for
/// all chords; the tolerance is then given in that quantity.
pub(super) trait Line {
    /// A straight connection of two positions, with what can be worked out once for it.
    type Chord;

    /// The chord from position `a` to position `b`.
    fn chord(&self, a: usize, b: usize) -> Self::Chord;

    /// How far position `i` lies from the chord.
    fn measure(&self, chord: &Self::Chord, i: usize) -> f64;
}

/// Indices of a segment's points without those that repeat the spot of the one before. The first
/// and the last point always stay.
pub(super) fn distinct_spots(segment: &[Point]) -> Vec<usize> {
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

/// Which of `len` positions to keep, in order, so that all others are within `tolerance`.
pub(super) fn keep<L: Line>(line: &L, len: usize, tolerance: f64) -> Vec<usize> {
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
