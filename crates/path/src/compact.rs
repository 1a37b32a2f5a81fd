//! A compact binary form of a path, for storage: four to six bytes a point on dense tracks, a fifth of
//! their JSON.
//!
//! ```text
//! path      = version(1) varint(segments) segment*
//! segment   = varint(points) elevations position* elevation*
//! elevations= 0 (none has one) | 1 (all have) | 2 bitmap (a bit for each point, lowest first)
//! position  = zigzag varint of the difference in latitude, then in longitude, in 1e-7 degrees
//! elevation = zigzag varint of the difference in centimetres, for each point that has one
//! ```
//! Differences are to the position, or elevation, before, also across segments; the first is to
//! zero. A varint is LEB128: seven bits a byte, the lowest first.
//!
//! Coordinates are rounded to 1e-7 degrees, at most 5.6 mm away on each axis. A source
//! with no more decimals comes back exactly as it was. The length of a real track changes by less
//! than 5 mm per kilometre.

use crate::number::{UNITS_PER_DEGREE, nearest};
use crate::path::{InvalidPath, Path};
use crate::point::Point;
use crate::polyline::{unzigzag, zigzag};

const VERSION: u8 = 1;

const NO_ELEVATIONS: u8 = 0;
const ALL_ELEVATIONS: u8 = 1;
const SOME_ELEVATIONS: u8 = 2;

const UNITS_PER_METRE: f64 = 100.0;

/// Encodes a path.
pub fn encode(path: &Path) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.points() * 8 + 16);
    out.push(VERSION);
    push_varint(path.segments().len() as u64, &mut out);
    let (mut last_lat, mut last_lon, mut last_ele) = (0, 0, 0);
    for segment in path.segments() {
        push_varint(segment.len() as u64, &mut out);
        push_elevation_map(segment, &mut out);
        for point in segment {
            let lat = nearest(point.lat * UNITS_PER_DEGREE);
            let lon = nearest(point.lon * UNITS_PER_DEGREE);
            push_varint(zigzag(lat - last_lat), &mut out);
            push_varint(zigzag(lon - last_lon), &mut out);
            (last_lat, last_lon) = (lat, lon);
        }
        for ele in segment.iter().filter_map(|point| point.ele) {
            let ele = nearest(ele * UNITS_PER_METRE);
            push_varint(zigzag(ele - last_ele), &mut out);
            last_ele = ele;
        }
    }
    out
}

fn push_elevation_map(segment: &[Point], out: &mut Vec<u8>) {
    let with = segment.iter().filter(|point| point.ele.is_some()).count();
    if with == 0 {
        out.push(NO_ELEVATIONS);
    } else if with == segment.len() {
        out.push(ALL_ELEVATIONS);
    } else {
        out.push(SOME_ELEVATIONS);
        for eight in segment.chunks(8) {
            let bits = eight.iter().enumerate();
            out.push(bits.fold(0, |byte, (bit, p)| byte | u8::from(p.ele.is_some()) << bit));
        }
    }
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes are not an encoded path.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CompactError {
    /// Written by a later version, or not by [`encode`].
    #[error("version {0} is not known")]
    Version(u8),
    /// The bytes end before the path does, or a count is larger than what they can hold.
    #[error("the bytes end before the path does")]
    Truncated,
    /// Bytes are left over after the path.
    #[error("{0} bytes are left after the path")]
    Trailing(usize),
    /// A number that is too large, or an unknown mark.
    #[error("byte {0} cannot stand where it does")]
    Malformed(usize),
    /// The points do not make a path.
    #[error(transparent)]
    Path(#[from] InvalidPath),
}

/// Decodes a path. Never allocates more than a fixed multiple of `bytes`, whatever counts they contain.
///
/// # Errors
/// [`CompactError`], for any bytes that [`encode`] cannot have written.
pub fn decode(bytes: &[u8]) -> Result<Path, CompactError> {
    let mut input = Input { bytes, at: 0 };
    let version = input.byte()?;
    if version != VERSION {
        return Err(CompactError::Version(version));
    }
    /// A segment takes a count, a mark and one position of two numbers.
    const SMALLEST_SEGMENT: usize = 4;
    let count = input.count(SMALLEST_SEGMENT)?;
    let mut segments = Vec::with_capacity(count);
    let mut last = Last::default();
    for _ in 0..count {
        segments.push(input.segment(&mut last)?);
    }
    match input.bytes.len() - input.at {
        0 => Ok(Path::new(segments)?),
        left => Err(CompactError::Trailing(left)),
    }
}

/// Base of the next differences.
#[derive(Default)]
struct Last {
    lat: i64,
    lon: i64,
    ele: i64,
}

struct Input<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Input<'b> {
    fn segment(&mut self, last: &mut Last) -> Result<Vec<Point>, CompactError> {
        /// Two numbers of a byte.
        const SMALLEST_POINT: usize = 2;
        let count = self.count(SMALLEST_POINT)?;
        let mark_at = self.at;
        let mark = self.byte()?;
        let map = match mark {
            NO_ELEVATIONS | ALL_ELEVATIONS => &[],
            SOME_ELEVATIONS => self.take(count.div_ceil(8))?,
            _ => return Err(CompactError::Malformed(mark_at)),
        };
        let mut points = Vec::with_capacity(count);
        for _ in 0..count {
            last.lat = self.difference_to(last.lat)?;
            last.lon = self.difference_to(last.lon)?;
            let degrees = |units: i64| units as f64 / UNITS_PER_DEGREE;
            points.push(Point::new(degrees(last.lat), degrees(last.lon)));
        }
        for (index, point) in points.iter_mut().enumerate() {
            let mapped = map.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            if mark == ALL_ELEVATIONS || mapped {
                last.ele = self.difference_to(last.ele)?;
                point.ele = Some(last.ele as f64 / UNITS_PER_METRE);
            }
        }
        Ok(points)
    }

    fn difference_to(&mut self, last: i64) -> Result<i64, CompactError> {
        let at = self.at;
        let difference = unzigzag(self.varint()?);
        last.checked_add(difference).ok_or(CompactError::Malformed(at))
    }

    /// A number of items of at least `smallest` bytes each, which the remaining bytes can hold.
    fn count(&mut self, smallest: usize) -> Result<usize, CompactError> {
        let count = self.varint()?;
        let most = (self.bytes.len() - self.at) / smallest;
        usize::try_from(count).ok().filter(|&count| count <= most).ok_or(CompactError::Truncated)
    }

    fn varint(&mut self) -> Result<u64, CompactError> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has room for one bit, the last of 64.
            if shift == 63 && bits > 1 {
                return Err(CompactError::Malformed(self.at - 1));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            if shift == 63 {
                return Err(CompactError::Malformed(self.at - 1));
            }
            shift += 7;
        }
    }

    fn byte(&mut self) -> Result<u8, CompactError> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], CompactError> {
        let taken = self.bytes[self.at..].get(..count).ok_or(CompactError::Truncated)?;
        self.at += count;
        Ok(taken)
    }
}
