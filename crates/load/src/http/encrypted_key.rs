//! Password-protected private keys in PEM (RFC 1421) as OpenSSL writes it, the form that k6 reads.

use std::error::Error;

use aes::{Aes128, Aes192, Aes256};
use base16ct::mixed;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt as _, KeyInit, KeyIvInit as _};
use des::TdesEde3;
use md5::{Digest as _, Md5};

const MALFORMED: &str = "malformed DEK-Info header";

/// Decrypts a key; returns PEM. Errors are k6's messages, without any part of the key.
pub(super) fn decrypt(pem: &str, password: &str) -> Result<String, Box<dyn Error>> {
    let (label, body) = block(pem).ok_or("it is not PEM")?;
    if label == "ENCRYPTED PRIVATE KEY" {
        return Err("encrypted pkcs8 formatted key is not supported".into());
    }
    let (headers, data) = body.split_once("\n\n").ok_or("no DEK-Info header in block")?;
    let info = headers.lines().find_map(|line| line.strip_prefix("DEK-Info:"));
    let info = info.and_then(|info| info.trim().split_once(','));
    let (cipher, iv) = info.ok_or(MALFORMED)?;
    let iv = mixed::decode_vec(iv.trim()).map_err(|_| MALFORMED)?;
    let data: String = data.split_whitespace().collect();
    let data = BASE64_STANDARD.decode(data)?;
    let salt = iv.get(..8).ok_or(MALFORMED)?;
    let key = |length| key_of(password, salt, length);
    let plain = match cipher {
        "AES-128-CBC" => plain::<Aes128>(&key(16), &iv, &data),
        "AES-192-CBC" => plain::<Aes192>(&key(24), &iv, &data),
        "AES-256-CBC" => plain::<Aes256>(&key(32), &iv, &data),
        "DES-EDE3-CBC" => plain::<TdesEde3>(&key(24), &iv, &data),
        other => return Err(format!("the cipher `{other}` is not supported").into()),
    };
    let plain = plain.ok_or("decryption password incorrect")?;
    let text = BASE64_STANDARD.encode(plain);
    Ok(format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"))
}

fn plain<C: BlockCipherDecrypt + KeyInit>(key: &[u8], iv: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    Decryptor::<C>::new_from_slices(key, iv).ok()?.decrypt_padded_vec::<Pkcs7>(data).ok()
}

/// Label and content of the first block, without carriage returns.
fn block(pem: &str) -> Option<(String, String)> {
    let pem = pem.replace("\r\n", "\n");
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----\n")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    Some((label.to_owned(), body.to_owned()))
}

/// `EVP_BytesToKey` of OpenSSL with MD5 and one round.
fn key_of(password: &str, salt: &[u8], length: usize) -> Vec<u8> {
    let mut key: Vec<u8> = Vec::new();
    let mut last = Vec::new();
    while key.len() < length {
        last = Md5::new()
            .chain_update(&last)
            .chain_update(password)
            .chain_update(salt)
            .finalize()
            .to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(length);
    key
}
