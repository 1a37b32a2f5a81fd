//! Reading GeoJSON as a stream.
//!
//! A tree of `serde_json::Value` takes up to 16 times the bytes of the file; these visitors keep
//! only the points of lines, so that a file of the largest size accepted fits a small machine.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::coordinates::{Coordinates, Item, Items};
use crate::document::{Document, Format, Limits, Lines, clean_name};
use crate::error::{ReadError, TextPosition, reason};
use crate::point::InvalidPoint;

/// Reads a `FeatureCollection`, a `Feature` or a bare geometry.
///
/// `LineString` and `MultiLineString` become segments, in the order of the file, also inside a
/// `GeometryCollection`; lines without positions are dropped; other geometries and `null` are
/// skipped. The third number of a position is its elevation. The name is `name` or `title` of the
/// first feature that has one, else of the collection.
///
/// # Errors
/// [`ReadError`]: not JSON (which includes nesting deeper than 128), not GeoJSON, over a limit, a
/// position out of range, no points.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Document, ReadError> {
    if bytes.len() > limits.max_bytes {
        return Err(ReadError::TooManyBytes { bytes: bytes.len(), limit: limits.max_bytes });
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut reading =
        Reading { lines: Lines::new(limits), feature_name: None, name: None, refusal: None };
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let root = Any(AnObject { reading: &mut reading, root: true });
    let outcome = root.deserialize(&mut parser).and_then(|()| parser.end());
    if let Err(error) = outcome {
        let place = TextPosition { line: error.line(), column: error.column() };
        return Err(match reading.refusal {
            Some(refusal) => refusal.at(place),
            None => {
                let message = error.to_string();
                let suffix = format!(" at line {} column {}", place.line, place.column);
                let message = message.strip_suffix(&suffix).unwrap_or(&message);
                ReadError::Json { reason: reason(message), place }
            }
        });
    }
    let name = reading.feature_name.or(reading.name);
    Ok(Document { name, path: reading.lines.into_path()?, format: Format::GeoJson })
}

/// Reason for which the visitors stopped. serde carries only text through the parser, so the reason
/// is kept here until the place is known.
pub(super) enum Refusal {
    NotGeoJson(&'static str),
    OutOfRange(InvalidPoint),
    Limit(ReadError),
}

impl Refusal {
    fn at(self, place: TextPosition) -> ReadError {
        match self {
            Self::NotGeoJson(reason) => ReadError::NotGeoJson { reason, place },
            Self::OutOfRange(reason) => ReadError::OutOfRange { reason, place },
            Self::Limit(error) => error,
        }
    }
}

pub(super) struct Reading<'l> {
    pub(super) lines: Lines<'l>,
    feature_name: Option<String>,
    name: Option<String>,
    refusal: Option<Refusal>,
}

impl Reading<'_> {
    /// Stops the parser for a reason of this crate.
    pub(super) fn refuse<E: de::Error>(&mut self, refusal: Refusal) -> E {
        self.refusal = Some(refusal);
        E::custom("refused")
    }
}

/// The types of RFC 7946, as far as they differ here.
#[derive(Clone, Copy, PartialEq)]
enum Type {
    LineString,
    MultiLineString,
    /// A feature or a collection.
    Container,
    /// A geometry other than a line.
    Skipped,
    Unknown,
}

impl Type {
    fn of(name: &str) -> Self {
        match name {
            "LineString" => Self::LineString,
            "MultiLineString" => Self::MultiLineString,
            "Feature" | "FeatureCollection" | "GeometryCollection" => Self::Container,
            "Point" | "MultiPoint" | "Polygon" | "MultiPolygon" => Self::Skipped,
            _ => Self::Unknown,
        }
    }
}

/// The members that are read, of any GeoJSON object and of `properties`.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Type,
    /// An array of objects.
    #[serde(rename = "features", alias = "geometries")]
    Objects,
    /// An object or null.
    #[serde(rename = "geometry")]
    Object,
    Coordinates,
    Properties,
    #[serde(alias = "title")]
    Name,
    #[serde(other)]
    Other,
}

