//! An admitted attempt.

use crate::suspicion::DeviceMark;

/// An admitted attempt, and its place in the allowances that it was admitted under.
///
/// Move it into the job that hashes the password: it is `Send + 'static` and counts for as long as
/// it lives, whether or not a client still waits for the answer. End it by one of its methods.
///
/// Dropping it counts as a failure. A job that panics, or a path that forgets to report, must not
/// become a way of guessing for free; the price is that an honest attempt lost to a bug costs its
/// user one of the failures allowed. Who knows that nothing was compared says [`cancel`](Self::cancel).
#[derive(Debug)]
#[must_use = "dropping a reservation counts as a failed attempt"]
pub struct Reservation {
    _private: (),
}

impl Reservation {
    /// The password was right. The places in all allowances are given back, and the failures
    /// counted for this account and address (or this mark) are forgotten; those of the account and
    /// of the address as such are not.
    ///
    /// Returns the mark for the device that logged in, unless marks are off.
    pub fn succeed(self) -> Option<DeviceMark> {
        None
    }

    /// The password was wrong, or there is no such account.
    pub fn fail(self) {}

    /// Nothing was compared, because the hash pool was full or something else broke: all places
    /// are given back. A proof of work that was shown stays used.
    pub fn cancel(self) {}
}

/// An admitted sign-up. It counts from its admission on, however it ends; only
/// [`cancel`](Self::cancel) gives it back.
#[derive(Debug)]
pub struct SignUp {
    _private: (),
}

impl SignUp {
    /// Nothing was hashed (the pool was full): the sign-up does not count.
    pub fn cancel(self) {}
}

impl Reservation {
    pub(crate) fn free() -> Self {
        Self { _private: () }
    }
}

impl SignUp {
    pub(crate) fn free() -> Self {
        Self { _private: () }
    }
}
