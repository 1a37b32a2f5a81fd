//! What is asked of the guard, and its refusals.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::suspicion::{Challenge, ProofError};

/// One log-in attempt, as far as the guard needs to know it.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The name given, in the form in which the caller looks accounts up: two spellings of one
    /// account must be the same bytes here. Whether the account exists does not matter.
    pub account: &'a [u8],
    /// The client's own address, behind whatever proxies the caller trusts.
    pub address: IpAddr,
    /// The password given. Only a keyed hash of it outlives the call.
    pub password: &'a [u8],
    /// The solution of a challenge, as an ALTCHA widget hands it over, if there is one.
    pub proof: Option<&'a str>,
    /// The device token, as [`DeviceToken::value`](crate::suspicion::DeviceToken) was, if there is one.
    pub device_token: Option<&'a str>,
    /// What the account's password is stored as, so that a device token ends with the password it was earned with. Only
    /// looked at with a device token; empty if there is no such account.
    pub credential: &'a [u8],
    /// Whether so many passwords wait to be hashed that an attempt with neither proof nor device token had better not join
    /// them.
    pub under_load: bool,
}

impl fmt::Debug for Attempt<'_> {
    /// Names the address only: names, passwords, proofs and device tokens do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why an attempt may not go on, and what would change that.
///
/// To the client this is a 429.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {reason}")]
pub struct Refused {
    /// What stood in the way.
    pub reason: Reason,
    /// When it is worth trying again without anything more to show; never zero, jitter included.
    /// Written as whole seconds it must be rounded up.
    pub retry_after: Duration,
    /// What to solve in order to be let through sooner; only with [`Reason::Suspicious`].
    pub challenge: Option<Challenge>,
    /// Why the proof that came with the attempt did not count, if one came and was looked at.
    pub proof_error: Option<ProofError>,
}

impl Refused {
    /// Adds a random tenth, or up to a second if that is more and half a minute at most, so that those
    /// who were refused together do not come back together.
    pub(crate) fn new(reason: Reason, wait: Duration) -> Self {
        let spread = (wait / 10).clamp(Duration::from_secs(1), Duration::from_secs(30));
        let retry_after = wait.max(Duration::from_millis(1)) + spread.mul_f64(fastrand::f64());
        Self { reason, retry_after, challenge: None, proof_error: None }
    }
}

/// What stood in the way of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Too many wrong guesses at this account from this address.
    Pair,
    /// The account is being guessed at; the next attempt is due later.
    Account,
    /// Too many failures, or failures of too many accounts, from this address.
    Address,
    /// This password failed at too many accounts.
    Password,
    /// Too many accounts made from this address.
    SignUp,
    /// The address sent too many attempts (mode `ip` only).
    Blocked,
    /// The allowance is held by attempts that are still in flight, and waiting for them took too
    /// long or the places for waiting were taken.
    InFlight,
    /// The attempt must show a proof of work or a device token.
    Suspicious(Suspect),
}

/// What made an attempt suspicious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suspect {
    /// The address fails a lot, or did lately.
    Address,
    /// The account is being guessed at, and its next attempt without a proof is due later.
    Account,
    /// The password is being tried at many accounts, or was lately.
    Password,
    /// Nothing: more passwords are tried than can be hashed, so whoever is known goes first.
    Load,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pair => "too many wrong guesses at this account from this address",
            Self::Account => "the account is being guessed at",
            Self::Address => "too many failures from this address",
            Self::Password => "the password failed at too many accounts",
            Self::SignUp => "too many accounts made from this address",
            Self::Blocked => "too many attempts from this address",
            Self::InFlight => "earlier attempts are still in flight",
            Self::Suspicious(Suspect::Address) => "the address is suspicious",
            Self::Suspicious(Suspect::Account) => "the account is under attack",
            Self::Suspicious(Suspect::Password) => "the password is under attack",
            Self::Suspicious(Suspect::Load) => "too many passwords are tried at once",
        })
    }
}
