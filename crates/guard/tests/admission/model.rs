//! The limiter against a model that keeps every failure in a list.

use std::collections::HashMap;
use std::time::Duration;

use madang_guard::config::{AccountLimit, AddressLimit, FailureLimit, Waiting};
use madang_guard::{GuardConfig, Reason, Reservation};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::kit::{Yard, at, unsuspecting};

#[derive(Clone, Copy, Debug)]
enum Act {
    Begin { account: u8, address: u8 },
    Succeed(usize),
    Fail(usize),
    Cancel(usize),
    Pass(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..5u8, 0..3u8).prop_map(|(account, address)| Act::Begin { account, address }),
        1 => (0..8usize).prop_map(Act::Succeed),
        4 => (0..8usize).prop_map(Act::Fail),
        1 => (0..8usize).prop_map(Act::Cancel),
        2 => (0..4_000u32).prop_map(Act::Pass),
    ]
}

/// Small limits, so that all of them are met; all windows are 8 s, in steps of 1 s.
fn small() -> GuardConfig {
    let window = Duration::from_secs(8);
    GuardConfig {
        pair: FailureLimit { failures: 3, window },
        account: AccountLimit {
            failures: 5,
            window,
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(3),
        },
        address: AddressLimit { failures: 7, accounts: 3, window },
        waiting: Waiting { longest: Duration::ZERO, ..Waiting::default() },
        ..unsuspecting()
    }
}

#[derive(Default)]
struct Model {
    now: u64, // milliseconds
    failures: Vec<(u8, u8, u64)>,
    /// Length of the list when the failures of a pair were last cleared.
    cleared: HashMap<(u8, u8), usize>,
    in_flight: Vec<(u8, u8)>,
}

impl Model {
    fn counts(&self, at: u64) -> bool {
        self.now / 1_000 - at / 1_000 <= 8
    }

    fn failed(&self, which: impl Fn(u8, u8) -> bool) -> Vec<(u8, u64)> {
        let counted = self.failures.iter().filter(|f| which(f.0, f.1) && self.counts(f.2));
        counted.map(|f| (f.0, f.2)).collect()
    }

    fn flying(&self, which: impl Fn(u8, u8) -> bool) -> usize {
        self.in_flight.iter().filter(|f| which(f.0, f.1)).count()
    }

    /// `None`: there is room.
    fn refusal(&self, account: u8, address: u8) -> Option<Reason> {
        let since = self.cleared.get(&(account, address)).copied().unwrap_or(0);
        let pair = self.failures[since..]
            .iter()
            .filter(|f| (f.0, f.1) == (account, address) && self.counts(f.2))
            .count();
        let by_account = self.failed(|a, _| a == account);
        let by_address = self.failed(|_, b| b == address);
        let mut accounts: Vec<u8> = by_address.iter().map(|f| f.0).collect();
        accounts.sort_unstable();
        accounts.dedup();
        let failed_accounts = accounts.len();
        accounts.extend(self.in_flight.iter().filter(|f| f.1 == address).map(|f| f.0));
        accounts.push(account);
        accounts.sort_unstable();
        accounts.dedup();
        let delay = 500u64 << by_account.len().saturating_sub(5).min(20);
        let due = self
            .failures
            .iter()
            .rev()
            .find(|f| f.0 == account)
            .map_or(0, |f| f.2 + delay.min(3_000));
        let delayed = by_account.len() >= 5;

        if pair >= 3 {
            Some(Reason::Pair)
        } else if delayed && self.now < due {
            Some(Reason::Account)
        } else if by_address.len() >= 7 || failed_accounts >= 3 {
            Some(Reason::Address)
        } else if pair + self.flying(|a, b| (a, b) == (account, address)) >= 3
            || (delayed && self.flying(|a, _| a == account) > 0)
            || (!delayed && by_account.len() + self.flying(|a, _| a == account) >= 5)
            || by_address.len() + self.flying(|_, b| b == address) >= 7
            || accounts.len() > 3
        {
            Some(Reason::InFlight)
        } else {
            None
        }
    }
}

async fn compare(acts: &[Act]) {
    let yard = Yard::new(small());
    let mut model = Model::default();
    let mut held: Vec<Reservation> = Vec::new();
    for act in acts {
        match *act {
            Act::Begin { account, address } => {
                let name = format!("user{account}");
                let answer = yard.admit(at(&name, address.into())).await;
                let expected = model.refusal(account, address);
                assert_eq!(
                    answer.as_ref().err().map(|refused| refused.reason),
                    expected,
                    "{act:?}"
                );
                if let Ok(reservation) = answer {
                    held.push(reservation);
                    model.in_flight.push((account, address));
                }
            }
            Act::Pass(milliseconds) => {
                yard.clock.advance(Duration::from_millis(milliseconds.into()));
                model.now += u64::from(milliseconds);
            }
            Act::Succeed(which) | Act::Fail(which) | Act::Cancel(which) => {
                if held.is_empty() {
                    continue;
                }
                let which = which % held.len();
                let (reservation, pair) = (held.remove(which), model.in_flight.remove(which));
                match act {
                    Act::Succeed(_) => {
                        reservation.succeed();
                        model.cleared.insert(pair, model.failures.len());
                    }
                    Act::Fail(_) => {
                        reservation.fail();
                        model.failures.push((pair.0, pair.1, model.now));
                    }
                    _ => reservation.cancel(),
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn the_limiter_does_what_its_model_does(acts in vec(act(), 1..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(compare(&acts));
    }
}
