//! Reads uploads: JSON, GPX, GeoJSON. CPU-heavy for a long path: belongs on the compute pool.

use super::super::types::{NAME_CHARS, track_name};
use crate::http::json::table::{self, Asked, Line, Number, optional, required, table};
use crate::http::json::what_a_line_is;
use crate::http::{JsonBody, JsonObject, Problem};
use bytes::Bytes;
use http::{HeaderMap, header};
use madang_path::{InvalidPath, Limits, Path, Point, ReadError};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use std::fmt;

table! {
    /// A track to be stored.
    pub(in super::super) struct Fields: NewTrackBody (All);
    /// Name, on one line.
    name: Line = required("name", Line(NAME_CHARS), "한강 아침 달리기");
    /// Rating in stars; 0 or absent = not rated.
    rate: Number = optional("rate", Number(0.0..=5.0), 4.5);
    /// Lines of `[latitude, longitude, elevation?]`: degrees and metres, WGS 84; two points at least.
    segments: Lines = required("segments", Lines, ExamplePath);
}

/// An example of a path.
struct ExamplePath;

impl From<ExamplePath> for serde_json::Value {
    fn from(_: ExamplePath) -> Self {
        serde_json::json!([[
            [37.5172, 126.9361, 12.5],
            [37.5181, 126.9402, 12.0],
            [37.5203, 126.9468]
        ]])
    }
}

/// The field `segments`.
pub(in super::super) struct Lines;

impl table::FieldKind for Lines {
    type Value = Path;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<Path> {
        let text = body.array(name)?;
        path(&text).map_err(|why| body.refuse(name, why.to_string())).ok()
    }

    fn schema(&self) -> serde_json::Value {
        // Each number of a point has its own bounds, which the types of the document cannot express for an array.
        let point = serde_json::json!({
            "type": "array", "minItems": 2, "maxItems": 3, "items": { "type": "number" },
        });
        let Limits { max_points, max_segments, .. } = limits();
        let line = serde_json::json!({
            "type": "array", "minItems": 1, "maxItems": max_points, "items": point,
        });
        serde_json::json!({
            "type": "array", "minItems": 1, "maxItems": max_segments, "items": line,
        })
    }
}

/// Format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFormat {
    /// `{name, rate?, segments}`.
    Json,
    /// A GPX or GeoJSON file; its contents tell which.
    File,
}

impl UploadFormat {
    /// The format that the head of a request declares.
    pub(crate) fn of(headers: &HeaderMap) -> Result<UploadFormat, Problem> {
        let mut kinds = headers.get_all(header::CONTENT_TYPE).into_iter();
        let kind = kinds.next().and_then(|v| v.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let is_file = matches!(kind.as_str(), "application/gpx+xml" | "application/geo+json");
        if is_file && kinds.next().is_none() && !headers.contains_key(header::CONTENT_ENCODING) {
            return Ok(UploadFormat::File);
        }
        JsonBody::check(headers).map(|()| UploadFormat::Json).map_err(|_| {
            Problem::unsupported_media_type(
                "send application/json, application/gpx+xml or application/geo+json, uncompressed",
            )
        })
    }
}

/// Points of an uploaded path. The longest tracks that people record, two days at a point every two seconds, have
/// fewer, and this many take at most some 4 MiB in each form of response (`represent`): one upload of 1 MiB must not
/// make others read many times that.
const MOST_POINTS: usize = 50_000;

fn limits() -> Limits {
    Limits { max_points: MOST_POINTS, ..Limits::default() }
}

/// Contents of a body.
#[derive(Debug, PartialEq)]
pub(crate) struct Upload {
    pub name: String,
    pub rate: f64,
    pub path: Path,
}

/// The name in a query, if there is one.
pub(crate) fn name_of(query: &str) -> Result<Option<String>, Problem> {
    let named = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "name");
    let Some((_, name)) = named else { return Ok(None) };
    let wrong = || Problem::invalid_field("name", what_a_line_is(&NAME_CHARS));
    track_name(&name).map(Some).ok_or_else(wrong)
}

/// Reads a body. A given name replaces the one in a file.
pub(crate) fn track(
    kind: UploadFormat,
    body: Bytes,
    name: Option<String>,
) -> Result<Upload, Problem> {
    match kind {
        UploadFormat::Json => json(body),
        UploadFormat::File => file(&body, name),
    }
}

fn file(body: &[u8], name: Option<String>) -> Result<Upload, Problem> {
    let document = madang_path::read(body, &limits()).map_err(|error| match error {
        // Neither XML nor JSON: unreadable. Other errors concern the contents.
        ReadError::Empty
        | ReadError::UnknownFormat
        | ReadError::NotText { .. }
        | ReadError::Xml { .. }
        | ReadError::Json { .. } => Problem::bad_request(error.to_string()),
        _ => Problem::invalid_field("body", error.to_string()),
    })?;
    let own = || document.name.as_deref().and_then(track_name);
    match name.or_else(own) {
        Some(name) => Ok(Upload { name, rate: 0.0, path: document.path }),
        None => Err(Problem::invalid_field(
            "name",
            "the file has no track name in one line of plain text; add ?name=",
        )),
    }
}

fn json(body: Bytes) -> Result<Upload, Problem> {
    let most = body.len();
    let mut body = JsonBody::from(body).object(most)?;
    let Fields { name, rate, segments } = Fields::read(&mut body, Asked::All);
    let (name, path) = body.finish((name, segments))?;
    Ok(Upload { name, rate: rate.unwrap_or(0.0), path })
}

