//! Counters in the memory of this process.

use std::sync::Arc;
use std::time::Duration;

use crate::Suspect;
use crate::clock::{Clock, nanos};
use crate::config::GuardConfig;

use super::rules::{Rules, Standing};
use super::table::{Slot, Told};
use super::{
    Answer, AttemptStore, Axis, Decision, Id, Request, StoreError, StoreMetrics, Subject, Verdict,
};

/// How long the answer of another store holds, in nanoseconds: suspicion ends by time alone, so only its severity is old.
const HOLDS: u64 = 1_000_000_000;

/// Counts in tables of fixed size; answers at once and never fails.
pub struct MemoryStore {
    rules: Rules,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty store with the limits of this configuration.
    pub fn new(config: &GuardConfig, clock: Arc<dyn Clock>) -> Self {
        Self { rules: Rules::new(config), clock }
    }

    /// Counts an attempt that another store let in and that has ended, to be able to stand in for that store.
    pub(crate) fn learn(&self, subject: &Subject, verdict: Verdict) {
        if verdict == Verdict::Cancelled {
            return;
        }
        if let Subject::LogIn { pair, account, address, password } = *subject {
            let now = self.now();
            let mut slots = vec![
                self.rules.pairs.lock(pair, now),
                self.rules.accounts.lock(account, now),
                self.rules.addresses.lock(address, now),
            ];
            slots.extend(password.map(|id| self.rules.passwords.lock(id, now)));
            for slot in &mut slots {
                enter(slot, account);
            }
        }
        self.end(subject, verdict);
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
        let Subject::LogIn { address, password, .. } = *subject else { return None };
        match suspect {
            Suspect::Address => Some(self.rules.addresses.lock(address, now)),
            Suspect::Password => password.map(|id| self.rules.passwords.lock(id, now)),
            Suspect::Account | Suspect::Load => None,
        }
    }

    fn now(&self) -> u64 {
        nanos(self.clock.now())
    }

    fn decide(&self, request: &Request) -> Decision {
        match request.subject {
            Subject::LogIn { pair, account, address, password } => {
                // Refusals by the pair are the most frequent under attack, and final: they need
                // no more than one lock.
                let now = self.now();
                let mut slot = self.rules.pairs.lock(pair, now);
                let standing = self.rules.limits.pair.standing(&mut slot, account);
                if let Standing::Over(wait) = standing {
                    return Decision::Over(Axis::Pair, Duration::from_nanos(wait));
                }
                let slots = LogIn {
                    rules: &self.rules,
                    now,
                    account_id: account,
                    pair: slot,
                    account: self.rules.accounts.lock(account, now),
                    address: self.rules.addresses.lock(address, now),
                    password: password.map(|id| self.rules.passwords.lock(id, now)),
                };
                slots.decide(request, standing)
            }
            Subject::KnownDevice { token, account } => {
                self.decide_known_device(token, account, request.take)
            }
            Subject::SignUp(address) => self.count_sign_up(address),
        }
    }

    fn decide_known_device(&self, token: Id, account: Id, take: bool) -> Decision {
        let (now, rules) = (self.now(), &self.rules);
        let mut one = rules.tokens.lock(token, now);
        let mut all = rules.tokens_of_account.lock(account, now);
        let standings = [
            (Axis::DeviceToken, token, rules.limits.token.standing(&mut one, token)),
            (Axis::DeviceTokens, account, rules.limits.tokens.standing(&mut all, account)),
        ];
        for (axis, _, standing) in standings {
            if let Standing::Over(wait) = standing {
                return Decision::Over(axis, Duration::from_nanos(wait));
            }
        }
        for (axis, id, standing) in standings {
            if standing == Standing::Held {
                return Decision::Held(axis, id);
            }
        }
        if !one.has_place() || !all.has_place() {
            return Decision::NoPlace;
        }
        if take {
            enter(&mut one, token);
            enter(&mut all, account);
        }
        Decision::Room
    }

