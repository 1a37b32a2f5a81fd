//! Stored hashes.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc::{Output, Salt};
use base64::Engine as _;
use subtle::ConstantTimeEq as _;

use super::kernel::{self, BCRYPT_BASE64, BCRYPT_MAX_BYTES, Memory};
use super::scheme::{Algorithm, Argon2Cost, three};
use super::{HashError, Password, Scheme, SchemeError};

/// A password hash of a store.
///
/// | text | hash function |
/// |---|---|
/// | `$argon2id$v=19$m=…,t=…,p=…$salt$output` | `argon2id`: the PHC string format |
/// | `$2b$…`, also `$2a$…` and `$2y$…` | `bcrypt`, for passwords of up to 71 bytes without NUL |
/// | `$bcrypt-sha256$v=2,t=2b,r=…$salt$output` | `bcrypt`, for all others; the format of passlib |
///
/// bcrypt reads at most 72 bytes. Plain bcrypt hashes, of any origin, are verified by bcrypt's own rule (cut at 72
/// bytes, every byte counts, NUL too), but none is *made* of a password that the rule would cut or confuse with
/// others: that password goes through HMAC-SHA-256 first. The stored text shows this, and thereby that the password
/// is long.
///
/// `$2x$` is refused: it marks hashes of an implementation with a sign-extension bug that the rule
/// cannot reproduce. So are argon2i, argon2d, version 16 of argon2, and other functions.
///
/// Reading checks every parameter against the limits of [`Scheme`] before anything is allocated; salts
/// of argon2id have 8 to 48 bytes, outputs 16 to 64. The text is at most 256 bytes long.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredHash {
    text: String,
    scheme: Scheme,
    form: Form,
}

#[derive(Clone, PartialEq, Eq)]
enum Form {
    Argon2id { salt: Salt, output: Output },
    Bcrypt { salt: [u8; 16], output: [u8; 23], prehashed: bool },
}

/// Length of new salts of argon2id (RFC 9106 section 3.1: 16 bytes are recommended for passwords).
const SALT_BYTES: usize = 16;
/// Length of new outputs of argon2id.
const OUTPUT_BYTES: usize = 32;
/// A shorter output could be matched by chance or on purpose.
const MIN_OUTPUT_BYTES: usize = 16;
/// Longer than any text with the longest salt and output.
const MAX_TEXT_BYTES: usize = 256;

impl StoredHash {
    /// The scheme and cost it was made with.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The text for the store.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if a password just verified against it should be hashed again with `current`.
    ///
    /// True when function or cost differ, or salt or output are shorter than new ones. A safe hash is never
    /// replaced by an unsafe one ([`Scheme::is_unsafe`]): an experiment with a weak scheme must not weaken the
    /// accounts that log in meanwhile.
    pub fn needs_upgrade(&self, current: &Scheme) -> bool {
        if current.is_unsafe() && !self.scheme.is_unsafe() {
            return false;
        }
        let is_short = match &self.form {
            Form::Argon2id { salt, output } => {
                salt.len() < SALT_BYTES || output.len() < OUTPUT_BYTES
            }
            Form::Bcrypt { .. } => false,
        };
        self.scheme != *current || is_short
    }

    /// Returns true if `password`, verified against it, is surely the whole password. A plain bcrypt hash cannot tell
    /// for one that its rule cuts or confuses with others: the text given may differ from the password after the 72nd
    /// byte, and hashed again it would replace it.
    pub(super) fn determines(&self, password: &Password) -> bool {
        let plain = matches!(self.form, Form::Bcrypt { prehashed: false, .. });
        !(plain && is_beyond_bcrypt(password.as_bytes()))
    }

    /// Verifies `password` on the calling thread; servers use [`HashPool`](super::HashPool). Takes the full time of
    /// the scheme for any password; outputs are compared in constant time.
    ///
    /// # Errors
    /// The operating system gives no memory.
    pub fn verify(&self, password: &Password) -> Result<bool, HashError> {
        self.verify_in(&mut Memory::default(), password)
    }

