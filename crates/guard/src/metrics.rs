//! Metrics of a guard.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Reason, Suspect};

/// What has happened since the guard was built, and what it holds now.
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
    /// Attempts that waited for others in flight, whatever came of it.
    pub waited: u64,
    /// Attempts that wait now.
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
    /// Entries forgotten before their time to make room.
    pub evictions: u64,
    /// Memory taken for entries, in bytes; never given back, bounded by the capacity.
    pub bytes: u64,
    /// Requests that a shared store did not answer; attempts among them were decided by this
    /// process alone.
    pub store_errors: u64,
    /// The shared store of attempts is known not to answer now.
    pub store_is_away: bool,
}

/// A counter that only grows, or goes both ways.
#[derive(Debug, Default)]
pub(crate) struct Figure(AtomicU64);

impl Figure {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The figures as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) allowed: Figure,
    pub(crate) sign_ups_allowed: Figure,
    pub(crate) waited: Figure,
    pub(crate) in_flight: Figure,
    pub(crate) proofs_accepted: Figure,
    pub(crate) proofs_rejected: Figure,
    pub(crate) device_tokens_accepted: Figure,
    pub(crate) device_tokens_rejected: Figure,
    pub(crate) failures: Figure,
    pub(crate) successes: Figure,
    pub(crate) store_errors: Figure,
    pair: Figure,
    account: Figure,
    address: Figure,
    password: Figure,
    sign_up: Figure,
    blocked: Figure,
    held: Figure,
    suspicious_address: Figure,
    suspicious_account: Figure,
    suspicious_password: Figure,
    suspicious_load: Figure,
}

impl Metrics {
    pub(crate) fn refused(&self, reason: Reason) {
        let figure = match reason {
            Reason::Pair => &self.pair,
            Reason::Account => &self.account,
            Reason::Address => &self.address,
            Reason::Password => &self.password,
            Reason::SignUp => &self.sign_up,
            Reason::Blocked => &self.blocked,
            Reason::InFlight => &self.held,
            Reason::Suspicious(Suspect::Address) => &self.suspicious_address,
            Reason::Suspicious(Suspect::Account) => &self.suspicious_account,
            Reason::Suspicious(Suspect::Password) => &self.suspicious_password,
            Reason::Suspicious(Suspect::Load) => &self.suspicious_load,
        };
        figure.up();
    }

    /// All but what others count: waiters and entries.
    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        MetricsSnapshot {
            allowed: self.allowed.get(),
            sign_ups_allowed: self.sign_ups_allowed.get(),
            refused_pair: self.pair.get(),
            refused_account: self.account.get(),
            refused_address: self.address.get(),
            refused_password: self.password.get(),
            refused_sign_up: self.sign_up.get(),
            refused_blocked: self.blocked.get(),
            refused_in_flight: self.held.get(),
            suspicious_address: self.suspicious_address.get(),
            suspicious_account: self.suspicious_account.get(),
            suspicious_password: self.suspicious_password.get(),
            suspicious_load: self.suspicious_load.get(),
            waited: self.waited.get(),
            in_flight: self.in_flight.get(),
            proofs_accepted: self.proofs_accepted.get(),
            proofs_rejected: self.proofs_rejected.get(),
            device_tokens_accepted: self.device_tokens_accepted.get(),
            device_tokens_rejected: self.device_tokens_rejected.get(),
            failures: self.failures.get(),
            successes: self.successes.get(),
            store_errors: self.store_errors.get(),
            ..MetricsSnapshot::default()
        }
    }
}
