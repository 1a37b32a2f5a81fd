//! Fuzz targets: each passes any bytes to a parser of this crate and panics if a property does not hold. Unit tests
//! replay the stored inputs; otherwise only `scripts/fuzz` uses them.

use crate::remote::entry;

/// Name of a target and of its directory in `fuzz/seeds`, and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[("cache_entries", cache_entries)];

/// An entry of the shared cache, as it is and with a valid checksum.
fn cache_entries(data: &[u8]) {
    let mut right = data.to_vec();
    if let Some((before, rest)) = right.split_at_mut_checked(5) {
        before[1..].copy_from_slice(&crc32fast::hash(rest).to_le_bytes());
    }
    for bytes in [data.to_vec(), right] {
        let length = bytes.len();
        let Some((label, value)) = entry::decode(bytes) else { continue };
        let parts = value.parts();
        let bodies = parts.encoded.iter().map(|(_, body)| body.len()).sum::<usize>();
        assert!(label.len() + parts.identity.len() + bodies <= length);
        let again = entry::decode(entry::encode(&label, &value));
        assert!(again == Some((label, value)), "what is written is read");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
