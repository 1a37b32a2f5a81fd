//! The operations of `crypto.subtle`, on bytes. Keys are raw bytes, or DER: PKCS #8 for private keys, SPKI for public
//! ones. The operation names are used by `script/modules/subtle.js`.

/// Runs `$body` with `$name` for a type.
macro_rules! with_type {
    ($name:ident = $type:ty => $body:expr) => {{
        type $name = $type;
        $body
    }};
}

mod aes;
mod curves;
mod hash;
mod rsa;

#[cfg(test)]
mod tests;

pub(crate) use hash::Hash;

/// Size limit of generated keys and derived bits.
const MAX_BYTES: usize = 1 << 20;

/// Limit of PBKDF2 rounds, some seconds: a computing thread cannot be stopped.
const MAX_ROUNDS: usize = 10_000_000;

/// Arguments of all operations; each uses those it needs.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// Name of a mode, scheme or curve.
    pub(crate) name: String,
    pub(crate) hash: Option<Hash>,
    pub(crate) key: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// A signature, the key of another party, a salt, an initialization vector or a label.
    pub(crate) other: Vec<u8>,
    /// Additional authenticated data.
    pub(crate) extra: Vec<u8>,
    /// Components of a key, from a JSON Web Key.
    pub(crate) parts: Vec<Vec<u8>>,
    /// Bits, bytes or rounds.
    pub(crate) number: usize,
    pub(crate) length: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CryptoResult {
    Bytes(Vec<Vec<u8>>),
    Verified(bool),
}

impl From<Vec<u8>> for CryptoResult {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(vec![bytes])
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the key is not valid")]
    Key,
    #[error("the parameters are not valid")]
    Parameters,
    #[error("the data is not valid")]
    Data,
}

/// Runs an operation. Some take a while: not for an event loop.
pub(crate) fn run(operation: &str, arguments: &Arguments) -> Result<CryptoResult, Failure> {
    let hash = || arguments.hash.ok_or(Failure::Parameters);
    match operation {
        "random" => random(arguments.number).map(CryptoResult::from),
        "digest" => Ok(hash()?.digest(&arguments.data).into()),
        "hmac" => Ok(hash()?.hmac(&arguments.key, &arguments.data).into()),
        "verifyHmac" => {
            let is_same = hash()?.is_hmac(&arguments.key, &arguments.data, &arguments.other);
            Ok(CryptoResult::Verified(is_same))
        }
        "deriveBits" => {
            let Arguments { key, other, number, length, .. } = arguments;
            if *number > MAX_ROUNDS || *length > MAX_BYTES {
                return Err(Failure::Parameters);
            }
            Ok(hash()?.pbkdf2(key, other, *number as u32, *length).into())
        }
        "encryptAes" => aes::encrypt(arguments).map(CryptoResult::from),
        "decryptAes" => aes::decrypt(arguments).map(CryptoResult::from),
        "generateRsa" => rsa::generate(arguments.number).map(CryptoResult::Bytes),
        "encryptRsa" => rsa::encrypt(hash()?, arguments).map(CryptoResult::from),
        "decryptRsa" => rsa::decrypt(hash()?, arguments).map(CryptoResult::from),
        "signRsa" => rsa::sign(hash()?, arguments).map(CryptoResult::from),
        "verifyRsa" => rsa::verify(hash()?, arguments).map(CryptoResult::Verified),
        "partsOfRsa" => rsa::parts(&arguments.key).map(CryptoResult::Bytes),
        "rsaOfParts" => rsa::of_parts(&arguments.parts).map(CryptoResult::from),
        "generateCurve" => curves::generate(&arguments.name).map(CryptoResult::Bytes),
        "signCurve" => curves::sign(hash()?, arguments).map(CryptoResult::from),
        "verifyCurve" => curves::verify(hash()?, arguments).map(CryptoResult::Verified),
        "agreeCurve" => curves::agree(&arguments.key, &arguments.other).map(CryptoResult::from),
        "rawOfCurve" => curves::raw(&arguments.key).map(CryptoResult::from),
        "curveOfRaw" => curves::of_raw(&arguments.name, &arguments.data).map(CryptoResult::from),
        "partsOfCurve" => curves::parts(&arguments.key).map(CryptoResult::Bytes),
        "curveOfParts" => {
            curves::of_parts(&arguments.name, &arguments.parts).map(CryptoResult::from)
        }
        _ => Err(Failure::Parameters),
    }
}

fn random(bytes: usize) -> Result<Vec<u8>, Failure> {
    if bytes > MAX_BYTES {
        return Err(Failure::Parameters);
    }
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|_| Failure::Parameters)?;
    Ok(random)
}
