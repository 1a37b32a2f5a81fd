//! The number of distinct accounts that failed, or are in flight, with one address or password.
//!
//! An exact list of fixed length rather than a sketch: the limits are small, and "the fifty-first
//! account" has to mean that. Accounts are distinguished by 32 bits of their keyed hash; two of fifty
//! share them once in 3.5 million lists (birthday bound, 50²/2 of 2³²), which counts one too few.

use super::Id;
use super::window::STEPS;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Item {
    account: u32,
    /// Step of its last failure, modulo 2³²: compared at most nine steps later, or known to be older.
    step: u32,
    in_flight: u16,
    failed: bool,
}

impl Item {
    fn is_free(&self) -> bool {
        self.in_flight == 0 && !self.failed
    }
}

/// The accounts of one address or password.
pub(super) struct Distinct<'a>(pub(super) &'a mut [Item]);

impl Distinct<'_> {
    pub(super) fn clear(&mut self) {
        self.0.fill(Item::default());
    }

    /// Expires failures that are too old at this step.
    pub(super) fn advance(&mut self, step: u64) {
        for item in self.0.iter_mut().filter(|item| item.failed) {
            item.failed = u64::from((step as u32).wrapping_sub(item.step)) <= STEPS;
        }
    }

    pub(super) fn failed(&self) -> u32 {
        self.0.iter().filter(|item| item.failed).count() as u32
    }

    /// Accounts that failed or are in flight, this one included.
    pub(super) fn with(&self, account: Id) -> u32 {
        let others = self.0.iter().filter(|item| !item.is_free() && item.account != short(account));
        others.count() as u32 + 1
    }

    /// The first step at which one failed account fewer will count.
    pub(super) fn fewer_at(&self, step: u64) -> u64 {
        let age = |item: &Item| u64::from((step as u32).wrapping_sub(item.step));
        let oldest = self.0.iter().filter(|item| item.failed).map(age).max();
        oldest.map_or(step, |age| step + (STEPS + 1).saturating_sub(age))
    }

    /// Counts an attempt of the account in flight. A full list does not take a new account; the address or password is
    /// over its limit then anyway.
    pub(super) fn enter(&mut self, account: Id) {
        let account = short(account);
        let known = self.0.iter().position(|item| !item.is_free() && item.account == account);
        let Some(at) = known.or_else(|| self.0.iter().position(Item::is_free)) else {
            return;
        };
        let item = &mut self.0[at];
        if known.is_none() {
            *item = Item { account, ..Item::default() };
        }
        item.in_flight = item.in_flight.saturating_add(1);
    }

    /// Ends an attempt of the account.
    pub(super) fn leave(&mut self, account: Id, failed_at: Option<u64>) {
        let account = short(account);
        let known = |item: &&mut Item| !item.is_free() && item.account == account;
        let Some(item) = self.0.iter_mut().find(known) else {
            return;
        };
        item.in_flight = item.in_flight.saturating_sub(1);
        if let Some(step) = failed_at {
            item.failed = true;
            item.step = step as u32;
        }
    }
}

/// Half of the hash, enough for so few accounts.
fn short(account: Id) -> u32 {
    (account.0 >> 32) as u32
}
