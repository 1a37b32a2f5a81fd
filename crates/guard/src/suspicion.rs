//! Suspicion instead of lock-out: what is over a limit is not shut out, it has to show something.
//!
//! The first column is the state of an attempt's account, address and password; the others say what
//! becomes of the attempt by what it shows.
//!
//! | state | nothing | proof of work | device token |
//! |---|---|---|---|
//! | all within limits, none remembered | admitted | admitted, proof not used up | admitted |
//! | pair used up | refused | refused | admitted: the device token has its own pair |
//! | device token, or all device tokens of the account together, used up (put aside) | – | – | as if there were no device token |
//! | account over its limit, its growing delay not over | challenge, and the delay that is left | admitted, one at a time, 1 s after the last failure | admitted |
//! | account over its limit, its growing delay over | admitted, one at a time | admitted, one at a time, proof not used up | admitted |
//! | address over a limit or remembered, for its window at most | challenge | admitted | admitted |
//! | password over its limit or remembered | challenge | admitted | admitted |
//! | any of these, while more passwords wait to be hashed than [`HashPool::has_room`](crate::hash::HashPool::has_room) allows | challenge | admitted | admitted |
//! | allowance held by attempts in flight | waits | waits for pair and account | waits for the device token |
//!
//! With proofs off (or suspicion as a whole) nothing is remembered, and "challenge" reads "refused
//! until the window, or the account's growing delay, allows it": a device token alone must not be what
//! stands between an account and its owner, who may have none. With device tokens off the last column is
//! the first; with passwords not watched, their row is gone. Of several states that apply to one attempt,
//! the strictest decides: at a suspicious address an account whose delay is over asks for a proof.
//!
//! That a delayed account takes an attempt without a proof, once a minute at the longest, is what keeps it
//! from being locked to clients that cannot solve one. Only its own failures are held against it: an hour
//! of suspicion could be had for twenty of them.
//!
//! # What a proof buys
//! One attempt at one account from one address. It is used up when the attempt is admitted, and not
//! when it is refused, waits in vain, or ends without a comparison. It never lifts the limit of the
//! pair, so an address gets its ten guesses at an account and no more, however much work it does.
//! It shortens the account's delay from a minute to a second instead of lifting it: a botnet that
//! solves challenges for a living gets 3,600 guesses per hour at one account, not one per proof.
//! Its owner, who solves one too, competes with it for a place each second rather than each minute;
//! a botnet that spends a proof every second can crowd out an owner who has no device token, and only a
//! device token helps against that. And it lifts the limits of address and password altogether, because
//! those are shared with people who did nothing: behind one address are an attacker and 49
//! customers of a café, none of whom has been here before, and each of the 49 gets in for half a
//! second of work, while each guess costs the attacker as much, on top of the pair's limit.
//!
//! The work doubles with each quarter of a limit that is *failed* beyond it, up to four times. Refusals do not
//! raise it: they are free, and the 49 would pay.
//!
//! # What a device token buys
//! An allowance of its own, in which nothing that others do counts, and nothing it does counts
//! for others. A stolen device token is good for ten guesses per 15 min at one account, more than which its
//! thief would have had without it. Every log-in makes a device token, so all device tokens of an account together have
//! a hundred: whoever logged in often in the past has no more than that.
//!
//! # Across nodes
//! Nodes with the same key accept each other's challenges and device tokens. Which proofs were used they know together where they
//! share a [`ProofStore`](crate::limit::ProofStore); without one, or while it does not answer, a proof is good for one
//! attempt per node until it expires.

mod device_token;
mod key;
mod proof;
mod used;

use std::time::Duration;

pub(crate) use device_token::{DeviceTokens, Owner};
pub(crate) use key::half;
pub(crate) use proof::{Binding, Proof, Proofs};
pub(crate) use used::UsedProofs;

/// A challenge in the format of ALTCHA's proof of work, version 1, which its widget still solves in
/// version 3: find the number from 0 to `maxnumber` for which
/// `challenge` is the hexadecimal SHA-256 of `salt` followed by the number in decimal digits.
///
/// As a JSON object with these field names it is what an ALTCHA widget is given. Its solution, the
/// Base64 of the JSON object `{algorithm, challenge, number, salt, signature}`, goes into
/// [`Attempt::proof`](crate::Attempt::proof).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Challenge {
    /// `SHA-256`.
    pub algorithm: &'static str,
    /// 64 hexadecimal digits.
    pub challenge: String,
    /// The number is not larger than this.
    pub maxnumber: u32,
    /// Nonce and parameters (`expires`, in Unix seconds, is the one that widgets read).
    pub salt: String,
    /// 64 hexadecimal digits.
    pub signature: String,
}

/// Why a proof of work does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// Not the Base64 of the JSON that a widget makes, or too long.
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
    /// It has let an attempt through before.
    #[error("the proof was used before")]
    Used,
}

/// What a device shows on its later attempts at one account; signed, for keeping in a cookie
/// (`HttpOnly`, `Secure`, `SameSite`) or beside the token.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceToken {
    /// Letters, digits, `-`, `_` and `.`.
    pub value: String,
    /// How long it counts from now on.
    pub max_age: Duration,
}

impl std::fmt::Debug for DeviceToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceToken").field("max_age", &self.max_age).finish_non_exhaustive()
    }
}