    pub(super) fn verify_in(
        &self,
        memory: &mut Memory,
        password: &Password,
    ) -> Result<bool, HashError> {
        match (&self.form, self.scheme.0) {
            (Form::Argon2id { salt, output }, Algorithm::Argon2id(cost)) => {
                let mut buffer = [0; Output::MAX_LENGTH];
                let computed = &mut buffer[..output.len()];
                kernel::argon2id(memory, password.as_bytes(), salt, cost, computed)?;
                Ok(computed.ct_eq(output.as_bytes()).into())
            }
            (Form::Bcrypt { salt, output, prehashed }, Algorithm::Bcrypt { cost }) => {
                let computed = if *prehashed {
                    let salt_text = BCRYPT_BASE64.encode(salt);
                    kernel::bcrypt_sha256(password.as_bytes(), *salt, &salt_text, cost)
                } else {
                    kernel::bcrypt(password.as_bytes(), *salt, cost)
                };
                Ok(computed.ct_eq(output).into())
            }
            _ => unreachable!("form and scheme are made together"),
        }
    }
}

impl Scheme {
    /// Hashes `password` with a fresh salt on the calling thread; servers use [`HashPool`](super::HashPool).
    ///
    /// # Errors
    /// The operating system gives no random bytes or no memory.
    pub fn hash(&self, password: &Password) -> Result<StoredHash, HashError> {
        self.hash_in(&mut Memory::default(), password)
    }

    pub(super) fn hash_in(
        &self,
        memory: &mut Memory,
        password: &Password,
    ) -> Result<StoredHash, HashError> {
        match self.0 {
            Algorithm::Argon2id(cost) => {
                let salt = kernel::random::<SALT_BYTES>()?;
                let mut output = [0; OUTPUT_BYTES];
                kernel::argon2id(memory, password.as_bytes(), &salt, cost, &mut output)?;
                Ok(StoredHash::argon2id(*self, cost, &salt, &output))
            }
            Algorithm::Bcrypt { cost } => {
                let salt = kernel::random::<16>()?;
                Ok(StoredHash::bcrypt(*self, cost, salt, password.as_bytes()))
            }
        }
    }
}

impl StoredHash {
    /// A hash with random salt and output, of no known password. Verifying against it costs as much as against a real
    /// one.
    pub(super) fn random(scheme: Scheme) -> Result<Self, HashError> {
        Ok(match scheme.0 {
            Algorithm::Argon2id(cost) => {
                Self::argon2id(scheme, cost, &kernel::random()?, &kernel::random()?)
            }
            Algorithm::Bcrypt { cost } => {
                Self::plain_bcrypt(scheme, cost, kernel::random()?, kernel::random()?)
            }
        })
    }

    fn argon2id(
        scheme: Scheme,
        Argon2Cost { memory_kib, passes, lanes }: Argon2Cost,
        salt: &[u8; SALT_BYTES],
        output: &[u8; OUTPUT_BYTES],
    ) -> Self {
        let salt = Salt::new(salt).expect("16 bytes are a salt");
        let output = Output::new(output).expect("32 bytes are an output");
        let text = format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${output}");
        Self { text, scheme, form: Form::Argon2id { salt, output } }
    }

    fn bcrypt(scheme: Scheme, cost: u32, salt: [u8; 16], password: &[u8]) -> Self {
        let salt_text = BCRYPT_BASE64.encode(salt);
        let prehashed = is_beyond_bcrypt(password);
        if !prehashed {
            return Self::plain_bcrypt(scheme, cost, salt, kernel::bcrypt(password, salt, cost));
        }
        let output = kernel::bcrypt_sha256(password, salt, &salt_text, cost);
        let encoded = BCRYPT_BASE64.encode(output);
        let text = format!("$bcrypt-sha256$v=2,t=2b,r={cost}${salt_text}${encoded}");
        Self { text, scheme, form: Form::Bcrypt { salt, output, prehashed } }
    }

    fn plain_bcrypt(scheme: Scheme, cost: u32, salt: [u8; 16], output: [u8; 23]) -> Self {
        let (salt_text, encoded) = (BCRYPT_BASE64.encode(salt), BCRYPT_BASE64.encode(output));
        let text = format!("$2b${cost:02}${salt_text}{encoded}");
        Self { text, scheme, form: Form::Bcrypt { salt, output, prehashed: false } }
    }
}

