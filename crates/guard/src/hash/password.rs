//! A password in memory.

use std::fmt;

use zeroize::Zeroizing;

/// A password: bytes that do not print and are overwritten when dropped.
///
/// Any bytes of any length are accepted; the caller applies limits and Unicode normalisation. Only this copy is wiped,
/// not the body that it was read from.
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// A password of these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for instance for a keyed digest.
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
