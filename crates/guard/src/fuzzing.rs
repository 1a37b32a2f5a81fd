//! Targets of the fuzzer: each takes any bytes, reads them as a parser of this crate does, and panics when a property
//! does not hold. Unit tests replay the kept inputs; otherwise they are there for `scripts/fuzz` alone.

use std::net::IpAddr;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::config::{Key, ProofConfig};
use crate::hash::StoredHash;
use crate::net::Cidr;
use crate::suspicion::{Binding, DeviceTokens, Owner, Proofs};

/// A name, that of a directory in `fuzz/seeds`, and what is done with an input.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The targets by name: that of a directory in `fuzz/seeds`.
pub const TARGETS: &[FuzzTarget] =
    &[("stored_hashes", stored_hashes), ("proofs", proofs), ("ranges", ranges)];

/// The text of a password hash.
fn stored_hashes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(hash) = text.parse::<StoredHash>() {
        assert_eq!(hash.to_string(), text);
        assert!(!format!("{hash:?}").contains(text));
    }
}

/// A solution of a challenge, and the cookie of a device: nobody has issued either.
fn proofs(data: &[u8]) {
    static BOTH: LazyLock<(Proofs, DeviceTokens)> = LazyLock::new(|| {
        let key = Key::new([7; 32]);
        let proofs = Proofs::new(ProofConfig::default(), &key).expect("random bytes");
        (proofs, DeviceTokens::new(&key))
    });
    let (proofs, tokens) = &*BOTH;
    let binding = Binding { account: b"mina", address: IpAddr::from([9, 9, 9, 9]) };
    assert!(proofs.check(&STANDARD.encode(data), &binding, 1).is_err());
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert!(proofs.check(text, &binding, 1).is_err());
    assert!(tokens.check(text, Owner { account: b"mina", credential: b"" }, 1).is_none());
}

/// A range of addresses.
fn ranges(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(range) = text.parse::<Cidr>() {
        assert_eq!(range.to_string().parse(), Ok(range));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