    /// Sign-ups are counted as they are admitted.
    fn count_sign_up(&self, address: Id) -> Decision {
        let mut slot = self.rules.sign_ups.lock(address, self.now());
        if let Some(entry) = slot.entry()
            && entry.failures.count() >= self.rules.limits.sign_up.failures
        {
            let below = entry.failures.below_at(self.rules.limits.sign_up.failures);
            let wait = Duration::from_nanos(slot.until(below));
            return Decision::Over(Axis::SignUp, wait);
        }
        slot.insert();
        if let Some(entry) = slot.entry() {
            entry.failures.add();
        }
        slot.release();
        Decision::Room
    }

    fn end(&self, subject: &Subject, verdict: Verdict) {
        let now = self.now();
        let rules = &self.rules;
        match *subject {
            Subject::LogIn { pair, account, address, password } => {
                let mut pair = rules.pairs.lock(pair, now);
                let mut by_account = rules.accounts.lock(account, now);
                let mut by_address = rules.addresses.lock(address, now);
                let mut by_password = password.map(|id| rules.passwords.lock(id, now));
                leave(&mut pair, account, verdict);
                if let (Verdict::Success, Some(entry)) = (verdict, pair.entry()) {
                    entry.failures.clear();
                }
                leave(&mut by_account, account, verdict);
                leave(&mut by_address, account, verdict);
                if let Some(slot) = by_password.as_mut() {
                    leave(slot, account, verdict);
                }
                if verdict == Verdict::Failure && rules.limits.remember > 0 {
                    let full = |slot: &mut Slot<'_>, limit: u32| {
                        slot.entry().is_some_and(|entry| entry.failures.count() >= limit)
                    };
                    let over_account = full(&mut by_account, rules.limits.account.limit.failures);
                    suspect(&mut by_account, over_account, rules.limits.remember);
                    let over_address = full(&mut by_address, rules.limits.address.failures)
                        || by_address.distinct().failed() >= rules.limits.address.accounts;
                    suspect(&mut by_address, over_address, rules.limits.remember_address);
                    if let Some(slot) = by_password.as_mut() {
                        let over = slot.distinct().failed() >= rules.limits.password.accounts;
                        suspect(slot, over, rules.limits.remember);
                    }
                }
                pair.release();
                by_account.release();
                by_address.release();
                if let Some(mut slot) = by_password {
                    slot.release();
                }
            }
            Subject::KnownDevice { token, account } => {
                let mut one = rules.tokens.lock(token, now);
                let mut all = rules.tokens_of_account.lock(account, now);
                leave(&mut one, token, verdict);
                if let (Verdict::Success, Some(entry)) = (verdict, one.entry()) {
                    entry.failures.clear();
                }
                leave(&mut all, account, verdict);
                one.release();
                all.release();
            }
            Subject::SignUp(address) => {
                if verdict == Verdict::Cancelled {
                    let mut slot = rules.sign_ups.lock(address, now);
                    if let Some(entry) = slot.entry() {
                        entry.failures.remove();
                    }
                    slot.release();
                }
            }
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
        verdict: Verdict,
    ) -> Answer<'static, Result<(), StoreError>> {
        self.end(subject, verdict);
        Answer::Ready(Ok(()))
    }

    fn metrics(&self) -> StoreMetrics {
        let rules = &self.rules;
        let tables = [
            &rules.pairs, &rules.tokens, &rules.tokens_of_account, &rules.accounts,
            &rules.addresses, &rules.passwords, &rules.sign_ups,
        ];
        tables.iter().map(|table| table.metrics()).fold(StoreMetrics::default(), |sum, one| {
            StoreMetrics {
                entries: sum.entries + one.entries,
                evictions: sum.evictions + one.evictions,
                bytes: sum.bytes + one.bytes,
                is_away: false,
            }
        })
    }
}

/// The locked counters of one attempt.
struct LogIn<'a> {
    rules: &'a Rules,
    now: u64,
    account_id: Id,
    pair: Slot<'a>,
    account: Slot<'a>,
    address: Slot<'a>,
    password: Option<Slot<'a>>,
}

