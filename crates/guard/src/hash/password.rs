//! A password in memory.

use std::fmt;

use zeroize::Zeroizing;

/// A password: bytes that do not print and are overwritten when dropped.
///
/// Any bytes are a password here, of any length; limits and Unicode normalisation are the caller's.
/// Only this copy is wiped: the body it was read from is its owner's business.
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// Takes the bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for whoever must look at them (a keyed digest, for instance).
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self::new(text.into_bytes())
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
