//! An admitted attempt.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::attempt_limiter::{AttemptLimiter, Side};
use crate::limit::{AttemptOutcome, Subject};
use crate::suspicion::Proof;

/// An admitted attempt, and its place in the allowances that admitted it.
///
/// Move it into the job that hashes the password: it is `Send + 'static` and counts for as long as it lives, whether
/// or not a client still waits for the response. End it by one of its methods, from any thread.
///
/// Dropping it counts as a failure. A job that panics, or a path that does not report, must not become a way of
/// guessing for free; the price is that an honest attempt lost to a bug costs its user one of the failures allowed.
/// Use [`cancel`](Self::cancel) when nothing was compared.
#[must_use = "dropping a reservation counts as a failed attempt"]
pub struct Reservation {
    held: Option<Held>,
}

/// An admitted sign-up. It counts from its admission on, whatever its outcome; only [`cancel`](Self::cancel) gives it
/// back.
pub struct SignUp {
    /// `None`: nothing was counted.
    pub(crate) held: Option<Held>,
}

pub(crate) struct Held {
    pub(crate) limiter: Arc<AttemptLimiter>,
    pub(crate) subject: Subject,
    pub(crate) side: Side,
    pub(crate) ticket: u64,
    /// The proof of work that was used up for it.
    pub(crate) proof: Option<Proof>,
    /// Runtime that awaits a late answer of a store: the hash job runs outside of it.
    pub(crate) runtime: Option<Handle>,
}

impl Reservation {
    /// A reservation that counts nothing.
    pub(crate) fn free() -> Self {
        Self { held: None }
    }

    pub(crate) fn new(held: Held) -> Self {
        held.limiter.metrics.count(|m| m.in_flight += 1);
        Self { held: Some(held) }
    }

    pub(crate) fn with_proof(mut self, proof: Proof) -> Self {
        if let Some(held) = &mut self.held {
            held.proof = Some(proof);
        }
        self
    }

    /// The password was right. All places are given back, and the failures counted for this account and address (or
    /// this device token) are cleared; those of the account and of the address alone are not.
    pub fn succeed(mut self) {
        self.end(AttemptOutcome::Success);
    }

    /// The password was wrong, or there is no such account.
    pub fn fail(mut self) {
        self.end(AttemptOutcome::Failure);
    }

    /// Nothing was compared, because the hash pool was full or something else failed: all places are given back, and a
    /// proof of work that was shown is good for another attempt.
    pub fn cancel(mut self) {
        self.end(AttemptOutcome::Cancelled);
    }

    fn end(&mut self, outcome: AttemptOutcome) {
        let Some(held) = self.held.take() else { return };
        held.limiter.metrics.count(|m| {
            m.in_flight -= 1;
            match outcome {
                AttemptOutcome::Failure => m.failures += 1,
                AttemptOutcome::Success => m.successes += 1,
                AttemptOutcome::Cancelled => {}
            }
        });
        held.limiter.settle(&held, outcome);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.end(AttemptOutcome::Failure);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("counted", &self.held.is_some()).finish()
    }
}

impl SignUp {
    /// Nothing was hashed (the pool was full): the sign-up does not count.
    pub fn cancel(mut self) {
        if let Some(held) = self.held.take() {
            held.limiter.settle(&held, AttemptOutcome::Cancelled);
        }
    }
}

impl fmt::Debug for SignUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignUp").field("counted", &self.held.is_some()).finish()
    }
}
