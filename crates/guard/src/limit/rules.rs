//! When one counter lets an attempt pass.

use crate::clock::nanos;
use crate::config::{AccountLimit, FailureLimit, GuardConfig};

use super::Id;
use super::table::{Slot, Table};

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
pub(super) struct AxisLimit {
    /// `u32::MAX`: only accounts are limited.
    pub(super) failures: u32,
    /// Zero: only failures are limited.
    pub(super) accounts: u32,
    /// Nanoseconds.
    pub(super) window: u64,
}

impl AxisLimit {
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
    pub(super) limit: AxisLimit,
    pub(super) first: u64,
    pub(super) longest: u64,
    /// The longest delay with a proof.
    pub(super) proven: u64,
}

impl Growth {
    pub(super) fn new(account: &AccountLimit, proven: u64) -> Self {
        Self {
            limit: AxisLimit {
                failures: account.failures,
                accounts: 0,
                window: nanos(account.window),
            },
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

/// All limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) pair: AxisLimit,
    pub(super) token: AxisLimit,
    /// All device tokens of an account together.
    pub(super) tokens: AxisLimit,
    pub(super) account: Growth,
    pub(super) address: AxisLimit,
    pub(super) password: AxisLimit,
    pub(super) sign_up: AxisLimit,
    /// Nanoseconds for which suspicion lasts; zero: nothing becomes suspicious, because proofs, the
    /// only thing that everybody can show, are off.
    pub(super) remember: u64,
    /// The same for an address, behind which others live: no longer than its window.
    pub(super) remember_address: u64,
}

impl Limits {
    pub(super) fn new(config: &GuardConfig) -> Self {
        let suspicion = config.suspicion.as_ref();
        let proof = suspicion.and_then(|s| s.proof);
        let tokens = suspicion.and_then(|s| s.device_tokens).unwrap_or_default();
        let passwords = suspicion.and_then(|s| s.passwords).unwrap_or_default();
        let limit =
            |failures, accounts, window| AxisLimit { failures, accounts, window: nanos(window) };
        let plain = |limits: FailureLimit| limit(limits.failures, 0, limits.window);
        let remember = match (suspicion, proof) {
            (Some(suspicion), Some(_)) => nanos(suspicion.remember),
            _ => 0,
        };
        let address = config.address;
        Self {
            pair: plain(config.pair),
            token: limit(tokens.failures, 0, tokens.window),
            tokens: limit(tokens.account_failures, 0, tokens.window),
            account: Growth::new(&config.account, proof.map_or(0, |p| nanos(p.account_pace))),
            address: limit(address.failures, address.accounts, address.window),
            password: limit(u32::MAX, passwords.accounts, passwords.window),
            sign_up: plain(config.sign_up),
            remember,
            remember_address: remember.min(nanos(address.window)),
        }
    }
}

/// All tables with their limits.
pub(super) struct Rules {
    pub(super) limits: Limits,
    pub(super) pairs: Table,
    pub(super) tokens: Table,
    /// All device tokens of an account together.
    pub(super) tokens_of_account: Table,
    pub(super) accounts: Table,
    pub(super) addresses: Table,
    pub(super) passwords: Table,
    pub(super) sign_ups: Table,
}

impl Rules {
    pub(super) fn new(config: &GuardConfig) -> Self {
        let (capacity, limits) = (&config.capacity, Limits::new(config));
        let table = |capacity, limit: AxisLimit| {
            Table::new(capacity, limit.window, limit.accounts as usize)
        };
        Self {
            limits,
            pairs: table(capacity.pairs, limits.pair),
            tokens: table(capacity.pairs / 2, limits.token),
            tokens_of_account: table(capacity.accounts / 2, limits.tokens),
            accounts: table(capacity.accounts, limits.account.limit),
            addresses: table(capacity.addresses, limits.address),
            passwords: table(capacity.passwords, limits.password),
            sign_ups: table(capacity.addresses, limits.sign_up),
        }
    }
}
