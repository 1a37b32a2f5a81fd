//! Metrics of hashing and guard on `/metrics`.

use super::Accounts;
use crate::exposition::Figures;
use madang_guard::MetricsSnapshot;
use std::fmt::Error;

impl Accounts {
    pub(crate) fn encode_metrics(&self, out: &mut Figures<'_>) -> Result<(), Error> {
        self.encode_hashing(out)?;
        let guard = self.guard().metrics();
        encode_decisions(out, &guard)?;
        encode_memory(out, &guard)?;
        let revoked = self.inner.revoked.len() as u64;
        out.gauge("accounts_revocations", "Revoked tokens and cutoffs in memory", revoked)
    }

    fn encode_hashing(&self, out: &mut Figures<'_>) -> Result<(), Error> {
        let pool = self.hasher().metrics();
        out.gauge("hash_running", "Passwords being hashed", pool.running as u64)?;
        out.gauge("hash_queue", "Passwords waiting to be hashed", pool.queued as u64)?;
        let memory = pool.memory_bytes as u64;
        out.gauge("hash_memory_bytes", "Memory reserved for hashing in bytes", memory)?;
        out.counter("hash_done", "Passwords hashed or checked", pool.done)?;
        out.counter("hash_refused", "Hashes refused: the queue was full", pool.refused)?;
        out.counter("hash_expired", "Hashes not started: wait too long", pool.expired)?;
        out.counter("hash_abandoned", "Hashes not started: client gone", pool.abandoned)?;
        out.counter("hash_failed", "Hashes started that failed", pool.failed)?;
        let help = "Total time spent hashing, over all threads";
        out.counter("hash_seconds", help, pool.hashing.as_secs_f64())
    }
}

fn encode_decisions(out: &mut Figures<'_>, guard: &MetricsSnapshot) -> Result<(), Error> {
    out.counter("guard_allowed", "Attempts admitted to the password check", guard.allowed)?;
    let sign_ups = guard.sign_ups_allowed;
    out.counter("guard_sign_ups_allowed", "Sign-ups admitted to hashing", sign_ups)?;
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
    out.counters("guard_refused", "Attempts answered 429, by limit", reasons)?;
    let suspects = [
        ("address", guard.suspicious_address),
        ("account", guard.suspicious_account),
        ("password", guard.suspicious_password),
        ("load", guard.suspicious_load),
    ];
    let help = "Attempts answered 429 with a challenge, by reason";
    out.counters("guard_challenged", help, suspects.map(by_reason))?;
    let by_result = |accepted, rejected| {
        [([("result", "accepted")], accepted), ([("result", "rejected")], rejected)]
    };
    let proofs = by_result(guard.proofs_accepted, guard.proofs_rejected);
    out.counters("guard_proofs", "Solutions of challenges received", proofs)?;
    let tokens = by_result(guard.device_tokens_accepted, guard.device_tokens_rejected);
    out.counters("guard_device_marks", "Device tokens checked", tokens)
}

fn encode_memory(out: &mut Figures<'_>, guard: &MetricsSnapshot) -> Result<(), Error> {
    out.counter("guard_failures", "Log-in attempts that failed", guard.failures)?;
    out.counter("guard_successes", "Log-in attempts that succeeded", guard.successes)?;
    out.counter("guard_waited", "Attempts that waited for attempts in flight", guard.waited)?;
    out.gauge("guard_waiters", "Attempts waiting for attempts in flight", guard.waiters)?;
    out.gauge("guard_in_flight", "Admitted attempts in progress", guard.in_flight)?;
    out.gauge("guard_entries", "Accounts, addresses and pairs in memory", guard.entries)?;
    out.gauge("guard_bytes", "Memory of the guard in bytes", guard.bytes)?;
    out.counter("guard_evictions", "Entries evicted before they expired", guard.evictions)?;
    let errors = guard.store_errors;
    out.counter("guard_store_errors", "Requests that guard.url did not answer", errors)?;
    let help = "1 while the server of guard.url does not answer: each node counts its own attempts";
    out.gauge("guard_store_away", help, guard.store_is_away.into())
}
