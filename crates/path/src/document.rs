//! A file in either format: its name and its path.

use crate::error::ReadError;
use crate::path::{InvalidPath, Path};
use crate::point::Point;
use crate::{geojson, gpx};

/// Contents of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Name in the file: trimmed, on one line, at most 200 characters, without control characters;
    /// `None` if there is none or nothing is left of it.
    pub name: Option<String>,
    /// All lines of the file, in its order.
    pub path: Path,
    /// Format of the file.
    pub format: Format,
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// GPS exchange format, 1.0 or 1.1.
    Gpx,
    /// RFC 7946.
    GeoJson,
}

/// Limits of a reader. Besides the file, and its text if that is not UTF-8, reading takes about 100
/// bytes of memory for each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file. Default 32 MiB: 200,000 points at 160 bytes each, which is what a watch
    /// writes with time and heart rate.
    pub max_bytes: usize,
    /// Points of all lines together. Default 200,000: eight times the largest real track at hand,
    /// 55 hours at one point per second.
    pub max_points: usize,
    /// Track segments, routes and lines that have points. Default 10,000.
    pub max_segments: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 32 << 20, max_points: 200_000, max_segments: 10_000 }
    }
}

/// Reads a GPX or GeoJSON file; the first character tells which.
///
/// # Errors
/// [`ReadError`] names the reason and the place.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Document, ReadError> {
    // UTF-16 is left to the XML reader: JSON is never exchanged in it (RFC 8259, section 8.1).
    if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
        return gpx::read(bytes, limits);
    }
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    match text.first() {
        None => Err(ReadError::Empty),
        Some(b'<') => gpx::read(bytes, limits),
        Some(0) if text.get(1) == Some(&b'<') => gpx::read(bytes, limits),
        Some(b'{') => geojson::read(bytes, limits),
        Some(_) => Err(ReadError::UnknownFormat),
    }
}

/// Collects the lines of a file within the limits.
pub(crate) struct Lines<'l> {
    limits: &'l Limits,
    segments: Vec<Vec<Point>>,
    points: usize,
}

impl<'l> Lines<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self { limits, segments: Vec::new(), points: 0 }
    }

    /// Adds a line, unless it has no points.
    pub(crate) fn add_line(&mut self, mut line: Vec<Point>) -> Result<(), ReadError> {
        if line.is_empty() {
            return Ok(());
        }
        if self.segments.len() == self.limits.max_segments {
            return Err(ReadError::TooManySegments { limit: self.limits.max_segments });
        }
        if line.len() > self.room() {
            return Err(self.too_many_points());
        }
        self.points += line.len();
        line.shrink_to_fit();
        self.segments.push(line);
        Ok(())
    }

    /// Number of points that are still accepted.
    pub(crate) fn room(&self) -> usize {
        self.limits.max_points - self.points
    }

    pub(crate) fn too_many_points(&self) -> ReadError {
        ReadError::TooManyPoints { limit: self.limits.max_points }
    }

    /// The finished path. Every point was checked when it was read.
    pub(crate) fn into_path(self) -> Result<Path, ReadError> {
        let points = self.points;
        Path::new(self.segments).map_err(|error| match error {
            InvalidPath::TooFewPoints(points) => ReadError::TooFewPoints(points),
            InvalidPath::EmptySegment(_) | InvalidPath::Point { .. } => {
                debug_assert!(false, "a reader let through: {error}");
                ReadError::TooFewPoints(points)
            }
        })
    }
}

/// Maps longitudes of 180 to 360 to -180 to 180: some tools write a path that crosses the antimeridian
/// without a jump. Everything else is left to the range check.
pub(crate) fn wrap_longitude(lon: f64) -> f64 {
    if lon > 180.0 && lon <= 360.0 { lon - 360.0 } else { lon }
}

/// Longest name kept, in characters.
const NAME_CHARS: usize = 200;

/// Cleans a name for display: white space and control characters become single spaces, marks that
/// reorder the text around them are removed, the ends are trimmed, the length is bounded.
pub(crate) fn clean_name(raw: &str) -> Option<String> {
    let mut name = String::new();
    let mut chars = 0;
    let mut gap = false;
    for c in raw.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = !name.is_empty();
        } else if !reorders_text(c) {
            if gap && chars + 1 < NAME_CHARS {
                name.push(' ');
                chars += 1;
            }
            gap = false;
            if chars == NAME_CHARS {
                break;
            }
            name.push(c);
            chars += 1;
        }
    }
    let kept = name.trim_end().len();
    name.truncate(kept);
    (!name.is_empty()).then_some(name)
}

/// Bidirectional controls and the byte-order mark (Unicode 16, table 23-3).
fn reorders_text(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_on_one_line_bounded_and_free_of_controls() {
        let cases = [
            ("  제주올레 1코스\n", Some("제주올레 1코스")),
            ("a\t\r\n b\u{0}c", Some("a b c")),
            ("\u{202E}abc\u{202C}", Some("abc")),
            (" \n\u{1} ", None),
            ("", None),
        ];
        for (raw, clean) in cases {
            assert_eq!(clean_name(raw).as_deref(), clean, "{raw:?}");
        }
        let long = clean_name(&"둘레 ".repeat(500)).unwrap();
        assert!(long.chars().count() <= 200 && long.ends_with('레'), "{long}");
        assert_eq!(clean_name(&"둘".repeat(500)).unwrap().chars().count(), 200);
    }

    #[test]
    fn a_line_that_goes_over_a_limit_is_not_taken() {
        let limits = Limits { max_points: 3, max_segments: 1, ..Limits::default() };
        let line = |points| vec![Point::new(1.0, 2.0); points];
        let mut lines = Lines::new(&limits);
        assert_eq!(lines.add_line(line(0)), Ok(()));
        assert_eq!(lines.add_line(line(4)), Err(ReadError::TooManyPoints { limit: 3 }));
        assert_eq!(lines.add_line(line(2)), Ok(()));
        assert_eq!(lines.add_line(line(1)), Err(ReadError::TooManySegments { limit: 1 }));
        assert_eq!(lines.into_path().unwrap().points(), 2);
    }

    #[test]
    fn what_is_neither_xml_nor_a_json_object_is_named_so() {
        let read = |bytes: &[u8]| read(bytes, &Limits::default()).unwrap_err();
        assert_eq!(read(b""), ReadError::Empty);
        assert_eq!(read(b"\xEF\xBB\xBF \r\n"), ReadError::Empty);
        assert_eq!(read(b"PK\x03\x04"), ReadError::UnknownFormat);
        assert_eq!(read(b"[1,2]"), ReadError::UnknownFormat);
    }
}
