//! Reads GPX as it occurs in practice, not only as the schema defines it.

use std::borrow::Cow;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::encoding::decode;
use crate::document::{Document, Format, Limits, Lines, clean_name, wrap_longitude};
use crate::error::{ReadError, TextPosition, excerpt, reason};
use crate::point::Point;

/// Deepest nesting of elements accepted. The deepest of 37 real files, vendor extensions included,
/// has 6.
pub const MAX_DEPTH: usize = 64;

/// Longest run of text kept for a name or a number, in bytes.
const MAX_TEXT: usize = 4096;

/// Reads a GPX file of version 1.0, 1.1 or none.
///
/// All track segments (`<trkseg>`, and `<trkseq>` as the Korea Tourism Organization spells it) and
/// all routes become the segments of one path, in the order of the file; those without points are
/// dropped. Waypoints, extensions and elements of other namespaces are skipped: an element counts
/// only in its place and with the namespace prefix of the root element. Placeholder elevations
/// such as 0 or -1 are kept; an empty `<ele>` is ignored. The name is that of the metadata, else of
/// the first track or route that has one.
///
/// # Errors
/// [`ReadError`]: not XML, not GPX, over a limit, a point that is incomplete or out of range, no
/// points. Only the five entities of XML itself are expanded.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Document, ReadError> {
    if bytes.len() > limits.max_bytes {
        return Err(ReadError::TooManyBytes { bytes: bytes.len(), limit: limits.max_bytes });
    }
    let text = decode(bytes)?;
    let mut parser = Parser {
        text: &text,
        at: 0,
        prefix: None,
        open: Vec::new(),
        finished: false,
        lines: Lines::new(limits),
        line: Vec::new(),
        point: None,
        collected: String::new(),
        document_name: None,
        line_name: None,
    };
    parser.run()?;
    let name = parser.document_name.or(parser.line_name);
    Ok(Document { name, path: parser.lines.into_path()?, format: Format::Gpx })
}

/// An element by its meaning, which depends on the element around it.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    Gpx,
    Metadata,
    Track,
    Segment,
    Route,
    Point(&'static str),
    Elevation,
    /// The name of the document.
    DocumentName,
    /// The name of a track or route.
    LineName,
    /// Anything else, and everything in it.
    Other,
}

impl Element {
    fn child(self, local_name: &str) -> Self {
        match (self, local_name) {
            (Self::Gpx, "metadata") => Self::Metadata,
            (Self::Gpx, "trk") => Self::Track,
            (Self::Gpx, "rte") => Self::Route,
            (Self::Track, "trkseg" | "trkseq") => Self::Segment,
            (Self::Segment, "trkpt") => Self::Point("trkpt"),
            (Self::Route, "rtept") => Self::Point("rtept"),
            (Self::Point(_), "ele") => Self::Elevation,
            // Directly below the root in GPX 1.0, in the metadata in 1.1.
            (Self::Gpx | Self::Metadata, "name") => Self::DocumentName,
            (Self::Track | Self::Route, "name") => Self::LineName,
            _ => Self::Other,
        }
    }

    fn has_text(self) -> bool {
        matches!(self, Self::Elevation | Self::DocumentName | Self::LineName)
    }
}

struct Parser<'t, 'l> {
    text: &'t str,
    /// Byte offset of the current event.
    at: u64,
    /// Namespace prefix of the root element.
    prefix: Option<&'t str>,
    open: Vec<Element>,
    /// The root element has been closed.
    finished: bool,
    lines: Lines<'l>,
    /// Points of the current segment or route.
    line: Vec<Point>,
    point: Option<Point>,
    /// Text of the innermost element that has any.
    collected: String,
    document_name: Option<String>,
    line_name: Option<String>,
}

