//! Keys of a single purpose, derived from the configured key (HKDF-Expand of RFC 5869, one block).

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::config::Key;

fn expand(key: &Key, purpose: &[u8]) -> [u8; 32] {
    keyed(&key.0).chain_update(purpose).chain_update([1]).finalize().into_bytes().into()
}

/// A signer for one purpose; cloning it saves the key set-up.
pub(super) fn subkey(key: &Key, purpose: &[u8]) -> Hmac<Sha256> {
    keyed(&expand(key, purpose))
}

/// A key of 16 bytes for one purpose.
pub(crate) fn half(key: &Key, purpose: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&expand(key, purpose)[..16]);
    bytes
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}
