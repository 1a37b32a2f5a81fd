#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod compact;
mod document;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod geojson;
pub mod gpx;
mod number;
mod path;
mod point;
pub mod polyline;
pub mod simplify;
pub mod write;

pub use document::{Document, Format, Limits, read};
pub use error::{ReadError, TextPosition};
pub use path::{InvalidPath, Path};
pub use point::{EARTH_RADIUS_METRES, InvalidPoint, MAX_ELEVATION_METRES, Point, distance_metres};