impl LogIn<'_> {
    /// Whatever refuses goes before whatever holds: nobody waits in order to be refused.
    fn decide(mut self, request: &Request, pair: Standing) -> Decision {
        let Self { rules, account_id, .. } = self;
        let account = rules.limits.account.standing(&mut self.account, request.proven);
        let address = rules.limits.address.standing(&mut self.address, account_id);
        let password = self
            .password
            .as_mut()
            .map_or(Standing::Room, |slot| rules.limits.password.standing(slot, account_id));
        if request.proven {
            // Address and password do not stand in the way, over or not.
            if let Standing::Over(wait) = account {
                return Decision::Over(Axis::Account, Duration::from_nanos(wait));
            }
            return self.reserve(request, pair, [account, Standing::Room, Standing::Room]);
        }
        if let Some(suspicion) = self.suspicion(account, address, password) {
            return suspicion;
        }
        for (axis, standing) in
            [(Axis::Account, account), (Axis::Address, address), (Axis::Password, password)]
        {
            if let Standing::Over(wait) = standing {
                return Decision::Over(axis, Duration::from_nanos(wait));
            }
        }
        self.reserve(request, pair, [account, address, password])
    }

    /// What must be lifted by a proof, if anything. An address or password over its limit stays so
    /// when a shorter memory than the window has forgotten the suspicion. An account asks for a proof
    /// only until its growing delay is over: who has none to show is slowed, not locked out.
    fn suspicion(
        &mut self,
        account: Standing,
        address: Standing,
        password: Standing,
    ) -> Option<Decision> {
        if self.rules.limits.remember == 0 {
            return None;
        }
        let (now, rules) = (self.now, self.rules);
        let left = |slot: &mut Slot<'_>, standing: Standing| {
            let until = slot.entry().map_or(0, |entry| entry.suspicious_until);
            let over = if let Standing::Over(wait) = standing { wait } else { 0 };
            until.saturating_sub(now).max(over)
        };
        let by_address = left(&mut self.address, address);
        let by_account = if let Standing::Over(wait) = account { wait } else { 0 };
        let by_password = self.password.as_mut().map_or(0, |slot| left(slot, password));
        let (suspect, first) = [
            (Suspect::Address, by_address),
            (Suspect::Account, by_account),
            (Suspect::Password, by_password),
        ]
        .into_iter()
        .find(|(_, left)| *left > 0)?;
        let of_password =
            self.password.as_mut().map_or(0, |slot| rules.limits.password.severity(slot));
        let severity = rules
            .limits
            .address
            .severity(&mut self.address)
            .max(rules.limits.account.limit.severity(&mut self.account))
            .max(of_password);
        let remaining = Duration::from_nanos(first.max(by_account).max(by_password));
        Some(Decision::Suspicious { suspect, remaining, severity })
    }

    fn reserve(mut self, request: &Request, pair: Standing, others: [Standing; 3]) -> Decision {
        let standings = [pair, others[0], others[1], others[2]];
        for ((axis, id), standing) in request.subject.allowances().zip(standings) {
            if standing == Standing::Held {
                return Decision::Held(axis, id);
            }
        }
        let places =
            [Some(&self.pair), Some(&self.account), Some(&self.address), self.password.as_ref()];
        if !places.into_iter().flatten().all(Slot::has_place) {
            return Decision::NoPlace;
        }
        if request.take {
            for slot in [&mut self.pair, &mut self.account, &mut self.address] {
                enter(slot, self.account_id);
            }
            if let Some(slot) = self.password.as_mut() {
                enter(slot, self.account_id);
            }
        }
        Decision::Room
    }
}

fn enter(slot: &mut Slot<'_>, account: Id) {
    slot.insert();
    if let Some(entry) = slot.entry() {
        entry.in_flight += 1;
    }
    slot.distinct().enter(account);
}

fn leave(slot: &mut Slot<'_>, account: Id, verdict: Verdict) {
    let (now, step) = (slot.now(), slot.step());
    let failed = verdict == Verdict::Failure;
    if let Some(entry) = slot.entry() {
        entry.in_flight = entry.in_flight.saturating_sub(1);
        if failed {
            entry.failures.add();
            entry.last_failure = now;
        }
    }
    slot.distinct().leave(account, failed.then_some(step));
}

fn suspect(slot: &mut Slot<'_>, over: bool, remember: u64) {
    let until = slot.now().saturating_add(remember);
    if let (true, Some(entry)) = (over, slot.entry()) {
        entry.suspicious_until = until;
    }
}
