//! The two hash functions, on memory of the caller.

use super::blocks::Blocks;
use super::scheme::Argon2Cost;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes that bcrypt reads at most.
pub(super) const BCRYPT_MAX_BYTES: usize = 72;

/// The alphabet of bcrypt. Some implementations set the unused bits of the last character; their hashes are valid.
pub(super) const BCRYPT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::BCRYPT,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Error of computing a hash. No variant depends on the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HashError {
    /// The operating system gave no random bytes for a salt.
    #[error("the operating system gave no random bytes")]
    NoEntropy,
    /// The operating system gave no memory for argon2id.
    #[error("no memory for {kib} KiB of argon2id blocks")]
    NoMemory {
        /// Memory requested.
        kib: u32,
    },
}

/// The blocks of argon2id, kept between hashes: each fresh page costs a fault, which adds up to a good part of a
/// hash.
#[derive(Default)]
pub(super) struct Memory {
    blocks: Option<Blocks>,
}

impl Memory {
    /// At least `count` blocks of 1 KiB.
    fn blocks(&mut self, count: usize, kib: u32) -> Result<&mut [Block], HashError> {
        if self.blocks.as_ref().is_none_or(|blocks| blocks.count < count) {
            // Frees the old blocks first.
            self.blocks = None;
            self.blocks = Some(Blocks::map(count).ok_or(HashError::NoMemory { kib })?);
        }
        Ok(self.blocks.as_mut().expect("blocks were mapped").as_mut_slice())
    }

    pub(super) fn release(&mut self) {
        self.blocks = None;
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.as_ref().map_or(0, |blocks| blocks.count * Block::SIZE)
    }
}

/// argon2id, version 19, into `output`. The cost is that of a [`Scheme`](super::Scheme).
pub(super) fn argon2id(
    memory: &mut Memory,
    password: &[u8],
    salt: &[u8],
    Argon2Cost { memory_kib, passes, lanes }: Argon2Cost,
    output: &mut [u8],
) -> Result<(), HashError> {
    let params = Params::new(memory_kib, passes, lanes, Some(output.len()))
        .expect("a scheme's parameters are within what argon2 accepts");
    let blocks = memory.blocks(params.block_count(), memory_kib)?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(password, salt, output, blocks)
        .expect("salt and output have lengths that argon2 accepts, and the blocks suffice");
    Ok(())
}

/// bcrypt by the plain rule: the bytes and a terminating NUL, cut to 72.
pub(super) fn bcrypt(password: &[u8], salt: [u8; 16], cost: u32) -> [u8; 23] {
    let mut key = Zeroizing::new([0_u8; BCRYPT_MAX_BYTES]);
    let kept = password.len().min(BCRYPT_MAX_BYTES);
    key[..kept].copy_from_slice(&password[..kept]);
    let with_nul = (kept + 1).min(BCRYPT_MAX_BYTES);
    let output = bcrypt::bcrypt(cost, salt, &key[..with_nul]);
    // Every implementation drops the 24th byte, as the first one did.
    std::array::from_fn(|i| output[i])
}

/// bcrypt over `base64(HMAC-SHA-256(key = the salt as written, password))`: 44 characters without NUL for passwords of
/// any length. The key makes the digest useless against leaked plain SHA-256 digests ("password shucking"). This is
/// version 2 of passlib's `bcrypt_sha256`:
/// <https://passlib.readthedocs.io/en/stable/lib/passlib.hash.bcrypt_sha256.html>
pub(super) fn bcrypt_sha256(
    password: &[u8],
    salt: [u8; 16],
    salt_text: &str,
    cost: u32,
) -> [u8; 23] {
    let mut mac = Hmac::<Sha256>::new_from_slice(salt_text.as_bytes())
        .expect("HMAC takes a key of any length");
    mac.update(password);
    let digest = Zeroizing::new(<[u8; 32]>::from(mac.finalize().into_bytes()));
    let key = Zeroizing::new(STANDARD.encode(*digest));
    bcrypt(key.as_bytes(), salt, cost)
}

/// `N` random bytes from the operating system.
pub(super) fn random<const N: usize>() -> Result<[u8; N], HashError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| HashError::NoEntropy)?;
    Ok(bytes)
}
