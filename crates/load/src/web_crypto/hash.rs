//! Hashes, and functions based on them.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Digest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// Runs `$body` with the type `$D` of a hash.
macro_rules! with_hash {
    ($hash:expr, $D:ident => $body:expr) => {
        match $hash {
            $crate::web_crypto::Hash::Sha1 => with_type!($D = sha1::Sha1 => $body),
            $crate::web_crypto::Hash::Sha256 => with_type!($D = sha2::Sha256 => $body),
            $crate::web_crypto::Hash::Sha384 => with_type!($D = sha2::Sha384 => $body),
            $crate::web_crypto::Hash::Sha512 => with_type!($D = sha2::Sha512 => $body),
        }
    };
}
pub(super) use with_hash;

impl Hash {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "SHA-1" => Some(Self::Sha1),
            "SHA-256" => Some(Self::Sha256),
            "SHA-384" => Some(Self::Sha384),
            "SHA-512" => Some(Self::Sha512),
            _ => None,
        }
    }

    pub(super) fn digest(self, data: &[u8]) -> Vec<u8> {
        with_hash!(self, D => D::digest(data).to_vec())
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        with_hash!(self, D => {
            let mac = Hmac::<D>::new_from_slice(key).expect("a key of any length is one");
            mac.chain_update(data).finalize().into_bytes().to_vec()
        })
    }

    /// Verifies a code in constant time.
    pub(super) fn is_hmac(self, key: &[u8], data: &[u8], code: &[u8]) -> bool {
        with_hash!(self, D => {
            let mac = Hmac::<D>::new_from_slice(key).expect("a key of any length is one");
            mac.chain_update(data).verify_slice(code).is_ok()
        })
    }

    pub(super) fn pbkdf2(
        self,
        password: &[u8],
        salt: &[u8],
        rounds: u32,
        length: usize,
    ) -> Vec<u8> {
        let mut bytes = vec![0; length];
        with_hash!(self, D => pbkdf2::pbkdf2_hmac::<D>(password, salt, rounds, &mut bytes));
        bytes
    }
}
