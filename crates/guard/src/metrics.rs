//! Metrics of a guard.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{Reason, Refused, Suspect};

/// Counters since the guard was built, and gauges of its present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// Attempts admitted, exempt ones and those in mode `off` included.
    pub allowed: u64,
    /// Sign-ups admitted.
    pub sign_ups_allowed: u64,
    /// Refusals by [`Reason::Pair`](crate::Reason::Pair).
    pub refused_pair: u64,
    /// Refusals by [`Reason::Account`](crate::Reason::Account).
    pub refused_account: u64,
    /// Refusals by [`Reason::Address`](crate::Reason::Address).
    pub refused_address: u64,
    /// Refusals by [`Reason::Password`](crate::Reason::Password).
    pub refused_password: u64,
    /// Refusals by [`Reason::SignUp`](crate::Reason::SignUp).
    pub refused_sign_up: u64,
    /// Refusals by [`Reason::Blocked`](crate::Reason::Blocked).
    pub refused_blocked: u64,
    /// Refusals by [`Reason::InFlight`](crate::Reason::InFlight).
    pub refused_in_flight: u64,
    /// Refusals by [`Reason::Suspicious`](crate::Reason::Suspicious), for the address.
    pub suspicious_address: u64,
    /// The same, for the account.
    pub suspicious_account: u64,
    /// The same, for the password.
    pub suspicious_password: u64,
    /// The same, because too many passwords waited to be hashed.
    pub suspicious_load: u64,
    /// Attempts that waited for others in flight, whatever their outcome.
    pub waited: u64,
    /// Attempts waiting now.
    pub waiters: u64,
    /// Attempts admitted and not ended.
    pub in_flight: u64,
    /// Proofs of work that let an attempt through.
    pub proofs_accepted: u64,
    /// Proofs of work that were wrong, expired, used, or for another account or address.
    pub proofs_rejected: u64,
    /// Device tokens that let an attempt through.
    pub device_tokens_accepted: u64,
    /// Device tokens that were wrong, expired, or for another account.
    pub device_tokens_rejected: u64,
    /// Failed attempts counted, dropped reservations included.
    pub failures: u64,
    /// Attempts ended by success.
    pub successes: u64,
    /// Pairs, accounts, addresses, device tokens and passwords remembered now.
    pub entries: u64,
    /// Entries evicted before they expired.
    pub evictions: u64,
    /// Memory of entries in bytes; never freed, bounded by the capacity.
    pub bytes: u64,
    /// Requests that a shared store did not answer; this process decided attempts among them alone.
    pub store_errors: u64,
    /// The shared store of attempts is unavailable now.
    pub store_is_away: bool,
}

/// The counters. Waiters, entries, evictions, bytes and the state of the store are filled in when metrics are read.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<MetricsSnapshot>);

impl Metrics {
    pub(crate) fn count(&self, count: impl FnOnce(&mut MetricsSnapshot)) {
        count(&mut self.0.lock());
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, reason: Reason, wait: Duration) -> Refused {
        self.count(|m| {
            *match reason {
                Reason::Pair => &mut m.refused_pair,
                Reason::Account => &mut m.refused_account,
                Reason::Address => &mut m.refused_address,
                Reason::Password => &mut m.refused_password,
                Reason::SignUp => &mut m.refused_sign_up,
                Reason::Blocked => &mut m.refused_blocked,
                Reason::InFlight => &mut m.refused_in_flight,
                Reason::Suspicious(Suspect::Address) => &mut m.suspicious_address,
                Reason::Suspicious(Suspect::Account) => &mut m.suspicious_account,
                Reason::Suspicious(Suspect::Password) => &mut m.suspicious_password,
                Reason::Suspicious(Suspect::Load) => &mut m.suspicious_load,
            } += 1;
        });
        Refused::new(reason, wait)
    }

    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        *self.0.lock()
    }
}
