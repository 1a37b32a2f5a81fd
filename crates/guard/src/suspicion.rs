//! Suspicion instead of lock-out: an attempt over a limit is not shut out, it has to show a proof of work or a device
//! token.
//!
//! The first column is the state of an attempt's account, address and password; the others are the outcome by what the
//! attempt shows.
//!
//! | state | nothing | proof of work | device token |
//! |---|---|---|---|
//! | all within limits, none remembered | admitted | admitted, proof not used up | admitted |
//! | pair used up | refused | refused | admitted: the device token has its own pair |
//! | device token, or all device tokens of the account together, used up | – | – | the device token is ignored |
//! | account over its limit, its growing delay not over | challenge, and the delay that is left | admitted, one at a time, 1 s after the last failure | admitted |
//! | account over its limit, its growing delay over | admitted, one at a time | admitted, one at a time, proof not used up | admitted |
//! | address over a limit or remembered, for its window at most | challenge | admitted | admitted |
//! | password over its limit or remembered | challenge | admitted | admitted |
//! | any of these, while more passwords wait to be hashed than [`HashPool::has_room`](crate::hash::HashPool::has_room) allows | challenge | admitted | admitted |
//! | allowance held by attempts in flight | waits | waits for pair and account | waits for the device token |
//!
//! With proofs off (or suspicion as a whole) there is no suspicion, and "challenge" reads "refused until the window,
//! or the account's growing delay, allows it": an owner without a device token must not be locked out by it. With
//! device tokens off the last column is the first; with passwords not watched, their row does not apply. Of several
//! states of one attempt the strictest decides: at a suspicious address an account whose delay is over asks for a
//! proof.
//!
//! A delayed account admits an attempt without a proof at least once a minute, so clients that cannot solve a
//! challenge are not locked out. Only its current failures count against it; with a memory like that of addresses,
//! twenty failures would buy an hour of suspicion.
//!
//! # Effect of a proof
//! One attempt at one account from one address. It is used up when the attempt is admitted, and not when it is
//! refused, waits in vain, or ends without a comparison. It never lifts the limit of the pair, so an address gets ten
//! guesses at an account, however much work it does. It shortens the account's delay from a minute to a second
//! instead of lifting it: a botnet that solves challenges gets 3,600 guesses per hour at one account, not one per
//! proof. The owner, who solves one too, competes with it for a place each second rather than each minute; a botnet
//! that spends a proof every second can crowd out an owner without a device token, and only a device token helps
//! against that. A proof lifts the limits of address and password altogether, because innocent clients share those:
//! behind one address are an attacker and 49 customers of a café without device tokens, and each of the 49 gets in
//! for half a second of work, while each guess costs the attacker as much, on top of the pair's limit.
//!
//! The work doubles with each quarter of a limit that is *failed* beyond it, up to four times. Refusals do not
//! raise it: they are free, and the 49 would pay.
//!
//! # Effect of a device token
//! An allowance of its own, independent of all others. A stolen device token is good for ten guesses per 15 min at
//! one account, no more than its thief would have had without it. Each log-in issues a device token, so all device
//! tokens of an account together have a hundred.
//!
//! # Across nodes
//! Nodes with the same key accept each other's challenges and device tokens. With a shared
//! [`ProofStore`](crate::limit::ProofStore) a used proof is used on all of them; without one, or while it does not
//! answer, a proof is good for one attempt per node until it expires.

mod device_token;
mod proof;
mod used;

use std::time::Duration;

pub(crate) use device_token::{DeviceTokens, Owner};
pub(crate) use proof::{Binding, Proof, Proofs};
pub(crate) use used::UsedProofs;

/// A challenge in the format of ALTCHA's proof of work, version 1, which version 3 of its widget still solves: find
/// the number from 0 to `maxnumber` for which `challenge` is the hexadecimal SHA-256 of `salt` followed by the number
/// in decimal digits.
///
/// An ALTCHA widget takes it as a JSON object with these field names. The solution, the Base64 of the JSON object
/// `{algorithm, challenge, number, salt, signature}`, goes into [`Attempt::proof`](crate::Attempt::proof).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Challenge {
    /// `SHA-256`.
    pub algorithm: &'static str,
    /// 64 hexadecimal digits.
    pub challenge: String,
    /// Upper bound of the number.
    pub maxnumber: u32,
    /// Nonce and parameters. Widgets read `expires`, in Unix seconds.
    pub salt: String,
    /// 64 hexadecimal digits.
    pub signature: String,
}

/// Error of checking a proof of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// Not the Base64 of a widget's JSON, or too long.
    #[error("the proof is malformed")]
    Malformed,
    /// Signed by another key, altered, or solved wrongly.
    #[error("the proof is wrong")]
    Wrong,
    /// Right, but for another account or address.
    #[error("the proof belongs to another attempt")]
    Unbound,
    /// Too old.
    #[error("the proof has expired")]
    Expired,
    /// An attempt was admitted with it before.
    #[error("the proof was used before")]
    Used,
}

/// A signed token that a device shows on later attempts at one account; to be stored in a cookie (`HttpOnly`,
/// `Secure`, `SameSite`) or beside the token.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceToken {
    /// Letters, digits, `-`, `_` and `.`.
    pub value: String,
    /// Time for which it is valid.
    pub max_age: Duration,
}

impl std::fmt::Debug for DeviceToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceToken").field("max_age", &self.max_age).finish_non_exhaustive()
    }
}
