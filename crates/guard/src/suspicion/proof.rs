//! Issuing and checking proofs of work.
//!
//! The format is version 1 of ALTCHA's proof of work (`altcha.org`), because widgets and libraries solve it. Issued
//! challenges are not stored: the salt holds the terms, and the signature covers it through the challenge, which is a
//! hash over salt and number.
//!
//! The salt ends with a delimiter, so that no digit can move between it and the number (the splicing of
//! CVE-2025-68113). It contains a keyed hash of the refused account and address, so that solutions are of no use
//! elsewhere.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use base16ct::lower::{self, encode_string as hex};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{Challenge, ProofError};
use crate::config::{Key, PROOF_DOUBLINGS, PROOF_EXPIRY, ProofConfig};
use crate::limit::Hashing;

const ALGORITHM: &str = "SHA-256";
/// A widget's solution is under 500 bytes of Base64.
const MAX_BYTES: usize = 2_048;

/// The attempt that a challenge is bound to.
#[derive(Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) account: &'a [u8],
    /// As counted.
    pub(crate) address: IpAddr,
}

/// Contents of the salt.
struct Terms {
    expires: u64,
    maxnumber: u32,
    bound_to: [u8; 16],
}

/// The solution as a widget sends it; other fields (`took`, `test`) are ignored.
#[derive(Deserialize)]
struct Solution<'a> {
    #[serde(borrow)]
    algorithm: Cow<'a, str>,
    #[serde(borrow)]
    challenge: Cow<'a, str>,
    /// An integer: neither a fraction nor a negative number.
    number: u64,
    #[serde(borrow)]
    salt: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
}

/// A valid proof that still has to be used up.
#[derive(Clone, Copy)]
pub(crate) struct Proof {
    pub(crate) id: u64,
    pub(crate) expires: u64,
}

pub(crate) struct Proofs {
    config: ProofConfig,
    signing: Hmac<Sha256>,
    /// Derives the number of a challenge from its salt.
    numbers: Hashing,
    binding: Hashing,
    /// Derives nonces from `issued`, which neither repeat nor follow a pattern.
    nonces: Hashing,
    issued: AtomicU64,
}

impl Proofs {
    pub(crate) fn new(config: ProofConfig, key: &Key) -> Result<Self, getrandom::Error> {
        Ok(Self {
            config,
            signing: key.signer(b"proof signature"),
            numbers: Hashing::with_key(&key.half(b"proof number")),
            binding: Hashing::with_key(&key.half(b"proof binding")),
            nonces: Hashing::random()?,
            issued: AtomicU64::new(0),
        })
    }

    /// A challenge for this attempt; `now` in Unix seconds.
    pub(crate) fn issue(&self, binding: &Binding<'_>, severity: u32, now: u64) -> Challenge {
        let maxnumber = self.config.work << severity.min(PROOF_DOUBLINGS);
        let count = self.issued.fetch_add(1, Ordering::Relaxed);
        let nonce = self.nonces.text(&count.to_le_bytes()).0;
        let salt = Terms {
            expires: now.saturating_add(PROOF_EXPIRY.as_secs()),
            maxnumber,
            bound_to: self.bound_to(binding),
        }
        .salt(nonce);
        let number = self.numbers.text(salt.as_bytes()).0 % (u64::from(maxnumber) + 1);
        let challenge = hex(&hash(&salt, number));
        let signature = hex(&self.sign(&challenge));
        Challenge { algorithm: ALGORITHM, challenge, maxnumber, salt, signature }
    }

    /// Checks the solution of a challenge issued for this attempt. The work is bounded: the length, one signature and
    /// one hash.
    pub(crate) fn check(
        &self,
        proof: &str,
        binding: &Binding<'_>,
        now: u64,
    ) -> Result<Proof, ProofError> {
        if proof.len() > MAX_BYTES {
            return Err(ProofError::Malformed);
        }
        let json = STANDARD.decode(proof).map_err(|_| ProofError::Malformed)?;
        let solution: Solution<'_> =
            serde_json::from_slice(&json).map_err(|_| ProofError::Malformed)?;
        let terms = Terms::read(&solution.salt).ok_or(ProofError::Malformed)?;
        if solution.algorithm != ALGORITHM || solution.number > u64::from(terms.maxnumber) {
            return Err(ProofError::Malformed);
        }
        let signature = hex(&self.sign(&solution.challenge));
        let challenge = hash(&solution.salt, solution.number);
        let right = signature.as_bytes().ct_eq(solution.signature.as_bytes())
            & hex(&challenge).as_bytes().ct_eq(solution.challenge.as_bytes());
        if !bool::from(right) {
            return Err(ProofError::Wrong);
        }
        if !bool::from(terms.bound_to.ct_eq(&self.bound_to(binding))) {
            return Err(ProofError::Unbound);
        }
        if terms.expires <= now {
            return Err(ProofError::Expired);
        }
        let mut id = [0; 8];
        id.copy_from_slice(&challenge[..8]);
        Ok(Proof { id: u64::from_le_bytes(id), expires: terms.expires })
    }

    fn sign(&self, challenge: &str) -> [u8; 32] {
        self.signing.clone().chain_update(challenge).finalize().into_bytes().into()
    }

    fn bound_to(&self, to: &Binding<'_>) -> [u8; 16] {
        let account = self.binding.account(to.account);
        let address = self.binding.address(to.address);
        let pair = self.binding.pair(account, address).0.to_be_bytes();
        let mut digits = [0; 16];
        lower::encode(&pair, &mut digits).expect("two digits for each of eight bytes");
        digits
    }
}

impl Terms {
    fn salt(&self, nonce: u64) -> String {
        use std::fmt::Write as _;

        let mut salt = String::with_capacity(96);
        let Self { expires, maxnumber, bound_to } = self;
        let _ = write!(salt, "{nonce:016x}?expires={expires}&max={maxnumber}&for=");
        salt.extend(bound_to.iter().map(|&digit| char::from(digit)));
        salt.push('&');
        salt
    }

    /// Reads exactly what [`salt`](Self::salt) writes. Do not trust the result before the signature is checked.
    fn read(salt: &str) -> Option<Self> {
        let (nonce, terms) = salt.split_once("?expires=")?;
        let (expires, terms) = terms.split_once("&max=")?;
        let (maxnumber, terms) = terms.split_once("&for=")?;
        let bound_to = terms.strip_suffix('&')?.as_bytes();
        if nonce.len() != 16 || !digits(expires) || !digits(maxnumber) {
            return None;
        }
        Some(Self {
            expires: expires.parse().ok()?,
            maxnumber: maxnumber.parse().ok()?,
            bound_to: bound_to.try_into().ok()?,
        })
    }
}

fn digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn hash(salt: &str, number: u64) -> [u8; 32] {
    Sha256::new().chain_update(salt).chain_update(number.to_string()).finalize().into()
}
