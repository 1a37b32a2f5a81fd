//! Suspicion instead of lock-out.

use std::time::Duration;

/// A challenge in the format of ALTCHA, version 1: find the number from 0 to `maxnumber` for which
/// `challenge` is the hexadecimal SHA-256 of `salt` followed by the number in decimal digits.
///
/// As a JSON object with these field names it is what an ALTCHA widget fetches. Its solution, the
/// Base64 of the JSON object `{algorithm, challenge, number, salt, signature}`, goes into
/// [`Attempt::proof`](crate::Attempt::proof).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Challenge {
    /// `SHA-256`.
    pub algorithm: &'static str,
    /// 64 hexadecimal digits.
    pub challenge: String,
    /// The number is not larger than this.
    pub maxnumber: u32,
    /// Nonce and parameters (`expires`, in Unix seconds, is the one that widgets read).
    pub salt: String,
    /// 64 hexadecimal digits.
    pub signature: String,
}

/// Why a proof of work does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// Not the Base64 of the JSON that a widget makes, or too long.
    #[error("the proof is not well formed")]
    Malformed,
    /// Signed by another key, altered, or solved wrongly.
    #[error("the proof is not right")]
    Wrong,
    /// Right, but for another account or address.
    #[error("the proof belongs to another attempt")]
    Unbound,
    /// Too old.
    #[error("the proof has expired")]
    Expired,
    /// It has let an attempt through before.
    #[error("the proof was used before")]
    Used,
}

/// What a device shows on its later attempts at one account; signed, for keeping in a cookie
/// (`HttpOnly`, `Secure`, `SameSite`) or beside the token.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceMark {
    /// Letters, digits, `-`, `_` and `.`.
    pub value: String,
    /// How long it counts from now on.
    pub max_age: Duration,
}

impl std::fmt::Debug for DeviceMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceMark").field("max_age", &self.max_age).finish_non_exhaustive()
    }
}