/// Error in the field `segments`.
#[derive(Debug, thiserror::Error)]
enum LinesError {
    // Not the message of `serde_json`, which quotes input of any length. The position counts in bytes from the
    // beginning of the field.
    #[error("lines of [latitude, longitude, elevation?], numbers; not so at byte {0} of it")]
    Shape(String),
    #[error("at most {} points in at most {} lines", .0.max_points, .0.max_segments)]
    Size(Limits),
    #[error(transparent)]
    Path(#[from] InvalidPath),
}

fn path(text: &[u8]) -> Result<Path, LinesError> {
    let lines: Vec<Vec<Coordinate>> = serde_json::from_slice(text).map_err(|error| {
        let one_line = error.line() == 1;
        LinesError::Shape(if one_line { error.column().to_string() } else { "?".to_owned() })
    })?;
    let limits = limits();
    let points: usize = lines.iter().map(Vec::len).sum();
    if points > limits.max_points || lines.len() > limits.max_segments {
        return Err(LinesError::Size(limits));
    }
    let lines = lines.into_iter().map(|line| line.into_iter().map(|c| c.0).collect()).collect();
    Ok(Path::new(lines)?)
}

/// A point as an array of two or three numbers.
struct Coordinate(Point);

impl<'de> Deserialize<'de> for Coordinate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Coordinate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of two or three numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Coordinate, A::Error> {
                let missing = |at| de::Error::invalid_length(at, &self);
                let lat = seq.next_element()?.ok_or_else(|| missing(0))?;
                let lon = seq.next_element()?.ok_or_else(|| missing(1))?;
                let ele = seq.next_element()?;
                if ele.is_some() && seq.next_element::<de::IgnoredAny>()?.is_some() {
                    return Err(missing(4));
                }
                Ok(Coordinate(Point { lat, lon, ele }))
            }
        }
        from.deserialize_seq(Numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::FieldError;
    use http::HeaderValue;

    fn read(body: &str) -> Result<Upload, Vec<FieldError>> {
        json(Bytes::from(body.to_owned())).map_err(|problem| problem.errors().to_vec())
    }

    #[test]
    fn a_track_in_json_is_read() {
        let read = read(
            r#"{"name":"한강","rate":4.5,"segments":[[[37.5,127,12.5],[37.6,127.1]],[[1,2]]]}"#,
        );
        let read = read.unwrap();
        assert_eq!((read.name.as_str(), read.rate), ("한강", 4.5));
        assert_eq!(read.path.points(), 3);
        assert_eq!(read.path.start(), Point { lat: 37.5, lon: 127.0, ele: Some(12.5) });
    }

    #[test]
    fn the_document_says_how_many_points_are_read() {
        use table::FieldKind as _;
        let most = Lines.schema()["items"]["maxItems"].as_u64();
        assert_eq!(most, Some(MOST_POINTS as u64));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let errors = read(r#"{"name":"","rate":6,"segments":[[[37.5,127]]]}"#).unwrap_err();
        let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["name", "rate", "segments"]);
    }

    #[test]
    fn what_is_no_path_is_refused_with_its_reason() {
        for (segments, why) in [
            ("[]", "at least 2 points"),
            ("[[[1,2]]]", "at least 2 points"),
            ("[[[1,2],[3,4]],[]]", "segment 1 has no point"),
            ("[[[91,2],[3,4]]]", "segment 0, point 0"),
            ("[[[1,2],[3,181]]]", "segment 0, point 1"),
            ("[[[1,2],[3,\"4\"]]]", "numbers; not so at byte 14"),
            ("[[[1,2],[3]]]", "numbers; not so at byte 11"),
            ("[[[1,2],[3,4,5,6]]]", "numbers; not so at byte"),
            ("[[1,2],[3,4]]", "numbers; not so at byte"),
            ("[[[1,2],null]]", "numbers; not so at byte"),
            ("{}", "an array"),
        ] {
            let body = format!(r#"{{"name":"x","segments":{segments}}}"#);
            let errors = read(&body).unwrap_err();
            assert_eq!(errors.len(), 1, "{segments}: {errors:?}");
            assert!(errors[0].detail.contains(why), "{segments}: {errors:?}");
        }
    }

    #[test]
    fn more_points_or_lines_than_the_limits_are_refused() {
        let line = |points: usize| format!("[{}]", vec!["[1,2]"; points].join(","));
        let limits = limits();
        assert!(path(format!("[{}]", line(limits.max_points)).as_bytes()).is_ok());
        assert!(path(format!("[{}]", line(limits.max_points + 1)).as_bytes()).is_err());
        let lines = vec![line(2); limits.max_segments + 1].join(",");
        assert!(path(format!("[{lines}]").as_bytes()).is_err());
    }

    #[test]
    fn the_kind_is_what_the_head_says() {
        let kind = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(text));
            UploadFormat::of(&headers).ok()
        };
        assert_eq!(kind("application/json"), Some(UploadFormat::Json));
        assert_eq!(kind("application/gpx+xml"), Some(UploadFormat::File));
        assert_eq!(kind("Application/GPX+XML; charset=utf-8"), Some(UploadFormat::File));
        assert_eq!(kind("application/geo+json"), Some(UploadFormat::File));
        for other in ["text/xml", "application/xml", "text/plain", ""] {
            assert_eq!(kind(other), None, "{other}");
        }
        assert!(UploadFormat::of(&HeaderMap::new()).is_err());
    }

    #[test]
    fn a_name_given_apart_is_one_line_of_200_characters() {
        assert_eq!(name_of("").unwrap(), None);
        assert_eq!(name_of("name=%ED%95%9C%EA%B0%95").unwrap().as_deref(), Some("한강"));
        for bad in ["name=", "name=%20", "name=a%0Ab"] {
            assert!(name_of(bad).is_err(), "{bad}");
        }
        assert!(name_of(&format!("name={}", "x".repeat(201))).is_err());
    }
}
