//! Metrics of hashing and guard for `/metrics`, read when they are asked for.

use super::Accounts;
use crate::exposition::{counter, counters, gauge};
use madang_guard::MetricsSnapshot;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use std::fmt::Error;

impl Accounts {
    /// Writes all metrics of accounts.
    pub(crate) fn encode_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        self.encode_hashing(encoder)?;
        let guard = self.guard().metrics();
        encode_decisions(encoder, &guard)?;
        encode_memory(encoder, &guard)?;
        let revoked = self.revocations() as u64;
        gauge(encoder, "accounts_revocations", "Revoked tokens and cutoffs in memory", revoked)
    }

    fn encode_hashing(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let pool = self.hasher().metrics();
        gauge(encoder, "hash_running", "Passwords being hashed", pool.running as u64)?;
        gauge(encoder, "hash_queue", "Passwords waiting to be hashed", pool.queued as u64)?;
        let memory = pool.memory_bytes as u64;
        gauge(encoder, "hash_memory_bytes", "Memory reserved for hashing in bytes", memory)?;
        counter(encoder, "hash_done", "Passwords hashed or checked", pool.done)?;
        counter(encoder, "hash_refused", "Hashes refused: the queue was full", pool.refused)?;
        counter(encoder, "hash_expired", "Hashes not started: wait too long", pool.expired)?;
        counter(encoder, "hash_abandoned", "Hashes not started: client gone", pool.abandoned)?;
        counter(encoder, "hash_failed", "Hashes started that failed", pool.failed)?;
        let seconds = ConstCounter::new(pool.hashing.as_secs_f64());
        let help = "Total time spent hashing, over all threads";
        let kind = seconds.metric_type();
        seconds.encode(encoder.encode_descriptor("hash_seconds", help, None, kind)?)
    }
}

fn encode_decisions(
    encoder: &mut DescriptorEncoder<'_>,
    guard: &MetricsSnapshot,
) -> Result<(), Error> {
    counter(encoder, "guard_allowed", "Attempts admitted to the password check", guard.allowed)?;
    let sign_ups = guard.sign_ups_allowed;
    counter(encoder, "guard_sign_ups_allowed", "Sign-ups admitted to hashing", sign_ups)?;
    let reasons = [
        ("pair", guard.refused_pair),
        ("account", guard.refused_account),
        ("address", guard.refused_address),
        ("password", guard.refused_password),
        ("sign_up", guard.refused_sign_up),
        ("blocked", guard.refused_blocked),
        ("in_flight", guard.refused_in_flight),
    ];
    let by_reason = |(reason, value)| ([("reason", reason)], value);
    let reasons = reasons.map(by_reason);
    counters(encoder, "guard_refused", "Attempts answered 429, by limit", reasons)?;
    let suspects = [
        ("address", guard.suspicious_address),
        ("account", guard.suspicious_account),
        ("password", guard.suspicious_password),
        ("load", guard.suspicious_load),
    ];
    let help = "Attempts answered 429 with a challenge, by reason";
    counters(encoder, "guard_challenged", help, suspects.map(by_reason))?;
    let by_result = |accepted, rejected| {
        [([("result", "accepted")], accepted), ([("result", "rejected")], rejected)]
    };
    let proofs = by_result(guard.proofs_accepted, guard.proofs_rejected);
    counters(encoder, "guard_proofs", "Solutions of challenges received", proofs)?;
    let tokens = by_result(guard.device_tokens_accepted, guard.device_tokens_rejected);
    counters(encoder, "guard_device_marks", "Device tokens checked", tokens)
}

fn encode_memory(
    encoder: &mut DescriptorEncoder<'_>,
    guard: &MetricsSnapshot,
) -> Result<(), Error> {
    counter(encoder, "guard_failures", "Log-in attempts that failed", guard.failures)?;
    counter(encoder, "guard_successes", "Log-in attempts that succeeded", guard.successes)?;
    counter(encoder, "guard_waited", "Attempts that waited for attempts in flight", guard.waited)?;
    gauge(encoder, "guard_waiters", "Attempts waiting for attempts in flight", guard.waiters)?;
    gauge(encoder, "guard_in_flight", "Admitted attempts in progress", guard.in_flight)?;
    gauge(encoder, "guard_entries", "Accounts, addresses and pairs in memory", guard.entries)?;
    gauge(encoder, "guard_bytes", "Memory of the guard in bytes", guard.bytes)?;
    counter(encoder, "guard_evictions", "Entries evicted before they expired", guard.evictions)?;
    let errors = guard.store_errors;
    counter(encoder, "guard_store_errors", "Requests that guard.url did not answer", errors)?;
    let help = "1 while the server of guard.url does not answer: each node counts its own attempts";
    gauge(encoder, "guard_store_away", help, guard.store_is_away.into())
}