impl<'t> Parser<'t, '_> {
    fn run(&mut self) -> Result<(), ReadError> {
        let mut reader = Reader::from_str(self.text);
        loop {
            self.at = reader.buffer_position();
            let event = reader.read_event().map_err(|error| ReadError::Xml {
                reason: reason(&error.to_string()),
                place: self.place_at(reader.error_position()),
            })?;
            match event {
                Event::Start(tag) => self.start(&tag)?,
                Event::Empty(tag) => {
                    self.start(&tag)?;
                    self.end()?;
                }
                Event::End(_) => self.end()?,
                Event::Text(text) => self.characters(&text)?,
                Event::CData(text) => self.characters(&text)?,
                Event::GeneralRef(reference) => self.reference(&reference)?,
                Event::DocType(definition) if definition.contains('[') => {
                    return Err(ReadError::DocumentType { place: self.place() });
                }
                Event::DocType(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof => return self.end_of_file(),
            }
        }
    }

    fn start(&mut self, tag: &BytesStart<'t>) -> Result<(), ReadError> {
        if self.open.len() == MAX_DEPTH {
            return Err(ReadError::TooDeep { limit: MAX_DEPTH, place: self.place() });
        }
        let element = match self.open.last() {
            None => self.root(tag)?,
            // Saves splitting the name.
            Some(Element::Other) => Element::Other,
            Some(parent) => {
                let (local_name, prefix) = split_name(tag);
                if prefix == self.prefix { parent.child(local_name) } else { Element::Other }
            }
        };
        if let Element::Point(name) = element {
            self.point = Some(self.coordinates(name, tag)?);
        }
        if element.has_text() {
            self.collected.clear();
        }
        self.open.push(element);
        Ok(())
    }

    fn root(&mut self, tag: &BytesStart<'t>) -> Result<Element, ReadError> {
        if self.finished {
            return Err(self.ill_formed("a second root element"));
        }
        let (local_name, prefix) = split_name(tag);
        if local_name != "gpx" {
            return Err(ReadError::NotGpx(excerpt(tag.name().into_inner())));
        }
        self.prefix = prefix.map(|prefix| {
            // The prefix outlives the event only as a slice of the text itself.
            let start = self.at as usize + "<".len();
            &self.text[start..start + prefix.len()]
        });
        Ok(Element::Gpx)
    }

    fn coordinates(&self, element: &'static str, tag: &BytesStart<'_>) -> Result<Point, ReadError> {
        let (mut lat, mut lon) = (None, None);
        let mut attributes = tag.attributes();
        // A check for repeated attributes would cost more than everything else here.
        for attribute in attributes.with_checks(false) {
            let attribute = attribute.map_err(|error| self.ill_formed(error))?;
            let slot = match attribute.key.into_inner() {
                "lat" => &mut lat,
                "lon" => &mut lon,
                _ => continue,
            };
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| self.ill_formed(error))?;
            let what = if attribute.key.into_inner() == "lat" { "lat" } else { "lon" };
            *slot = Some(self.number(what, &value)?);
        }
        let missing =
            |attribute| ReadError::MissingCoordinate { element, attribute, place: self.place() };
        let lat = lat.ok_or_else(|| missing("lat"))?;
        let lon = lon.ok_or_else(|| missing("lon"))?;
        Ok(Point::new(lat, wrap_longitude(lon)))
    }

    fn end(&mut self) -> Result<(), ReadError> {
        match self.open.pop() {
            Some(Element::Elevation) => {
                let text = self.collected.trim();
                if !text.is_empty() {
                    let metres = self.number("ele", text)?;
                    self.point = self.point.map(|point| point.at_elevation(metres));
                }
            }
            Some(Element::Point(_)) => {
                if let Some(point) = self.point.take() {
                    point
                        .check()
                        .map_err(|reason| ReadError::OutOfRange { reason, place: self.place() })?;
                    if self.line.len() == self.lines.room() {
                        return Err(self.lines.too_many_points());
                    }
                    self.line.push(point);
                }
            }
            Some(Element::Segment | Element::Route) => {
                self.lines.add_line(std::mem::take(&mut self.line))?;
            }
            Some(Element::DocumentName) if self.document_name.is_none() => {
                self.document_name = clean_name(&self.collected);
            }
            Some(Element::LineName) if self.line_name.is_none() => {
                self.line_name = clean_name(&self.collected);
            }
            _ => {}
        }
        self.finished = self.open.is_empty();
        Ok(())
    }

    fn characters(&mut self, text: &str) -> Result<(), ReadError> {
        match self.open.last() {
            Some(element) if element.has_text() => {
                let room = MAX_TEXT.saturating_sub(self.collected.len());
                self.collected.push_str(&text[..text.floor_char_boundary(room)]);
                Ok(())
            }
            None if !text.trim().is_empty() => {
                Err(self.ill_formed("text outside the root element"))
            }
            _ => Ok(()),
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>) -> Result<(), ReadError> {
        let resolved = match reference.resolve_char_ref() {
            Ok(Some(c)) => Cow::Owned(c.to_string()),
            Ok(None) => match resolve_predefined_entity(reference) {
                Some(text) => Cow::Borrowed(text),
                None => {
                    let name = excerpt(reference);
                    return Err(self.ill_formed(format_args!("&{name}; is not defined")));
                }
            },
            Err(error) => return Err(self.ill_formed(error)),
        };
        self.characters(&resolved)
    }

    fn end_of_file(&self) -> Result<(), ReadError> {
        if !self.open.is_empty() {
            return Err(self.ill_formed("the file ends before the root element is closed"));
        }
        if !self.finished {
            return Err(ReadError::Empty);
        }
        Ok(())
    }

    fn number(&self, what: &'static str, text: &str) -> Result<f64, ReadError> {
        text.trim().parse().map_err(|_| ReadError::NotANumber {
            what,
            text: excerpt(text.trim()),
            place: self.place(),
        })
    }

    fn ill_formed(&self, error: impl std::fmt::Display) -> ReadError {
        ReadError::Xml { reason: reason(&error.to_string()), place: self.place() }
    }

    fn place(&self) -> TextPosition {
        self.place_at(self.at)
    }

    fn place_at(&self, offset: u64) -> TextPosition {
        TextPosition::of(self.text, offset as usize)
    }
}

/// Local name and namespace prefix.
fn split_name<'a>(tag: &'a BytesStart<'_>) -> (&'a str, Option<&'a str>) {
    let name = tag.name().into_inner();
    match name.split_once(':') {
        Some((prefix, local_name)) => (local_name, Some(prefix)),
        None => (name, None),
    }
}
