//! The curves P-256, P-384 and P-521: signatures (ECDSA) and agreement (ECDH).

use super::{Arguments, Failure, Hash, random};

/// Runs `$body` with the crate `$c` of the curve of this name.
macro_rules! with_curve {
    ($name:expr, $c:ident => $body:expr) => {
        match $name {
            "P-256" => {
                use p256 as $c;
                $body
            }
            "P-384" => {
                use p384 as $c;
                $body
            }
            "P-521" => {
                use p521 as $c;
                $body
            }
            _ => Err(Failure::Parameters),
        }
    };
}

const NAMES: [&str; 3] = ["P-256", "P-384", "P-521"];

/// Runs `$body` with the crate of the curve of a key.
macro_rules! with_curve_of_key {
    ($c:ident => $body:expr) => {{
        let found = NAMES.into_iter().find_map(|name| {
            let tried = (|| -> Result<_, Failure> { with_curve!(name, $c => $body) })();
            match tried {
                Err(Failure::Key) => None,
                other => Some(other),
            }
        });
        found.unwrap_or(Err(Failure::Key))
    }};
}

/// Reads and writes keys of a curve; a macro because each curve has types of its own.
macro_rules! private {
    ($c:ident, $der:expr) => {{
        use $c::pkcs8::DecodePrivateKey as _;
        $c::SecretKey::from_pkcs8_der($der).map_err(|_| Failure::Key)
    }};
}
macro_rules! public {
    ($c:ident, $der:expr) => {{
        use $c::pkcs8::DecodePublicKey as _;
        $c::PublicKey::from_public_key_der($der).map_err(|_| Failure::Key)
    }};
}
macro_rules! private_der {
    ($c:ident, $key:expr) => {{
        use $c::pkcs8::EncodePrivateKey as _;
        $key.to_pkcs8_der().map(|der| der.as_bytes().to_vec()).map_err(|_| Failure::Key)
    }};
}
macro_rules! public_der {
    ($c:ident, $key:expr) => {{
        use $c::pkcs8::EncodePublicKey as _;
        $key.to_public_key_der().map(|der| der.into_vec()).map_err(|_| Failure::Key)
    }};
}

/// Bytes of a coordinate.
fn size(name: &str) -> Result<usize, Failure> {
    match name {
        "P-256" => Ok(32),
        "P-384" => Ok(48),
        "P-521" => Ok(66),
        _ => Err(Failure::Parameters),
    }
}

/// A private and a public key.
pub(super) fn generate(name: &str) -> Result<Vec<Vec<u8>>, Failure> {
    loop {
        let mut bytes = random(size(name)?)?;
        if name == "P-521" {
            bytes[0] &= 1;
        }
        let made = with_curve!(name, c => match c::SecretKey::from_slice(&bytes) {
            Ok(key) => Ok(Some(vec![private_der!(c, key)?, public_der!(c, key.public_key())?])),
            Err(_) => Ok(None), // Zero, or not below the order.
        });
        if let Some(keys) = made? {
            return Ok(keys);
        }
    }
}

/// A digest of the data, padded in front to the size of a coordinate: its value is signed.
fn digest(hash: Hash, data: &[u8], bytes: usize) -> Vec<u8> {
    let digest = hash.digest(data);
    let mut filled = vec![0; bytes.saturating_sub(digest.len())];
    filled.extend(digest);
    filled
}

/// The signature: both numbers, one after the other.
pub(super) fn sign(hash: Hash, arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let Arguments { key, data, .. } = arguments;
    with_curve_of_key!(c => {
        use c::ecdsa::signature::hazmat::PrehashSigner as _;
        let key = c::ecdsa::SigningKey::from(private!(c, key)?);
        let digest = digest(hash, data, c::FieldBytes::default().len());
        let signature: Result<c::ecdsa::Signature, _> = key.sign_prehash(&digest);
        signature.map(|signature| signature.to_bytes().to_vec()).map_err(|_| Failure::Data)
    })
}

pub(super) fn verify(hash: Hash, arguments: &Arguments) -> Result<bool, Failure> {
    let Arguments { key, data, other, .. } = arguments;
    with_curve_of_key!(c => {
        use c::ecdsa::signature::hazmat::PrehashVerifier as _;
        let key = c::ecdsa::VerifyingKey::from(public!(c, key)?);
        let digest = digest(hash, data, c::FieldBytes::default().len());
        let signature = c::ecdsa::Signature::from_slice(other);
        Ok(signature.is_ok_and(|signature| key.verify_prehash(&digest, &signature).is_ok()))
    })
}

/// The shared secret of a private key and another party's public key.
pub(super) fn agree(key: &[u8], other: &[u8]) -> Result<Vec<u8>, Failure> {
    with_curve_of_key!(c => {
        let secret = private!(c, key)?.diffie_hellman(&public!(c, other)?);
        Ok(secret.raw_secret_bytes().to_vec())
    })
}

/// The uncompressed point of a public key.
pub(super) fn raw(key: &[u8]) -> Result<Vec<u8>, Failure> {
    with_curve_of_key!(c => {
        use c::elliptic_curve::sec1::ToSec1Point as _;
        Ok(public!(c, key)?.to_sec1_point(false).as_bytes().to_vec())
    })
}

/// The public key of an uncompressed point.
pub(super) fn of_raw(name: &str, point: &[u8]) -> Result<Vec<u8>, Failure> {
    if point.first() != Some(&4) {
        return Err(Failure::Key);
    }
    with_curve!(name, c => {
        let key = c::PublicKey::from_sec1_bytes(point).map_err(|_| Failure::Key)?;
        public_der!(c, key)
    })
}

/// The name of the curve and both coordinates; for a private key also its number.
pub(super) fn parts(key: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let (number, public) = match raw(key) {
        Ok(point) => (None, point),
        Err(_) => with_curve_of_key!(c => {
            let private = private!(c, key)?;
            let public = public_der!(c, private.public_key())?;
            Ok((Some(private.to_bytes().to_vec()), raw(&public)?))
        })?,
    };
    let (x, y) = public[1..].split_at(public.len() / 2);
    let name = NAMES.into_iter().find(|name| size(name) == Ok(x.len())).ok_or(Failure::Key)?;
    let parts = [name.as_bytes().to_vec(), x.to_vec(), y.to_vec()];
    Ok(parts.into_iter().chain(number).collect())
}

/// The key of both coordinates, or of those and a private number.
pub(super) fn of_parts(name: &str, parts: &[Vec<u8>]) -> Result<Vec<u8>, Failure> {
    let size = size(name)?;
    let filled = |bytes: &[u8]| {
        let missing = size.checked_sub(bytes.len()).ok_or(Failure::Key)?;
        Ok([&vec![0; missing], bytes].concat())
    };
    match parts {
        [x, y] => of_raw(name, &[&[4][..], &filled(x)?, &filled(y)?].concat()),
        [_, _, number] => with_curve!(name, c => {
            let key = c::SecretKey::from_slice(&filled(number)?).map_err(|_| Failure::Key)?;
            private_der!(c, key)
        }),
        _ => Err(Failure::Key),
    }
}
