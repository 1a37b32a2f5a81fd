//! Figures of a guard.

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
    /// Device marks that let an attempt through.
    pub marks_accepted: u64,
    /// Device marks that were wrong, expired, or for another account.
    pub marks_rejected: u64,
    /// Failed attempts counted, dropped reservations included.
    pub failures: u64,
    /// Attempts ended by success.
    pub successes: u64,
    /// Pairs, accounts, addresses, marks and passwords remembered now.
    pub entries: u64,
    /// Entries forgotten before their time to make room.
    pub evictions: u64,
    /// Attempts decided by this process alone, because the shared store did not answer.
    pub store_errors: u64,
}
