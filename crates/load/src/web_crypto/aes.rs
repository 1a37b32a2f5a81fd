//! AES in the modes of the Web Cryptography API.

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::consts::{U12, U13, U14, U15, U16};
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, StreamCipher};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{AesGcm, Nonce};

use super::{Arguments, Failure};

/// Length of an initialization vector for GCM in bytes, the only one accepted by k6.
const GCM_IV: usize = 12;

/// Runs `$body` with the type `$A` of AES for a key of this length.
macro_rules! with_aes {
    ($key:expr, $A:ident => $body:expr) => {
        match $key.len() {
            16 => with_type!($A = Aes128 => $body),
            24 => with_type!($A = Aes192 => $body),
            32 => with_type!($A = Aes256 => $body),
            _ => Err(Failure::Key),
        }
    };
}

/// Runs `$body` with the type `$G` of GCM for tags of this many bits.
macro_rules! with_tag {
    ($bits:expr, $A:ident, $G:ident => $body:expr) => {
        match $bits {
            96 => with_type!($G = AesGcm<$A, U12, U12> => $body),
            104 => with_type!($G = AesGcm<$A, U12, U13> => $body),
            112 => with_type!($G = AesGcm<$A, U12, U14> => $body),
            120 => with_type!($G = AesGcm<$A, U12, U15> => $body),
            128 => with_type!($G = AesGcm<$A, U12, U16> => $body),
            _ => Err(Failure::Parameters),
        }
    };
}

pub(super) fn encrypt(arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let Arguments { name, key, data, other: iv, extra, length, .. } = arguments;
    match name.as_str() {
        "AES-CBC" => with_aes!(key, A => {
            let cipher = cbc::Encryptor::<A>::new_from_slices(key, iv);
            Ok(cipher.map_err(|_| Failure::Parameters)?.encrypt_padded_vec::<Pkcs7>(data))
        }),
        "AES-CTR" => count(key, iv, data),
        "AES-GCM" => with_aes!(key, A => with_tag!(*length, A, G => {
            let cipher = <G as KeyInit>::new_from_slice(key).map_err(|_| Failure::Key)?;
            let message = Payload { msg: data, aad: extra };
            cipher.encrypt(nonce(iv)?, message).map_err(|_| Failure::Data)
        })),
        _ => Err(Failure::Parameters),
    }
}

pub(super) fn decrypt(arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let Arguments { name, key, data, other: iv, extra, length, .. } = arguments;
    match name.as_str() {
        "AES-CBC" => with_aes!(key, A => {
            let cipher = cbc::Decryptor::<A>::new_from_slices(key, iv);
            let cipher = cipher.map_err(|_| Failure::Parameters)?;
            cipher.decrypt_padded_vec::<Pkcs7>(data).map_err(|_| Failure::Data)
        }),
        "AES-CTR" => count(key, iv, data),
        "AES-GCM" => with_aes!(key, A => with_tag!(*length, A, G => {
            let cipher = <G as KeyInit>::new_from_slice(key).map_err(|_| Failure::Key)?;
            let message = Payload { msg: data, aad: extra };
            cipher.decrypt(nonce(iv)?, message).map_err(|_| Failure::Data)
        })),
        _ => Err(Failure::Parameters),
    }
}

/// Counter mode, the same in both directions. As in k6, the whole block is the counter.
fn count(key: &[u8], counter: &[u8], data: &[u8]) -> Result<Vec<u8>, Failure> {
    with_aes!(key, A => {
        let cipher = ctr::Ctr128BE::<A>::new_from_slices(key, counter);
        let mut bytes = data.to_vec();
        cipher.map_err(|_| Failure::Parameters)?.apply_keystream(&mut bytes);
        Ok(bytes)
    })
}

fn nonce(iv: &[u8]) -> Result<&Nonce<U12>, Failure> {
    let iv: &[u8; GCM_IV] = iv.try_into().map_err(|_| Failure::Parameters)?;
    Ok(iv.into())
}