/// A value of any kind, as its visitor reads it.
pub(super) struct Any<V>(pub(super) V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Any<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}

/// Any GeoJSON object, or null.
struct AnObject<'r, 'l> {
    reading: &'r mut Reading<'l>,
    root: bool,
}

impl<'de> Visitor<'de> for AnObject<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a GeoJSON object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let reading = self.reading;
        let mut kind = None;
        let mut coordinates = Coordinates::Nothing;
        while let Some(member) = members.next_key()? {
            match member {
                Member::Type => {
                    let Text(name) = members.next_value()?;
                    kind = Some(name.as_deref().map_or(Type::Unknown, Type::of));
                }
                // If the type is known to be skipped, a large polygon costs nothing.
                Member::Coordinates if !matches!(kind, Some(Type::Skipped | Type::Unknown)) => {
                    let items = Items { reading, points: &mut 0 };
                    coordinates = match members.next_value_seed(Any(items))? {
                        Item::Array(coordinates) => coordinates,
                        Item::Null => Coordinates::Nothing,
                        Item::Number(_) => {
                            return Err(de::Error::custom("coordinates are not an array"));
                        }
                    };
                }
                Member::Objects => members.next_value_seed(ObjectsSeed { reading })?,
                Member::Object => {
                    members.next_value_seed(Any(AnObject { reading, root: false }))?;
                }
                Member::Properties => members.next_value_seed(Any(Properties { reading }))?,
                Member::Name => {
                    let Text(name) = members.next_value()?;
                    if reading.name.is_none() {
                        reading.name = name.as_deref().and_then(clean_name);
                    }
                }
                Member::Coordinates | Member::Other => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        if self.root && matches!(kind, None | Some(Type::Unknown)) {
            let reason = "the top-level object has no GeoJSON `type`";
            return Err(reading.refuse(Refusal::NotGeoJson(reason)));
        }
        keep_lines(reading, kind, coordinates)
    }
}

/// Keeps the coordinates of an object whose type is now known.
fn keep_lines<E: de::Error>(
    reading: &mut Reading<'_>,
    kind: Option<Type>,
    coordinates: Coordinates,
) -> Result<(), E> {
    let lines = match (kind, coordinates) {
        (Some(Type::LineString | Type::MultiLineString), Coordinates::Nothing) => return Ok(()),
        (Some(Type::LineString), Coordinates::Line(line)) => vec![line],
        (Some(Type::MultiLineString), Coordinates::Lines(lines)) => lines,
        (Some(Type::LineString), _) => {
            let reason = "the coordinates of a LineString are not an array of positions";
            return Err(reading.refuse(Refusal::NotGeoJson(reason)));
        }
        (Some(Type::MultiLineString), _) => {
            let reason = "the coordinates of a MultiLineString are not an array of lines";
            return Err(reading.refuse(Refusal::NotGeoJson(reason)));
        }
        _ => return Ok(()),
    };
    for line in lines {
        reading.lines.add_line(line).map_err(|error| reading.refuse(Refusal::Limit(error)))?;
    }
    Ok(())
}

/// An array of GeoJSON objects.
struct ObjectsSeed<'r, 'l> {
    reading: &'r mut Reading<'l>,
}

impl<'de> DeserializeSeed<'de> for ObjectsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ObjectsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of GeoJSON objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<(), A::Error> {
        let reading = self.reading;
        while objects.next_element_seed(Any(AnObject { reading, root: false }))?.is_some() {}
        Ok(())
    }
}

/// The properties of a feature, of which only the name is kept.
struct Properties<'r, 'l> {
    reading: &'r mut Reading<'l>,
}

impl<'de> Visitor<'de> for Properties<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(member) = members.next_key()? {
            match member {
                Member::Name if self.reading.feature_name.is_none() => {
                    let Text(name) = members.next_value()?;
                    self.reading.feature_name = name.as_deref().and_then(clean_name);
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The beginning of a string; `None` for any other value.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        /// More than any name shown, in bytes.
        const LONGEST: usize = 4096;
        Ok(Text(Some(text[..text.floor_char_boundary(LONGEST)].to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Text, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Text, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }
}
