//! Google's encoded polyline: one segment as a short string of printable ASCII.
//!
//! Format: <https://developers.google.com/maps/documentation/utilities/polylinealgorithm>. The
//! differences between rounded coordinates, latitude first, are written five bits at a time.
//! Elevation is not part of it. The string may hold `\` and is to be escaped in JSON.

use crate::number::nearest;
use crate::point::{InvalidPoint, Point};

/// Most decimals. Twelve are a thousandth of a millimetre and still exact in an `f64`.
pub const MAX_PRECISION: u32 = 12;

/// Encodes the points of one segment with `precision` decimals of a degree, which the reader must know.
///
/// # Panics
/// If `precision` is above [`MAX_PRECISION`].
pub fn encode(points: &[Point], precision: u32) -> String {
    assert!(precision <= MAX_PRECISION, "at most {MAX_PRECISION} decimals, not {precision}");
    let factor = factor(precision);
    let mut text = String::with_capacity(points.len() * 8);
    let (mut last_lat, mut last_lon) = (0, 0);
    for point in points {
        let lat = nearest(point.lat * factor);
        let lon = nearest(point.lon * factor);
        push_difference(lat - last_lat, &mut text);
        push_difference(lon - last_lon, &mut text);
        (last_lat, last_lon) = (lat, lon);
    }
    text
}

/// A text is not an encoded polyline.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum PolylineError {
    /// More decimals than [`MAX_PRECISION`].
    #[error("at most {MAX_PRECISION} decimals, not {0}")]
    Precision(u32),
    /// A character outside `?` to `~`.
    #[error("byte {0} is not a character of an encoded polyline")]
    Character(usize),
    /// The text ends inside a number, or a latitude has no longitude.
    #[error("the polyline ends in the middle of a point")]
    Truncated,
    /// A number that is too large for any coordinate.
    #[error("byte {0} continues a number that is too large")]
    Overflow(usize),
    /// A point beyond the Earth.
    #[error("point {index}: {reason}")]
    Point {
        /// Counted from 0.
        index: usize,
        reason: InvalidPoint,
    },
}

/// Decodes a polyline of `precision` decimals. An empty text holds no point.
///
/// # Errors
/// [`PolylineError`], for any text that [`encode`] cannot have written.
pub fn decode(text: &str, precision: u32) -> Result<Vec<Point>, PolylineError> {
    if precision > MAX_PRECISION {
        return Err(PolylineError::Precision(precision));
    }
    let factor = factor(precision);
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut points = Vec::new();
    // Differences stay below 2^62 and sums are checked point by point, so none overflows.
    let (mut lat, mut lon) = (0i64, 0i64);
    while at < bytes.len() {
        lat += take_difference(bytes, &mut at)?;
        lon += take_difference(bytes, &mut at)?;
        let point = Point::new(lat as f64 / factor, lon as f64 / factor);
        point.check().map_err(|reason| PolylineError::Point { index: points.len(), reason })?;
        points.push(point);
    }
    Ok(points)
}

fn factor(precision: u32) -> f64 {
    10f64.powi(precision as i32)
}

/// Each character carries five bits, the lowest first, and a sixth that says "more".
const BITS: u32 = 5;
const MORE: u64 = 1 << BITS;
/// Added to the six bits to make them printable.
const PRINTABLE: u8 = b'?';

fn push_difference(difference: i64, text: &mut String) {
    let mut rest = zigzag(difference);
    while rest >= MORE {
        text.push(char::from((rest & (MORE - 1) | MORE) as u8 + PRINTABLE));
        rest >>= BITS;
    }
    text.push(char::from(rest as u8 + PRINTABLE));
}

fn take_difference(bytes: &[u8], at: &mut usize) -> Result<i64, PolylineError> {
    /// Twelve groups are 60 bits, more than any difference at the highest precision takes.
    const MOST_BITS: u32 = 12 * BITS;
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = *bytes.get(*at).ok_or(PolylineError::Truncated)?;
        let group = byte.wrapping_sub(PRINTABLE);
        if group >= 1 << (BITS + 1) {
            return Err(PolylineError::Character(*at));
        }
        if shift == MOST_BITS {
            return Err(PolylineError::Overflow(*at));
        }
        *at += 1;
        value |= (u64::from(group) & (MORE - 1)) << shift;
        shift += BITS;
        if u64::from(group) & MORE == 0 {
            return Ok(unzigzag(value));
        }
    }
}

/// Maps small numbers of either sign to small unsigned numbers.
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The reverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
