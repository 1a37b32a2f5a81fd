//! The bundled samples, compiled in.

include!(concat!(env!("OUT_DIR"), "/samples.rs"));
