//! Synchronises the two rounds of a pair.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::journal::record::{Measured, Outcome, RoundRecord, Warning};
use crate::run::cancel::Cancel;

/// Interval of checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct Meeting {
    rounds: Mutex<Rounds>,
    changed: Condvar,
}

/// Number of rounds in each state.
#[derive(Debug, Default, Clone, Copy)]
struct Rounds {
    up: u32,
    ready: u32,
}

impl Meeting {
    pub(crate) fn arrive(&self) {
        self.update(|rounds| rounds.up += 1);
    }

    /// Waits until one of the servers is up; `false` if the pair is cancelled first.
    pub(crate) fn wait_for_first(&self, cancel: &Cancel) -> bool {
        self.wait(cancel, |rounds| rounds.up > 0)
    }

    /// Reports readiness for the load and waits for the other side; `false` if the pair is cancelled first.
    pub(crate) fn wait_for_both(&self, cancel: &Cancel) -> bool {
        self.update(|rounds| rounds.ready += 1);
        self.wait(cancel, |rounds| rounds.ready == 2)
    }

    fn update(&self, change: impl FnOnce(&mut Rounds)) {
        change(&mut self.rounds.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn wait(&self, cancel: &Cancel, is_done: impl Fn(Rounds) -> bool) -> bool {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_done(*rounds) {
            if cancel.is_cancelled() {
                return false;
            }
            let waited = self.changed.wait_timeout(rounds, LOOK);
            rounds = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// With less overlap, the two costs are not comparable.
const LEAST_OVERLAP: f64 = 0.9;

/// Adds a warning to a pair whose windows do not overlap enough.
pub(crate) fn note_apart(records: &mut [RoundRecord]) {
    let [first, second] = records else { return };
    let (Outcome::Measured(one), Outcome::Measured(other)) =
        (&mut first.outcome, &mut second.outcome)
    else {
        return;
    };
    let length = |round: &Measured| round.load.ended_at_seconds - round.load.started_at_seconds;
    let shared = one.load.ended_at_seconds.min(other.load.ended_at_seconds)
        - one.load.started_at_seconds.max(other.load.started_at_seconds);
    if shared < LEAST_OVERLAP * length(one).max(length(other)) {
        one.warnings.push(Warning::Apart);
        other.warnings.push(Warning::Apart);
    }
}
