//! The crate as its users see it, on real and on hostile files.

mod encodings;
mod files;
mod geojson;
mod gpx;
mod hostile;
mod simplify;
mod tracks;
