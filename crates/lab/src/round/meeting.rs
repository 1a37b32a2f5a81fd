//! Synchronises the two rounds of a pair.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::journal::record::{Outcome, RoundRecord, Warning};
use crate::run::cancel::Cancel;

/// Interval of checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// Progress of the two rounds.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    come: Mutex<Come>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct Come {
    up: u32,
    ready: u32,
}

impl Meeting {
    pub(crate) fn arrive(&self) {
        self.note(|come| come.up += 1);
    }

    /// Waits until one of the servers is up; `false` if the pair is cancelled first.
    pub(crate) fn someone_or(&self, cancel: &Cancel) -> bool {
        self.wait(cancel, |come| come.up > 0)
    }

    /// Reports readiness for the load and waits for the other side; `false` if the pair is cancelled first.
    pub(crate) fn both_or(&self, cancel: &Cancel) -> bool {
        self.note(|come| come.ready += 1);
        self.wait(cancel, |come| come.ready == 2)
    }

    fn note(&self, change: impl FnOnce(&mut Come)) {
        change(&mut self.come.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn wait(&self, cancel: &Cancel, is_so: impl Fn(Come) -> bool) -> bool {
        let mut come = self.come.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_so(*come) {
            if cancel.is_cancelled() {
                return false;
            }
            let waited = self.changed.wait_timeout(come, LOOK);
            come = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// With less overlap, the two costs belong to different moments.
const LEAST_OVERLAP: f64 = 0.9;

/// Adds a warning to a pair whose windows do not overlap enough.
pub(crate) fn note_apart(records: &mut [RoundRecord]) {
    let window = |record: &RoundRecord| match &record.outcome {
        Outcome::Measured(one) => Some((one.load.started_at_seconds, one.load.ended_at_seconds)),
        Outcome::Failed(_) => None,
    };
    let [Some(first), Some(second)] = [records.first(), records.get(1)].map(|one| window(one?))
    else {
        return;
    };
    let shared = first.1.min(second.1) - first.0.max(second.0);
    let longer = (first.1 - first.0).max(second.1 - second.0);
    if shared < LEAST_OVERLAP * longer {
        for record in records {
            if let Outcome::Measured(measured) = &mut record.outcome {
                measured.warnings.push(Warning::Apart);
            }
        }
    }
}
