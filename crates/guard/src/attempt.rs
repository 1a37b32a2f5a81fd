//! Attempts and refusals.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::suspicion::{Challenge, ProofError};

/// One log-in attempt.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The name given, in the form in which the caller looks accounts up: two spellings of one account must be the
    /// same bytes here. The account need not exist.
    pub account: &'a [u8],
    /// Address of the client itself, behind any proxies that the caller trusts.
    pub address: IpAddr,
    /// The password given. Only a keyed hash of it outlives the call.
    pub password: &'a [u8],
    /// Solution of a challenge, as an ALTCHA widget returns it.
    pub proof: Option<&'a str>,
    /// [`DeviceToken::value`](crate::suspicion::DeviceToken) of an earlier log-in.
    pub device_token: Option<&'a str>,
    /// Stored form of the account's password, so that a device token ends with the password it was issued for. Read
    /// only with a device token; empty without such an account.
    pub credential: &'a [u8],
    /// Too many passwords wait to be hashed: an attempt with neither proof nor device token gets a challenge.
    pub under_load: bool,
}

impl fmt::Debug for Attempt<'_> {
    /// Prints the address only: names, passwords, proofs and device tokens do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A refused attempt: to the client a 429.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {reason}")]
pub struct Refused {
    /// The limit that refused it.
    pub reason: Reason,
    /// Time until a retry without a proof is worth it; never zero, jitter included. Round it up to whole seconds.
    pub retry_after: Duration,
    /// Challenge whose solution admits the attempt sooner; only with [`Reason::Suspicious`].
    pub challenge: Option<Challenge>,
    /// Error of the proof that came with the attempt; `None` without one, or if it was not checked.
    pub proof_error: Option<ProofError>,
}

impl Refused {
    /// Adds a random tenth of the wait, between 1 s and 30 s, so that clients refused together do not retry together.
    pub(crate) fn new(reason: Reason, wait: Duration) -> Self {
        let spread = (wait / 10).clamp(Duration::from_secs(1), Duration::from_secs(30));
        let retry_after = wait.max(Duration::from_millis(1)) + spread.mul_f64(fastrand::f64());
        Self { reason, retry_after, challenge: None, proof_error: None }
    }
}

/// The limit that refused an attempt.
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
    /// Too many sign-ups from this address.
    SignUp,
    /// The address sent too many attempts (mode `ip` only).
    Blocked,
    /// Attempts in flight hold the allowance, and waiting for them took too long or the queue was full.
    InFlight,
    /// The attempt must show a proof of work or a device token.
    Suspicious(Suspect),
}

/// The suspicious part of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suspect {
    /// The address fails often, or did recently.
    Address,
    /// The account is being guessed at, and its next attempt without a proof is due later.
    Account,
    /// The password is being tried at many accounts, or was recently.
    Password,
    /// Nothing: more passwords arrive than can be hashed, so known clients go first.
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
