//! Issuing and checking device marks.
//!
//! A mark is `1.` and the Base64 (RFC 4648, section 5) of a nonce, an expiry and an HMAC-SHA256 over these
//! and the account. It proves that its bearer once logged in to this account, and nothing else: the
//! password is still asked for. The idea is OWASP's "device cookie" (Dedov, "Slow Down Online Guessing
//! Attacks with Device Cookies"); the failure counter of a mark is the limiter's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::DeviceMark;
use super::key::subkey;
use crate::config::{Key, MarkConfig};

const VERSION: &str = "1.";
const NONCE: usize = 12;
const SIGNED: usize = NONCE + 8;
const BYTES: usize = SIGNED + 32;
/// Base64 of so many bytes without padding.
const DIGITS: usize = (BYTES * 4).div_ceil(3);

pub(crate) type Nonce = [u8; NONCE];

/// Stands for an account in its marks, so that a reservation need not keep the name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccountTag([u8; 32]);

pub(crate) struct Marks {
    config: MarkConfig,
    tagging: Hmac<Sha256>,
    signing: Hmac<Sha256>,
}

impl Marks {
    pub(crate) fn new(config: MarkConfig, key: &Key) -> Self {
        Self {
            config,
            tagging: subkey(key, b"mark account"),
            signing: subkey(key, b"mark signature"),
        }
    }

    pub(crate) fn tag(&self, account: &[u8]) -> AccountTag {
        AccountTag(self.tagging.clone().chain_update(account).finalize().into_bytes().into())
    }

    /// A new mark for the account, at this date; `None` if the system has no randomness to give.
    pub(crate) fn issue(&self, account: &AccountTag, now: u64) -> Option<DeviceMark> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes[..NONCE]).ok()?;
        let expires = now.saturating_add(self.config.expiry.as_secs());
        bytes[NONCE..SIGNED].copy_from_slice(&expires.to_be_bytes());
        let signature = self.sign(account, &bytes[..SIGNED]);
        bytes[SIGNED..].copy_from_slice(&signature);
        let mut value = String::with_capacity(VERSION.len() + DIGITS);
        value.push_str(VERSION);
        URL_SAFE_NO_PAD.encode_string(bytes, &mut value);
        Some(DeviceMark { value, max_age: self.config.expiry })
    }

    /// The nonce of the mark, if it is one for this account and has not expired.
    pub(crate) fn check(&self, mark: &str, account: &AccountTag, now: u64) -> Option<Nonce> {
        let digits = mark.strip_prefix(VERSION)?;
        if digits.len() != DIGITS {
            return None;
        }
        let mut bytes = [0; BYTES];
        if URL_SAFE_NO_PAD.decode_slice(digits, &mut bytes).ok()? != BYTES {
            return None;
        }
        let (signed, signature) = bytes.split_at(SIGNED);
        let (nonce, expires) = signed.split_at(NONCE);
        let right: bool = self.sign(account, signed).ct_eq(signature).into();
        let valid = right && u64::from_be_bytes(expires.try_into().ok()?) > now;
        if valid { nonce.try_into().ok() } else { None }
    }

    fn sign(&self, account: &AccountTag, signed: &[u8]) -> [u8; 32] {
        let mac = self.signing.clone().chain_update(account.0).chain_update(signed);
        mac.finalize().into_bytes().into()
    }
}
