//! The crate as its users see it, on real and on hostile files.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod encodings;
mod files;
mod geojson;
mod gpx;
mod hostile;
mod simplify;
mod tracks;
