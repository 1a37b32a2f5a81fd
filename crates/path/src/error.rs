//! Errors of reading a file.

use std::fmt;

use crate::point::InvalidPoint;

/// Place in the text of a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// Line, ended by a line feed.
    pub line: usize,
    /// Bytes into that line, of the text in UTF-8.
    pub column: usize,
}

impl TextPosition {
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        Self { line, column: before.len() - line_start + 1 }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Error of [`crate::read()`]. The message is for the sender of the file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum ReadError {
    /// Only white space.
    #[error("the file is empty")]
    Empty,
    /// Larger than [`crate::Limits::max_bytes`].
    #[error("the file has {bytes} bytes; at most {limit} are accepted")]
    TooManyBytes { bytes: usize, limit: usize },
    /// More points than [`crate::Limits::max_points`].
    #[error("the file has more than {limit} points")]
    TooManyPoints { limit: usize },
    /// More lines than [`crate::Limits::max_segments`].
    #[error("the file has more than {limit} track segments, routes or lines")]
    TooManySegments { limit: usize },
    /// The beginning is neither XML nor a JSON object.
    #[error("neither GPX nor GeoJSON: the file begins with neither `<` nor `{{`")]
    UnknownFormat,
    /// An unsupported encoding.
    #[error("encoding {0:?} is not supported: save the file as UTF-8")]
    Encoding(String),
    /// Bytes that are not text in the encoding of the file.
    #[error("not valid {encoding} at {place}")]
    NotText { encoding: &'static str, place: TextPosition },
    /// Not well-formed XML.
    #[error("not XML: {reason} at {place}")]
    Xml { reason: String, place: TextPosition },
    /// The file defines entities. None is ever expanded: nested definitions can grow a small file
    /// to gigabytes.
    #[error("document type definitions are not accepted, at {place}")]
    DocumentType { place: TextPosition },
    /// Elements nested deeper than any real file.
    #[error("elements are nested more than {limit} deep at {place}")]
    TooDeep { limit: usize, place: TextPosition },
    /// XML of another kind.
    #[error("not GPX: the root element is <{0}>")]
    NotGpx(String),
    /// A point without `lat` or `lon`.
    #[error("<{element}> without {attribute} at {place}")]
    MissingCoordinate {
        /// `trkpt` or `rtept`.
        element: &'static str,
        /// `lat` or `lon`.
        attribute: &'static str,
        place: TextPosition,
    },
    /// A coordinate or elevation that is not a number.
    #[error("{what} {text:?} is not a number at {place}")]
    NotANumber {
        /// `lat`, `lon` or `ele`.
        what: &'static str,
        text: String,
        place: TextPosition,
    },
    /// A coordinate that is not finite or not in range.
    #[error("{reason}, at {place}")]
    OutOfRange { reason: InvalidPoint, place: TextPosition },
    /// Not JSON.
    #[error("not JSON: {reason} at {place}")]
    Json { reason: String, place: TextPosition },
    /// JSON that does not conform to RFC 7946.
    #[error("not GeoJSON: {reason} at {place}")]
    NotGeoJson { reason: &'static str, place: TextPosition },
    /// Fewer than two points on tracks, routes or lines. Waypoints and polygons do not count.
    #[error("no path: {0} points on tracks, routes or lines, at least 2 are needed")]
    TooFewPoints(usize),
}

/// The beginning of a text from a file, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    cut(text, 40)
}

/// The message of a parser, which may quote any amount of the file.
pub(crate) fn reason(message: &str) -> String {
    cut(message, 200)
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
