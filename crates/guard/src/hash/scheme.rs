//! Password hashing schemes.

use std::fmt;
use std::str::FromStr;

/// A password hashing scheme with its cost, of a setting or a stored hash.
///
/// Written as `bcrypt:COST` or `argon2id:m=KiB,t=PASSES,p=LANES`; [`Display`](fmt::Display) prints what
/// [`FromStr`] reads. A value of this type is always within the limits below, so no setting and no
/// stored hash can take more than about a second of one core and 256 MiB.
///
/// The default is argon2id with 19 MiB, two passes, one lane: the first choice of the OWASP
/// Password Storage Cheat Sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scheme(pub(super) Algorithm);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Algorithm {
    Bcrypt { cost: u32 },
    Argon2id(Argon2Cost),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Argon2Cost {
    pub(super) memory_kib: u32,
    pub(super) passes: u32,
    pub(super) lanes: u32,
}

/// OWASP Password Storage Cheat Sheet, "Argon2id": memory in KiB and passes of equal strength, each at one lane.
const OWASP_ARGON2ID: [(u32, u32); 5] =
    [(47_104, 1), (19_456, 2), (12_288, 3), (9_216, 4), (7_168, 5)];

/// OWASP Password Storage Cheat Sheet, "bcrypt": the work factor should be at least 10.
const OWASP_BCRYPT_COST: u32 = 10;

impl Scheme {
    /// Lowest cost that bcrypt defines.
    pub const MIN_BCRYPT_COST: u32 = 4;
    /// Highest accepted cost of bcrypt: about 1.2 s of one core.
    pub const MAX_BCRYPT_COST: u32 = 14;
    /// Most memory of argon2id, in KiB: 256 MiB.
    pub const MAX_MEMORY_KIB: u32 = 256 * 1024;
    /// Most passes of argon2id.
    pub const MAX_PASSES: u32 = 64;
    /// Most lanes of argon2id. Lanes are computed one after the other on one thread.
    pub const MAX_LANES: u32 = 16;
    /// Most memory times passes of argon2id, in KiB: 1 GiB written, about 0.7 s of one core.
    pub const MAX_WORK_KIB: u64 = 1024 * 1024;

    /// bcrypt with 2^`cost` rounds.
    ///
    /// # Errors
    /// When the cost is outside [`Self::MIN_BCRYPT_COST`]`..=`[`Self::MAX_BCRYPT_COST`].
    pub fn bcrypt(cost: u32) -> Result<Self, SchemeError> {
        if (Self::MIN_BCRYPT_COST..=Self::MAX_BCRYPT_COST).contains(&cost) {
            Ok(Self(Algorithm::Bcrypt { cost }))
        } else {
            let (least, most) = (Self::MIN_BCRYPT_COST, Self::MAX_BCRYPT_COST);
            Err(SchemeError::OutOfRange(format!("bcrypt cost {cost} is outside {least}..={most}")))
        }
    }

    /// argon2id (RFC 9106) over `memory_kib` KiB, `passes` times, in `lanes` lanes.
    ///
    /// # Errors
    /// When a parameter is zero or above its limit, when memory times passes is above
    /// [`Self::MAX_WORK_KIB`], or when there are fewer than 8 KiB for each lane (RFC 9106 section 3.1).
    pub fn argon2id(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, SchemeError> {
        let error = if !(1..=Self::MAX_LANES).contains(&lanes) {
            format!("lanes p={lanes} are outside 1..={}", Self::MAX_LANES)
        } else if !(8 * lanes..=Self::MAX_MEMORY_KIB).contains(&memory_kib) {
            let (least, most) = (8 * lanes, Self::MAX_MEMORY_KIB);
            format!("memory m={memory_kib} KiB is outside {least}..={most}")
        } else if !(1..=Self::MAX_PASSES).contains(&passes) {
            format!("passes t={passes} are outside 1..={}", Self::MAX_PASSES)
        } else if u64::from(memory_kib) * u64::from(passes) > Self::MAX_WORK_KIB {
            format!("m={memory_kib} KiB × t={passes} is above {} KiB", Self::MAX_WORK_KIB)
        } else {
            let cost = Argon2Cost { memory_kib, passes, lanes };
            return Ok(Self(Algorithm::Argon2id(cost)));
        };
        Err(SchemeError::OutOfRange(format!("argon2id {error}")))
    }

    /// Returns true for a scheme weaker than the OWASP Password Storage Cheat Sheet demands: bcrypt below cost 10;
    /// argon2id that has, for no row of its table of equivalents (47,104 KiB × 1 pass, 19,456 × 2,
    /// 12,288 × 3, 9,216 × 4, 7,168 × 5), at least that memory *and* at least those passes.
    ///
    /// <https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html>
    pub fn is_unsafe(&self) -> bool {
        match self.0 {
            Algorithm::Bcrypt { cost } => cost < OWASP_BCRYPT_COST,
            Algorithm::Argon2id(Argon2Cost { memory_kib, passes, .. }) => {
                !OWASP_ARGON2ID.iter().any(|&(m, t)| memory_kib >= m && passes >= t)
            }
        }
    }

    /// Memory of one hash in bytes; 0 for bcrypt, whose 4 KiB are on the stack.
    pub(super) fn memory_bytes(&self) -> usize {
        match self.0 {
            Algorithm::Bcrypt { .. } => 0,
            // An upper bound: RFC 9106 rounds down to whole segments.
            Algorithm::Argon2id(cost) => cost.memory_kib as usize * 1024,
        }
    }
}

impl Default for Scheme {
    fn default() -> Self {
        Self(Algorithm::Argon2id(Argon2Cost { memory_kib: 19_456, passes: 2, lanes: 1 }))
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Algorithm::Bcrypt { cost } => write!(f, "bcrypt:{cost}"),
            Algorithm::Argon2id(Argon2Cost { memory_kib, passes, lanes }) => {
                write!(f, "argon2id:m={memory_kib},t={passes},p={lanes}")
            }
        }
    }
}

impl FromStr for Scheme {
    type Err = SchemeError;

    /// Reads `bcrypt:COST`, `argon2id:m=…,t=…,p=…` (all three, in this order) or `argon2id` for the default.
    fn from_str(text: &str) -> Result<Self, SchemeError> {
        let unknown = || SchemeError::Unknown(text.chars().take(64).collect());
        match text.split_once(':') {
            None if text == "argon2id" => Ok(Self::default()),
            Some(("bcrypt", cost)) => Self::bcrypt(number(cost).ok_or_else(unknown)?),
            Some(("argon2id", parameters)) => {
                let [m, t, p] = three(parameters).ok_or_else(unknown)?;
                Self::argon2id(m, t, p)
            }
            _ => Err(unknown()),
        }
    }
}

/// The numbers of `m=…,t=…,p=…`.
pub(super) fn three(parameters: &str) -> Option<[u32; 3]> {
    let mut fields = parameters.split(',');
    let mut field = |name| number(fields.next()?.strip_prefix(name)?);
    let numbers = [field("m=")?, field("t=")?, field("p=")?];
    fields.next().is_none().then_some(numbers)
}

/// A decimal number without sign or leading zero: one value has one spelling.
fn number(digits: &str) -> Option<u32> {
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    if canonical { digits.parse().ok() } else { None }
}

/// Error of reading a scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// Neither of the two forms: the text, cut to 64 characters.
    #[error(
        "`{0}` is not a hashing scheme; expected `bcrypt:COST` or `argon2id:m=KiB,t=PASSES,p=LANES`"
    )]
    Unknown(String),
    /// A parameter is outside its limits: the message with both.
    #[error("{0}")]
    OutOfRange(String),
}
