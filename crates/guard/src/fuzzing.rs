//! Targets of `scripts/fuzz`: each parses arbitrary bytes and panics when a property does not hold. Unit tests replay
//! the stored inputs.

use std::net::IpAddr;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::config::{Key, ProofConfig};
use crate::hash::StoredHash;
use crate::net::Cidr;
use crate::suspicion::{Binding, DeviceTokens, Owner, Proofs};

/// A name, which is also a directory in `fuzz/seeds`, and the function for an input.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets of this crate.
pub const TARGETS: &[FuzzTarget] =
    &[("stored_hashes", stored_hashes), ("proofs", proofs), ("ranges", ranges)];

fn stored_hashes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(hash) = text.parse::<StoredHash>() {
        assert_eq!(hash.to_string(), text);
        assert!(!format!("{hash:?}").contains(text));
    }
}

/// Solutions of challenges and device tokens. None was issued, so all must be rejected.
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
