//! Targets of the fuzzer: each takes any bytes, reads them as a parser of this crate does, and panics when a property
//! does not hold. They are part of unit tests, which replay the kept inputs, and of nothing else unless the feature
//! `fuzzing` asks for them; `scripts/fuzz` does.

mod requests;
mod stored;

/// A name, that of a directory in `fuzz/seeds`, and what is done with an input.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The targets by name: that of a directory in `fuzz/seeds`.
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
