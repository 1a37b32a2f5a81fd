//! Counters in the memory of this process.

use std::sync::Arc;
use std::time::Duration;

use crate::Suspect;
use crate::clock::{Clock, nanos};
use crate::config::GuardConfig;

use super::rules::{Rules, Standing};
use super::table::{Slot, Told};
use super::{
    Answer, AttemptOutcome, AttemptStore, Axis, Decision, Id, Request, StoreError, StoreMetrics,
    Subject,
};

/// How long the answer of another store holds, in nanoseconds: suspicion ends by time alone, so only its severity is old.
const HOLDS: u64 = 1_000_000_000;

/// Counts in tables of fixed size; answers at once and never fails.
pub struct MemoryStore {
    rules: Rules,
    clock: Arc<dyn Clock>,
}

/// One of an attempt's counters, locked.
struct Counter<'a> {
    axis: Axis,
    id: Id,
    slot: Slot<'a>,
    standing: Standing,
}

impl MemoryStore {
    /// An empty store with the limits of this configuration.
    pub fn new(config: &GuardConfig, clock: Arc<dyn Clock>) -> Self {
        Self { rules: Rules::new(config), clock }
    }

    /// Counts an attempt that another store let in and that has ended, to be able to stand in for that store.
    pub(crate) fn learn(&self, subject: &Subject, outcome: AttemptOutcome) {
        if outcome == AttemptOutcome::Cancelled {
            return;
        }
        if let Subject::LogIn { account, .. } = *subject {
            self.lock_all(subject).iter_mut().for_each(|(_, slot)| enter(slot, account));
        }
        self.end(subject, outcome);
    }

    /// Notes what another store found suspicious, for how long it stays so, and how severe it is.
    pub(crate) fn learn_suspicion(&self, subject: &Subject, decision: &Decision) {
        let Decision::Suspicious { suspect, remaining, severity } = *decision else { return };
        let now = self.now();
        let Some(mut slot) = self.suspects(subject, suspect, now) else { return };
        slot.insert();
        if let Some(entry) = slot.entry() {
            entry.suspicious_until = entry.suspicious_until.max(now + nanos(remaining));
            entry.told = Some(Told { at: now, severity });
        }
        slot.release();
    }

    /// What another store has said of the address a moment ago, while it still holds: whoever floods one process need not
    /// be a load for all of them.
    pub(crate) fn told(&self, subject: &Subject) -> Option<Decision> {
        let now = self.now();
        let mut slot = self.suspects(subject, Suspect::Address, now)?;
        let entry = slot.entry()?;
        let remaining = entry.suspicious_until.checked_sub(now).filter(|left| *left > 0)?;
        let Told { at, severity } = entry.told?;
        (now.saturating_sub(at) < HOLDS).then_some(Decision::Suspicious {
            suspect: Suspect::Address,
            remaining: Duration::from_nanos(remaining),
            severity,
        })
    }

    /// The counter of what is suspicious. An account has none: it asks for proofs as long as its failures make it wait,
    /// and those are learned. Load is seen before any store is asked.
    fn suspects(&self, subject: &Subject, suspect: Suspect, now: u64) -> Option<Slot<'_>> {
        let is_noted = matches!(suspect, Suspect::Address | Suspect::Password);
        let mut counters = subject.allowances().filter(|_| is_noted);
        let (axis, id) = counters.find(|(axis, _)| axis.suspect() == Some(suspect))?;
        Some(self.rules.lock(axis, id, now))
    }

    fn now(&self) -> u64 {
        nanos(self.clock.now())
    }

    fn lock_all(&self, subject: &Subject) -> Vec<(Axis, Slot<'_>)> {
        let now = self.now();
        let counters = subject.allowances();
        counters.map(|(axis, id)| (axis, self.rules.lock(axis, id, now))).collect()
    }

    /// Whatever refuses goes before whatever holds: nobody waits in order to be refused.
    fn decide(&self, request: &Request) -> Decision {
        let now = self.now();
        let account = match request.subject {
            Subject::LogIn { account, .. } | Subject::KnownDevice { account, .. } => account,
            Subject::SignUp(address) => return self.count_sign_up(address, now),
        };
        let over = |axis, wait| Decision::Over(axis, Duration::from_nanos(wait));
        let mut counters = Vec::new();
        for (axis, id) in request.subject.allowances() {
            let mut slot = self.rules.lock(axis, id, now);
            let standing = self.rules.limits.standing(axis, &mut slot, account, request.proven);
            // What no proof lifts is final. Under attack most refusals are the pair's, and need no more than one lock.
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

    /// What must be lifted by a proof, if anything. An address or password over its limit stays so
    /// when a shorter memory than the window has forgotten the suspicion. An account asks for a proof
    /// only until its growing delay is over: who has none to show is slowed, not locked out.
    fn suspicion(&self, counters: &mut [Counter<'_>], now: u64) -> Option<Decision> {
        let limits = &self.rules.limits;
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
            let noted = if suspect == Suspect::Account { 0 } else { until.saturating_sub(now) };
            let left = noted.max(over);
            found = found.or((left > 0).then_some(suspect));
            remaining = left.max(remaining);
            severity = limits.of(*axis).severity(slot).max(severity);
        }
        let remaining = Duration::from_nanos(remaining);
        found.map(|suspect| Decision::Suspicious { suspect, remaining, severity })
    }

    /// Sign-ups are counted as they are admitted.
    fn count_sign_up(&self, address: Id, now: u64) -> Decision {
        let mut slot = self.rules.lock(Axis::SignUp, address, now);
        let limit = self.rules.limits.of(Axis::SignUp);
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
                let mut slot = self.rules.lock(Axis::SignUp, address, self.now());
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

    /// Notes that a counter has become suspicious, if it is over its limit.
    fn suspect(&self, axis: Axis, slot: &mut Slot<'_>) {
        let (limit, remember) = (self.rules.limits.of(axis), self.rules.limits.remember_of(axis));
        let (now, failed_accounts) = (slot.now(), slot.distinct().failed());
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
        self.rules.tables.iter().fold(StoreMetrics::default(), |sum, table| {
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
    let (now, step) = (slot.now(), slot.step());
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
