//! GPS paths: read GPX and GeoJSON, measure, simplify, encode.
//!
//! ```
//! use madang_path::{Limits, read, simplify, write};
//!
//! let gpx = br#"<gpx version="1.1"><trk><name>Riverside</name><trkseg>
//!   <trkpt lat="37.5200" lon="126.9200"/>
//!   <trkpt lat="37.5205" lon="126.9300"/>
//!   <trkpt lat="37.5210" lon="126.9400"/>
//! </trkseg></trk></gpx>"#;
//! let document = read(gpx, &Limits::default())?;
//! assert_eq!(document.name.as_deref(), Some("Riverside"));
//! assert_eq!(document.path.length_metres().round(), 1767.0);
//!
//! let short = simplify::metres(&document.path, 10.0)?;
//! let mut json = Vec::new();
//! write::points_json(&short, &mut json);
//! assert_eq!(json, b"[[[37.52,126.92],[37.521,126.94]]]");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Path`] is always valid: every coordinate is finite and in range, no segment is empty. All
//! functions that take one therefore cannot fail on its contents. Coordinates are WGS 84 degrees,
//! elevations and lengths metres.
//!
//! | module | what it does |
//! |---|---|
//! | [`gpx`], [`geojson`] | read and write the two formats; [`read()`] tells them apart |
//! | [`simplify`] | Ramer–Douglas–Peucker, with the tolerance in metres or (naively) in degrees |
//! | [`mod@write`] | the JSON array of points |
//! | [`polyline`] | Google's encoded polyline |
//! | [`compact`] | a small binary form for storage |
#![forbid(unsafe_code)]

pub mod compact;
mod document;
mod error;
pub mod geojson;
pub mod gpx;
mod number;
mod path;
mod point;
pub mod polyline;
pub mod simplify;
pub mod write;

pub use document::{Document, Format, Limits, read};
pub use error::{Place, ReadError};
pub use path::{InvalidPath, Path};
pub use point::{EARTH_RADIUS_METRES, InvalidPoint, MAX_ELEVATION_METRES, Point, distance_metres};
