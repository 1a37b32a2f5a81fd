//! GPX, the GPS exchange format of TopoGrafix, versions 1.0 and 1.1.

mod encoding;
mod read;
mod write;

pub use read::{MAX_DEPTH, read};
pub use write::write;
