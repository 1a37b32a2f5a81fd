//! Fuzz targets: each parses any bytes as this crate does, and panics when a property does not hold. Unit tests
//! replay the stored inputs; the feature `fuzzing` exports the targets for `scripts/fuzz`.

mod requests;
mod stored;

/// Name of a target and of its directory in `fuzz/seeds`, and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets of this crate.
pub const TARGETS: &[FuzzTarget] = &[
    ("request_heads", requests::heads),
    ("queries", requests::queries),
    ("json_bodies", requests::json_bodies),
    ("uploads", requests::uploads),
    ("tokens", requests::tokens),
    ("values", requests::values),
    ("settings", stored::settings),
    ("like_log", stored::like_log),
    ("outbox", stored::outbox),
    ("archives", stored::archives),
    ("copy_keys", stored::copy_keys),
];

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
