//! Counters in the memory of this process.

use std::sync::Arc;
use std::time::Duration;

use crate::Suspect;
use crate::clock::{Clock, nanos};
use crate::config::{ACCOUNTS, ADDRESSES, GuardConfig, PAIRS, PASSWORDS};

use super::rules::{AxisLimit, Limits, Standing};
use super::table::{Learned, Slot, Table};
use super::{
    Answer, AttemptOutcome, AttemptStore, Axis, Decision, Id, Request, StoreError, StoreMetrics,
    Subject,
};

/// Time for which a suspicion that another store reported is valid, in nanoseconds. Suspicion ends by time alone, so
/// only its severity can be out of date.
const LEARNED_FOR: u64 = 1_000_000_000;

/// Counts in tables of fixed size; answers at once and never fails.
pub struct MemoryStore {
    limits: Limits,
    /// By axis.
    tables: [Table; Axis::ALL.len()],
    clock: Arc<dyn Clock>,
}

/// A locked counter of an attempt.
struct Counter<'a> {
    axis: Axis,
    id: Id,
    slot: Slot<'a>,
    standing: Standing,
}

impl MemoryStore {
    /// An empty store with the limits of this configuration.
    pub fn new(config: &GuardConfig, clock: Arc<dyn Clock>) -> Self {
        let limits = Limits::new(config);
        let tables = Axis::ALL.map(|axis| {
            let entries = match axis {
                Axis::Pair => PAIRS,
                Axis::DeviceToken => PAIRS / 2,
                Axis::DeviceTokens => ACCOUNTS / 2,
                Axis::Account => ACCOUNTS,
                Axis::Address | Axis::SignUp => ADDRESSES,
                Axis::Password => PASSWORDS,
            };
            let AxisLimit { window, accounts, .. } = limits.by_axis(axis);
            Table::new(entries, window, accounts as usize)
        });
        Self { limits, tables, clock }
    }

    /// Counts an attempt that another store admitted and that has ended, so that this store can replace it.
    pub(crate) fn learn(&self, subject: &Subject, outcome: AttemptOutcome) {
        if outcome == AttemptOutcome::Cancelled {
            return;
        }
        if let Subject::LogIn { account, .. } = *subject {
            self.lock_all(subject).iter_mut().for_each(|(_, slot)| enter(slot, account));
        }
        self.end(subject, outcome);
    }

    /// Stores a suspicion that another store reported.
    pub(crate) fn learn_suspicion(&self, subject: &Subject, decision: &Decision) {
        let Decision::Suspicious { suspect, remaining, severity } = *decision else { return };
        let now = self.now();
        let Some(mut slot) = self.lock_suspect(subject, suspect, now) else { return };
        slot.insert();
        if let Some(entry) = slot.entry() {
            entry.suspicious_until = entry.suspicious_until.max(now + nanos(remaining));
            entry.learned = Some(Learned { at: now, severity });
        }
        slot.release();
    }

    /// The suspicion of the address that another store reported a moment ago: a flood of one process is no load on the
    /// shared store.
    pub(crate) fn learned_suspicion(&self, subject: &Subject) -> Option<Decision> {
        let now = self.now();
        let mut slot = self.lock_suspect(subject, Suspect::Address, now)?;
        let entry = slot.entry()?;
        let remaining = entry.suspicious_until.checked_sub(now).filter(|left| *left > 0)?;
        let Learned { at, severity } = entry.learned?;
        (now.saturating_sub(at) < LEARNED_FOR).then_some(Decision::Suspicious {
            suspect: Suspect::Address,
            remaining: Duration::from_nanos(remaining),
            severity,
        })
    }

