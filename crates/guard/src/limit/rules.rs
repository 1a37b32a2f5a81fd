//! Limits of one counter.

use crate::Suspect;
use crate::clock::nanos;
use crate::config::{FailureLimit, GuardConfig, PROOF_ACCOUNT_PACE};

use super::table::Slot;
use super::{Axis, Id};

/// State of one counter for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Room,
    /// Attempts in flight hold the rest.
    Held,
    /// Over the limit, for so many nanoseconds.
    Over(u64),
}

/// A limit on failures and on distinct accounts.
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
        let step = slot.step;
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

    /// Doublings of the work of a proof: one for each quarter of the limit that failed beyond it.
    /// Only failures count, each of which cost a password hash and a proof. Refusals are free; if they
    /// counted, clients that share an address with an attacker would pay for them.
    pub(super) fn severity(&self, slot: &mut Slot<'_>) -> u32 {
        let limit = if self.failures == u32::MAX { self.accounts } else { self.failures };
        let failures = slot.entry().map_or(0, |entry| entry.failures.count());
        failures.saturating_sub(limit) / (limit / 4).max(1)
    }
}

/// The growing delay of an account, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub(super) first: u64,
    pub(super) longest: u64,
    /// Longest delay with a proof.
    pub(super) proven: u64,
}

impl Growth {
    /// The delay after `beyond` failures more than the limit: doubles with each.
    fn delay(&self, beyond: u32) -> u64 {
        let factor = 1u64.checked_shl(beyond).unwrap_or(u64::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    by_axis: [AxisLimit; Axis::ALL.len()],
    pub(super) growth: Growth,
    /// Nanoseconds for which suspicion lasts. Zero: nothing becomes suspicious, because proofs, which every client can
    /// show, are off.
    pub(super) remember: u64,
    /// The same for an address, which others share: at most its window.
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
        let (account, address) = (config.account, config.address);
        let by_axis = Axis::ALL.map(|axis| match axis {
            Axis::Pair => plain(config.pair),
            Axis::DeviceToken => limit(tokens.failures, 0, tokens.window),
            Axis::DeviceTokens => limit(tokens.account_failures, 0, tokens.window),
            Axis::Account => limit(account.failures, 0, account.window),
            Axis::Address => limit(address.failures, address.accounts, address.window),
            Axis::Password => limit(u32::MAX, passwords.accounts, passwords.window),
            Axis::SignUp => plain(config.sign_up),
        });
        let growth = Growth {
            first: nanos(account.first_delay),
            longest: nanos(account.longest_delay),
            proven: proof.map_or(0, |_| nanos(PROOF_ACCOUNT_PACE)),
        };
        let remember = match (suspicion, proof) {
            (Some(suspicion), Some(_)) => nanos(suspicion.remember),
            _ => 0,
        };
        let remember_address = remember.min(nanos(address.window));
        Self { by_axis, growth, remember, remember_address }
    }

    pub(super) fn by_axis(&self, axis: Axis) -> AxisLimit {
        self.by_axis[axis as usize]
    }

    /// Nanoseconds for which a counter of this axis stays suspicious.
    pub(super) fn remember_of(&self, axis: Axis) -> u64 {
        match axis.suspect() {
            Some(Suspect::Address) => self.remember_address,
            Some(_) => self.remember,
            None => 0,
        }
    }

    pub(super) fn standing(
        &self,
        axis: Axis,
        slot: &mut Slot<'_>,
        account: Id,
        proven: bool,
    ) -> Standing {
        match axis {
            Axis::Account => self.account(slot, proven),
            // A proof lifts both limits.
            Axis::Address | Axis::Password if proven => Standing::Room,
            _ => self.by_axis(axis).standing(slot, account),
        }
    }

    /// Like other axes below the limit; from the limit on, one attempt at a time and each after its delay.
    fn account(&self, slot: &mut Slot<'_>, proven: bool) -> Standing {
        let (now, limit) = (slot.now, self.by_axis(Axis::Account));
        let Some(entry) = slot.entry() else {
            return Standing::Room;
        };
        let failures = entry.failures.count();
        let Some(beyond) = failures.checked_sub(limit.failures) else {
            let free = failures + entry.in_flight < limit.failures;
            return if free { Standing::Room } else { Standing::Held };
        };
        let longest = if proven { self.growth.proven } else { u64::MAX };
        let due = entry.last_failure.saturating_add(self.growth.delay(beyond).min(longest));
        match due.saturating_sub(now) {
            0 if entry.in_flight == 0 => Standing::Room,
            0 => Standing::Held,
            wait => Standing::Over(wait),
        }
    }
}