/// Returns true for a password that bcrypt's own rule confuses with others. 72 bytes without the terminating NUL also
/// verify with anything appended.
fn is_beyond_bcrypt(password: &[u8]) -> bool {
    password.len() >= BCRYPT_MAX_BYTES || password.contains(&0)
}

impl FromStr for StoredHash {
    type Err = StoredHashError;

    fn from_str(text: &str) -> Result<Self, StoredHashError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(StoredHashError::Malformed);
        }
        let fields: Vec<&str> = text.split('$').collect();
        let (scheme, form) = match fields[..] {
            ["", "argon2id", "v=19", parameters, salt, output] => {
                argon2id_form(parameters, salt, output)?
            }
            ["", "argon2id", _, _, _, _] => return Err(StoredHashError::Unsupported),
            // Cost of two digits, and 53 characters.
            ["", "2a" | "2b" | "2y", cost, both] if cost.len() == 2 => {
                let (salt, output) = both.split_at_checked(22).ok_or(StoredHashError::Malformed)?;
                bcrypt_form(cost, salt, output, false)?
            }
            ["", "bcrypt-sha256", parameters, salt, output] => {
                let cost = parameters.strip_prefix("v=2,t=2b,r=");
                bcrypt_form(cost.ok_or(StoredHashError::Unsupported)?, salt, output, true)?
            }
            [_, "argon2id" | "2a" | "2b" | "2y" | "bcrypt-sha256", ..] => {
                return Err(StoredHashError::Malformed);
            }
            _ => return Err(StoredHashError::Unsupported),
        };
        Ok(Self { text: text.to_owned(), scheme, form })
    }
}

fn argon2id_form(
    parameters: &str,
    salt: &str,
    output: &str,
) -> Result<(Scheme, Form), StoredHashError> {
    let [m, t, p] = three(parameters).ok_or(StoredHashError::Malformed)?;
    let scheme = Scheme::argon2id(m, t, p)?;
    let salt = Salt::from_b64(salt).map_err(|_| StoredHashError::Malformed)?;
    let output = Output::decode(output).map_err(|_| StoredHashError::Malformed)?;
    if output.len() < MIN_OUTPUT_BYTES {
        return Err(StoredHashError::Malformed);
    }
    Ok((scheme, Form::Argon2id { salt, output }))
}

fn bcrypt_form(
    cost: &str,
    salt: &str,
    output: &str,
    prehashed: bool,
) -> Result<(Scheme, Form), StoredHashError> {
    let digits = (1..=2).contains(&cost.len()) && cost.bytes().all(|b| b.is_ascii_digit());
    let cost = cost.parse().ok().filter(|_| digits).ok_or(StoredHashError::Malformed)?;
    let scheme = Scheme::bcrypt(cost)?;
    let form = Form::Bcrypt { salt: decode(salt)?, output: decode(output)?, prehashed };
    Ok((scheme, form))
}

/// Exactly `N` bytes in the alphabet of bcrypt.
fn decode<const N: usize>(text: &str) -> Result<[u8; N], StoredHashError> {
    if text.len() != (N * 4).div_ceil(3) {
        return Err(StoredHashError::Malformed);
    }
    let mut bytes = [0; N];
    match BCRYPT_BASE64.decode_slice(text, &mut bytes) {
        Ok(length) if length == N => Ok(bytes),
        _ => Err(StoredHashError::Malformed),
    }
}

impl fmt::Display for StoredHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for StoredHash {
    /// The scheme only: a hash in a log can be attacked like one in a stolen database.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredHash").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// Error of reading a stored hash. No message quotes the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredHashError {
    /// A hash function, variant or version that is not supported.
    #[error("the stored hash is of an unsupported kind")]
    Unsupported,
    /// Not of the form of its prefix, or a salt or output of an unsupported length.
    #[error("the stored hash is malformed")]
    Malformed,
    /// Parameters beyond the limits of [`Scheme`].
    #[error("the stored hash asks for too much or too little: {0}")]
    Parameters(#[from] SchemeError),
}
