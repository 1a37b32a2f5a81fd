//! GeoJSON, RFC 7946.

mod coordinates;
mod read;
mod write;

pub use read::read;
pub use write::write;
