//! Load engine: runs k6 scripts.
