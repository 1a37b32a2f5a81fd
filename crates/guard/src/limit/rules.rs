//! When one counter lets an attempt pass.

use crate::{
    clock::nanos,
    config::{AccountLimit, GuardConfig},
};

use super::{
    Id,
    table::{Slot, Table},
};

/// What one counter says about one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is room.
    Room,
    /// Attempts in flight hold what is left.
    Held,
    /// Over the limit, for so many nanoseconds.
    Over(u64),
}

/// A limit on failures, and perhaps on distinct accounts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// `u32::MAX`: only accounts are limited.
    pub(super) failures: u32,
    /// Zero: only failures are limited.
    pub(super) accounts: u32,
}

impl Limit {
    pub(super) fn standing(&self, slot: &mut Slot<'_>, account: Id) -> Standing {
        let step = slot.step();
        let Some(entry) = slot.entry() else {
            return Standing::Room;
        };
        let (failures, in_flight) = (entry.failures.count(), entry.in_flight);
        if failures >= self.failures {
            let below = entry.failures.below_at(self.failures);
            return Standing::Over(slot.until(below));
        }
        if self.accounts > 0 {
            let distinct = slot.distinct();
            if distinct.failed() >= self.accounts {
                let fewer = distinct.fewer_at(step);
                return Standing::Over(slot.until(fewer));
            }
            if distinct.with(account) > self.accounts {
                return Standing::Held;
            }
        }
        if failures + in_flight < self.failures { Standing::Room } else { Standing::Held }
    }

    /// Doublings of the work of a proof: one for each quarter of the limit that was failed beyond it.
    /// Only failures count, each of which took its maker a password hash here and a proof there;
    /// refusals are free, and whoever shares an address with an attacker would pay for them.
    pub(super) fn severity(&self, slot: &mut Slot<'_>) -> u32 {
        let limit = if self.failures == u32::MAX { self.accounts } else { self.failures };
        let failures = slot.entry().map_or(0, |entry| entry.failures.count());
        failures.saturating_sub(limit) / (limit / 4).max(1)
    }
}

/// The growing delay of an account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub(super) limit: Limit,
    first: u64,
    longest: u64,
    /// The longest delay with a proof.
    proven: u64,
}

impl Growth {
    pub(super) fn new(account: &AccountLimit, proven: u64) -> Self {
        Self {
            limit: Limit { failures: account.failures, accounts: 0 },
            first: nanos(account.first_delay),
            longest: nanos(account.longest_delay),
            proven,
        }
    }

    /// First delay after the failure that reached the limit, twice that after the next, and so on.
    fn delay(&self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(self.limit.failures);
        let factor = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// Below the limit as any limit; from it on, one at a time and each after its delay.
    pub(super) fn standing(&self, slot: &mut Slot<'_>, proven: bool) -> Standing {
        let now = slot.now();
        let Some(entry) = slot.entry() else {
            return Standing::Room;
        };
        let failures = entry.failures.count();
        if failures < self.limit.failures {
            let free = failures + entry.in_flight < self.limit.failures;
            return if free { Standing::Room } else { Standing::Held };
        }
        let longest = if proven { self.proven } else { u64::MAX };
        let due = entry.last_failure.saturating_add(self.delay(failures).min(longest));
        match due.saturating_sub(now) {
            0 if entry.in_flight == 0 => Standing::Room,
            0 => Standing::Held,
            wait => Standing::Over(wait),
        }
    }
}

/// All tables with their limits.
pub(super) struct Rules {
    pub(super) pairs: Table,
    pub(super) pair: Limit,
    pub(super) marks: Table,
    pub(super) mark: Limit,
    /// All marks of an account together.
    pub(super) marked: Table,
    pub(super) marked_limit: Limit,
    pub(super) accounts: Table,
    pub(super) account: Growth,
    pub(super) addresses: Table,
    pub(super) address: Limit,
    pub(super) passwords: Table,
    pub(super) password: Limit,
    pub(super) sign_ups: Table,
    pub(super) sign_up: u32,
    /// Nanoseconds for which suspicion lasts; zero: nothing becomes suspicious, because proofs, the
    /// only thing that everybody can show, are off.
    pub(super) remember: u64,
    /// The same for an address, behind which others live: no longer than its window.
    pub(super) remember_address: u64,
}

impl Rules {
    pub(super) fn new(config: &GuardConfig) -> Self {
        let capacity = &config.capacity;
        let suspicion = config.suspicion.as_ref();
        let proof = suspicion.and_then(|s| s.proof);
        let marks = suspicion.and_then(|s| s.marks).unwrap_or_default();
        let passwords = suspicion.and_then(|s| s.passwords).unwrap_or_default();
        let accounts = config.address.accounts;
        let plain = |failures| Limit { failures, accounts: 0 };
        let remember = match (suspicion, proof) {
            (Some(suspicion), Some(_)) => nanos(suspicion.remember),
            _ => 0,
        };
        Self {
            pairs: Table::new(capacity.pairs, nanos(config.pair.window), 0),
            pair: plain(config.pair.failures),
            marks: Table::new(capacity.pairs / 2, nanos(marks.window), 0),
            mark: plain(marks.failures),
            marked: Table::new(capacity.accounts / 2, nanos(marks.window), 0),
            marked_limit: plain(marks.account_failures),
            accounts: Table::new(capacity.accounts, nanos(config.account.window), 0),
            account: Growth::new(&config.account, proof.map_or(0, |p| nanos(p.account_pace))),
            addresses: Table::new(
                capacity.addresses,
                nanos(config.address.window),
                accounts as usize,
            ),
            address: Limit { failures: config.address.failures, accounts },
            passwords: Table::new(
                capacity.passwords,
                nanos(passwords.window),
                passwords.accounts as usize,
            ),
            password: Limit { failures: u32::MAX, accounts: passwords.accounts },
            sign_ups: Table::new(capacity.addresses, nanos(config.sign_up.window), 0),
            sign_up: config.sign_up.failures,
            remember,
            remember_address: remember.min(nanos(config.address.window)),
        }
    }
}
