//! Issuing and checking device tokens.
//!
//! A device token is `2.` and the Base64 (RFC 4648, section 5) of a nonce, an expiry and an HMAC-SHA256 over these,
//! the account and the stored form of its password. It proves only that its bearer once logged in to this account
//! with its present password, which is still required. The idea is OWASP's "device cookie" (Dedov, "Slow Down Online
//! Guessing Attacks with Device Cookies"); the limiter counts the failures of a device token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::DeviceToken;
use crate::config::{DEVICE_TOKEN_EXPIRY, Key};

const VERSION: &str = "2.";
const NONCE: usize = 12;
const SIGNED: usize = NONCE + 8;
const BYTES: usize = SIGNED + 32;
/// Length in Base64 without padding.
const DIGITS: usize = (BYTES * 4).div_ceil(3);

pub(crate) type Nonce = [u8; NONCE];

/// The account of a device token and the stored form of its password.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) account: &'a [u8],
    pub(crate) credential: &'a [u8],
}

pub(crate) struct DeviceTokens {
    signing: Hmac<Sha256>,
}

impl DeviceTokens {
    pub(crate) fn new(key: &Key) -> Self {
        Self { signing: key.signer(b"mark signature") }
    }

    /// A new device token; `now` in Unix seconds. `None` if the operating system gives no random bytes.
    pub(crate) fn issue(&self, owner: Owner<'_>, now: u64) -> Option<DeviceToken> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes[..NONCE]).ok()?;
        let expires = now.saturating_add(DEVICE_TOKEN_EXPIRY.as_secs());
        bytes[NONCE..SIGNED].copy_from_slice(&expires.to_be_bytes());
        let signature = self.sign(owner, &bytes[..SIGNED]);
        bytes[SIGNED..].copy_from_slice(&signature);
        let mut value = String::with_capacity(VERSION.len() + DIGITS);
        value.push_str(VERSION);
        URL_SAFE_NO_PAD.encode_string(bytes, &mut value);
        Some(DeviceToken { value, max_age: DEVICE_TOKEN_EXPIRY })
    }

    /// The nonce of the device token; `None` if it is not this owner's or has expired.
    pub(crate) fn check(&self, token: &str, owner: Owner<'_>, now: u64) -> Option<Nonce> {
        let digits = token.strip_prefix(VERSION)?;
        if digits.len() != DIGITS {
            return None;
        }
        let mut bytes = [0; BYTES];
        if URL_SAFE_NO_PAD.decode_slice(digits, &mut bytes).ok()? != BYTES {
            return None;
        }
        let (signed, signature) = bytes.split_at(SIGNED);
        let (nonce, expires) = signed.split_at(NONCE);
        let right: bool = self.sign(owner, signed).ct_eq(signature).into();
        let valid = right && u64::from_be_bytes(expires.try_into().ok()?) > now;
        if valid { nonce.try_into().ok() } else { None }
    }

    /// `signed` and the encoded length of the account have fixed lengths, so no two owners give the same bytes.
    fn sign(&self, owner: Owner<'_>, signed: &[u8]) -> [u8; 32] {
        let length = (owner.account.len() as u64).to_be_bytes();
        let mac = self.signing.clone().chain_update(signed).chain_update(length);
        let mac = mac.chain_update(owner.account).chain_update(owner.credential);
        mac.finalize().into_bytes().into()
    }
}
