//! RSA: signatures (PKCS #1 v1.5 and PSS) and encryption (OAEP).

use getrandom::SysRng;
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{BoxedUint, Oaep, Pkcs1v15Sign, PrivateKey, Pss, PublicKey};

use super::hash::with_hash;
use super::{Arguments, Failure, Hash};

/// Size limit of keys in bits: the time to make one grows with the fourth power.
const MAX_BITS: usize = 8192;

/// A private and a public key, with the exponent 65537.
pub(super) fn generate(bits: usize) -> Result<Vec<Vec<u8>>, Failure> {
    if bits > MAX_BITS {
        return Err(Failure::Parameters);
    }
    let key = PrivateKey::new(&mut SysRng, bits).map_err(|_| Failure::Parameters)?;
    Ok(vec![private_der(&key)?, public_der(key.as_public_key())?])
}

fn private_der(key: &PrivateKey) -> Result<Vec<u8>, Failure> {
    Ok(key.to_pkcs8_der().map_err(|_| Failure::Key)?.as_bytes().to_vec())
}

fn public_der(key: &PublicKey) -> Result<Vec<u8>, Failure> {
    Ok(key.to_public_key_der().map_err(|_| Failure::Key)?.into_vec())
}

fn private(der: &[u8]) -> Result<PrivateKey, Failure> {
    PrivateKey::from_pkcs8_der(der).map_err(|_| Failure::Key)
}

fn public(der: &[u8]) -> Result<PublicKey, Failure> {
    PublicKey::from_public_key_der(der).map_err(|_| Failure::Key)
}

pub(super) fn encrypt(hash: Hash, arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let Arguments { key, data, other: label, .. } = arguments;
    let key = public(key)?;
    let encrypted = with_hash!(hash, D => {
        key.encrypt(&mut SysRng, Oaep::<D>::new_with_label(label.as_slice()), data)
    });
    encrypted.map_err(|_| Failure::Data)
}

pub(super) fn decrypt(hash: Hash, arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let Arguments { key, data, other: label, .. } = arguments;
    let key = private(key)?;
    let decrypted = with_hash!(hash, D => {
        key.decrypt_blinded(&mut SysRng, Oaep::<D>::new_with_label(label.as_slice()), data)
    });
    decrypted.map_err(|_| Failure::Data)
}

/// `length` is that of the salt, for PSS.
pub(super) fn sign(hash: Hash, arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let Arguments { name, key, data, length, .. } = arguments;
    let key = private(key)?;
    let digest = hash.digest(data);
    let signed = with_hash!(hash, D => match name.as_str() {
        "RSA-PSS" => key.sign_with_rng(&mut SysRng, Pss::<D>::new_with_salt(*length), &digest),
        _ => key.sign_with_rng(&mut SysRng, Pkcs1v15Sign::new::<D>(), &digest),
    });
    signed.map_err(|_| Failure::Data)
}

pub(super) fn verify(hash: Hash, arguments: &Arguments) -> Result<bool, Failure> {
    let Arguments { name, key, data, other: signature, length, .. } = arguments;
    let key = public(key)?;
    let digest = hash.digest(data);
    let verified = with_hash!(hash, D => match name.as_str() {
        "RSA-PSS" => key.verify(Pss::<D>::new_with_salt(*length), &digest, signature),
        _ => key.verify(Pkcs1v15Sign::new::<D>(), &digest, signature),
    });
    Ok(verified.is_ok())
}

/// `n` and `e`; for a private key also `d`, `p`, `q`, `dp`, `dq` and `qi`.
pub(super) fn parts(der: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    if let Ok(key) = public(der) {
        return Ok(vec![key.n_bytes().into(), key.e_bytes().into()]);
    }
    let key = private(der)?;
    let bytes = |number: &BoxedUint| number.to_be_bytes_trimmed_vartime().into_vec();
    let [p, q] = key.primes() else { return Err(Failure::Key) };
    let (Some(dp), Some(dq), Some(qi)) = (key.dp(), key.dq(), key.crt_coefficient()) else {
        return Err(Failure::Key);
    };
    // `crt_coefficient` is the inverse of q modulo p.
    Ok(vec![
        key.n_bytes().into(),
        key.e_bytes().into(),
        bytes(key.d()),
        bytes(p),
        bytes(q),
        bytes(dp),
        bytes(dq),
        bytes(&qi),
    ])
}

/// The key of `n` and `e`, or of `n`, `e`, `d`, `p` and `q`.
pub(super) fn of_parts(parts: &[Vec<u8>]) -> Result<Vec<u8>, Failure> {
    let number = |bytes: &[u8]| BoxedUint::from_be_slice_vartime(bytes);
    match parts {
        [n, e] => public_der(&PublicKey::new(number(n), number(e)).map_err(|_| Failure::Key)?),
        [n, e, d, p, q] => {
            let primes = vec![number(p), number(q)];
            let key = PrivateKey::from_components(number(n), number(e), number(d), primes);
            private_der(&key.map_err(|_| Failure::Key)?)
        }
        _ => Err(Failure::Key),
    }
}