    /// The counter of a suspect. `None` for an account, which asks for proofs only while its failures, which are
    /// learned, delay it; and for load, which is checked before any store.
    fn lock_suspect(&self, subject: &Subject, suspect: Suspect, now: u64) -> Option<Slot<'_>> {
        let is_stored = matches!(suspect, Suspect::Address | Suspect::Password);
        let mut counters = subject.allowances().filter(|_| is_stored);
        let (axis, id) = counters.find(|(axis, _)| axis.suspect() == Some(suspect))?;
        Some(self.lock(axis, id, now))
    }

    fn now(&self) -> u64 {
        nanos(self.clock.now())
    }

    fn lock(&self, axis: Axis, id: Id, now: u64) -> Slot<'_> {
        self.tables[axis as usize].lock(id, now)
    }

    fn lock_all(&self, subject: &Subject) -> Vec<(Axis, Slot<'_>)> {
        let now = self.now();
        subject.allowances().map(|(axis, id)| (axis, self.lock(axis, id, now))).collect()
    }

    /// Counters that refuse come before counters that hold: no attempt waits only to be refused.
    fn decide(&self, request: &Request) -> Decision {
        let now = self.now();
        let account = match request.subject {
            Subject::LogIn { account, .. } | Subject::KnownDevice { account, .. } => account,
            Subject::SignUp(address) => return self.count_sign_up(address, now),
        };
        let over = |axis, wait| Decision::Over(axis, Duration::from_nanos(wait));
        let mut counters = Vec::new();
        for (axis, id) in request.subject.allowances() {
            let mut slot = self.lock(axis, id, now);
            let standing = self.limits.standing(axis, &mut slot, account, request.proven);
            // A limit that no proof lifts is final. Under attack most refusals are by pair, and take only one lock.
            if let (None, Standing::Over(wait)) = (axis.suspect(), standing) {
                return over(axis, wait);
            }
            counters.push(Counter { axis, id, slot, standing });
        }
        if !request.proven
            && let Some(suspicion) = self.suspicion(&mut counters, now)
        {
            return suspicion;
        }
        for Counter { axis, standing, .. } in &counters {
            if let Standing::Over(wait) = *standing {
                return over(*axis, wait);
            }
        }
        if let Some(held) = counters.iter().find(|counter| counter.standing == Standing::Held) {
            return Decision::Held(held.axis, held.id);
        }
        if !counters.iter().all(|counter| counter.slot.has_place()) {
            return Decision::NoPlace;
        }
        if request.take {
            counters.iter_mut().for_each(|counter| enter(&mut counter.slot, account));
        }
        Decision::Room
    }

    /// The suspicion that a proof must lift. An address or password over its limit is suspicious even when
    /// `Suspicion::remember` is shorter than the window. An account asks for a proof only until its growing delay is
    /// over: a client without a proof is delayed, not locked out.
    fn suspicion(&self, counters: &mut [Counter<'_>], now: u64) -> Option<Decision> {
        let limits = &self.limits;
        if limits.remember == 0 {
            return None;
        }
        let (mut found, mut remaining, mut severity) = (None, 0, 0);
        for suspect in [Suspect::Address, Suspect::Account, Suspect::Password] {
            let mut counters = counters.iter_mut();
            let counter = counters.find(|counter| counter.axis.suspect() == Some(suspect));
            let Some(Counter { axis, slot, standing, .. }) = counter else { continue };
            let over = if let Standing::Over(wait) = *standing { wait } else { 0 };
            let until = slot.entry().map_or(0, |entry| entry.suspicious_until);
            let stored = if suspect == Suspect::Account { 0 } else { until.saturating_sub(now) };
            let left = stored.max(over);
            found = found.or((left > 0).then_some(suspect));
            remaining = left.max(remaining);
            severity = limits.by_axis(*axis).severity(slot).max(severity);
        }
        let remaining = Duration::from_nanos(remaining);
        found.map(|suspect| Decision::Suspicious { suspect, remaining, severity })
    }

    /// Counts a sign-up at its admission.
    fn count_sign_up(&self, address: Id, now: u64) -> Decision {
        let mut slot = self.lock(Axis::SignUp, address, now);
        let limit = self.limits.by_axis(Axis::SignUp);
        if let Standing::Over(wait) = limit.standing(&mut slot, address) {
            return Decision::Over(Axis::SignUp, Duration::from_nanos(wait));
        }
        slot.insert();
        if let Some(entry) = slot.entry() {
            entry.failures.add();
        }
        slot.release();
        Decision::Room
    }

    fn end(&self, subject: &Subject, outcome: AttemptOutcome) {
        let account = match *subject {
            Subject::LogIn { account, .. } | Subject::KnownDevice { account, .. } => account,
            Subject::SignUp(address) => {
                let mut slot = self.lock(Axis::SignUp, address, self.now());
                if let (AttemptOutcome::Cancelled, Some(entry)) = (outcome, slot.entry()) {
                    entry.failures.remove();
                    slot.release();
                }
                return;
            }
        };
        let mut slots = self.lock_all(subject);
        for (axis, slot) in &mut slots {
            leave(slot, account, outcome);
            if let (AttemptOutcome::Success, Axis::Pair | Axis::DeviceToken, Some(entry)) =
                (outcome, *axis, slot.entry())
            {
                entry.failures.clear();
            }
            if outcome == AttemptOutcome::Failure {
                self.suspect(*axis, slot);
            }
            slot.release();
        }
    }

    /// Makes a counter over its limit suspicious.
    fn suspect(&self, axis: Axis, slot: &mut Slot<'_>) {
        let (limit, remember) = (self.limits.by_axis(axis), self.limits.remember_of(axis));
        let (now, failed_accounts) = (slot.now, slot.distinct().failed());
        if let Some(entry) = slot.entry().filter(|_| remember > 0)
            && (entry.failures.count() >= limit.failures
                || (limit.accounts > 0 && failed_accounts >= limit.accounts))
        {
            entry.suspicious_until = now.saturating_add(remember);
        }
    }
}

impl AttemptStore for MemoryStore {
    fn reserve(&self, request: &Request) -> Answer<'_, Result<Decision, StoreError>> {
        Answer::Ready(Ok(self.decide(request)))
    }

    fn settle(
        &self,
        subject: &Subject,
        _ticket: u64,
        outcome: AttemptOutcome,
    ) -> Answer<'static, Result<(), StoreError>> {
        self.end(subject, outcome);
        Answer::Ready(Ok(()))
    }

    fn metrics(&self) -> StoreMetrics {
        self.tables.iter().fold(StoreMetrics::default(), |sum, table| {
            let one = table.metrics();
            StoreMetrics {
                entries: sum.entries + one.entries,
                evictions: sum.evictions + one.evictions,
                bytes: sum.bytes + one.bytes,
                is_away: false,
            }
        })
    }
}

fn enter(slot: &mut Slot<'_>, account: Id) {
    slot.insert();
    if let Some(entry) = slot.entry() {
        entry.in_flight += 1;
    }
    slot.distinct().enter(account);
}

fn leave(slot: &mut Slot<'_>, account: Id, outcome: AttemptOutcome) {
    let (now, step) = (slot.now, slot.step);
    let failed = outcome == AttemptOutcome::Failure;
    if let Some(entry) = slot.entry() {
        entry.in_flight = entry.in_flight.saturating_sub(1);
        if failed {
            entry.failures.add();
            entry.last_failure = now;
        }
    }
    slot.distinct().leave(account, failed.then_some(step));
}
