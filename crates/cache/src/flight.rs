//! Loads in flight, one per key; keys whose load failed a moment ago; values that are not stored but still in use.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::clock::nanos;
use crate::error::CacheError;
use crate::policy::Policy;
use crate::stamp::Marks;
use crate::value::{Value, WeakValue};

/// Result of a load for all who wait for it.
#[derive(Clone, Debug)]
pub(crate) enum Filled {
    Value(Value),
    Bypass(Value),
    Absent,
}

pub(crate) type LoadOutcome<E> = Result<Filled, CacheError<E>>;

/// The sender belongs to the load's task; when that task ends, the channel closes.
pub(crate) type Sender<E> = watch::Sender<Option<LoadOutcome<E>>>;
pub(crate) type Receiver<E> = watch::Receiver<Option<LoadOutcome<E>>>;

#[derive(Debug)]
pub(crate) struct Flight<E> {
    /// The stamps as they were before the loader ran.
    pub(crate) marks: Marks,
    /// Past this time of the cache's clock nobody joins: a runtime that no longer runs its
    /// tasks cannot time them out either.
    pub(crate) deadline: u64,
    pub(crate) receiver: Receiver<E>,
    /// Set once the task is spawned.
    pub(crate) task: OnceLock<AbortHandle>,
}

/// The pause after failures of one key.
#[derive(Debug)]
struct Failure<E> {
    until: u64,
    in_a_row: u32,
    last: Arc<CacheError<E>>,
}

/// A value that is not stored, and is shared as long as somebody still sends it.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) value: WeakValue,
    pub(crate) marks: Marks,
    pub(crate) until: u64,
}

/// Keys whose failures are kept. Further keys have no pause: the policy still limits the number of their loads.
const MAX_FAILURES: usize = 1024;

#[derive(Debug)]
struct Inner<E> {
    flights: HashMap<Box<str>, Arc<Flight<E>>>,
    /// Flights replaced by a newer one. Nobody joins them; they answer those who wait.
    outdated: Vec<Arc<Flight<E>>>,
    failures: HashMap<Box<str>, Failure<E>>,
    lent: HashMap<Box<str>, Lent>,
}

/// All loads of one name. Hits do not use it.
#[derive(Debug)]
pub(crate) struct Flights<E> {
    // No code of a caller runs under this lock.
    inner: Mutex<Inner<E>>,
}

/// Role of a caller without a fresh entry.
pub(crate) enum FlightRole<E> {
    /// Wait for a load in flight.
    Join(Receiver<E>),
    /// Run the load; the flight is registered.
    Lead(Arc<Flight<E>>, Sender<E>),
    /// Use this value, which somebody else is using.
    Borrow(Value),
    /// The key failed a moment ago, or too many loads are pending.
    Refused(CacheError<E>),
    /// Look up again: the entry has arrived in the meantime.
    Again,
}

/// Request for a role.
pub(crate) struct Ask<'a> {
    pub(crate) key: &'a str,
    pub(crate) policy: &'a Policy,
    pub(crate) now: u64,
    /// Longest time from the start of a flight to its outcome.
    pub(crate) longest: Duration,
}

impl<E> Flights<E> {
    pub(crate) fn new() -> Self {
        let (flights, outdated) = (HashMap::new(), Vec::new());
        let (failures, lent) = (HashMap::new(), HashMap::new());
        Self { inner: Mutex::new(Inner { flights, outdated, failures, lent }) }
    }

    /// Joins the load in flight if it began after the last invalidation, else makes the caller
    /// the leader of a new one.
    ///
    /// `is_current` judges the flight's stamps, `marks` reads them again, `stored` looks into the store once more: a load
    /// stores its result before it leaves this table, so if neither is found there is none.
    pub(crate) fn role(
        &self,
        ask: &Ask<'_>,
        is_current: impl Fn(&Marks) -> bool,
        marks: impl FnOnce() -> Marks,
        stored: impl FnOnce() -> bool,
    ) -> FlightRole<E> {
        let Ask { key, policy, now, longest } = *ask;
        let mut inner = self.inner.lock();
        if let Some(flight) = inner.flights.get(key)
            && now < flight.deadline
            && is_current(&flight.marks)
        {
            return FlightRole::Join(flight.receiver.clone());
        }
        if stored() {
            return FlightRole::Again;
        }
        if let Some(lent) = inner.lent.get(key)
            && now < lent.until
            && is_current(&lent.marks)
            && let Some(value) = lent.value.upgrade()
        {
            return FlightRole::Borrow(value);
        }
        if let Some(failure) = inner.failures.get(key)
            && now < failure.until
        {
            let retry_after = Duration::from_nanos(failure.until - now);
            return FlightRole::Refused(CacheError::BackingOff {
                last: Arc::clone(&failure.last),
                retry_after,
            });
        }
        let pending = inner.flights.len() + inner.outdated.len();
        if pending >= policy.max_loads_in_flight.saturating_add(policy.max_loads_waiting) {
            return FlightRole::Refused(CacheError::Overloaded {
                retry_after: policy.queue_timeout,
            });
        }
        let (sender, receiver) = watch::channel(None);
        let deadline = now.saturating_add(nanos(longest));
        let flight = Arc::new(Flight { marks: marks(), deadline, receiver, task: OnceLock::new() });
        let outdated = inner.flights.insert(key.into(), Arc::clone(&flight));
        inner.outdated.extend(outdated);
        FlightRole::Lead(flight, sender)
    }

    /// Ends a flight: it no longer counts, and nobody can join it any more.
    pub(crate) fn end(&self, key: &str, flight: &Arc<Flight<E>>) {
        let mut inner = self.inner.lock();
        if inner.flights.get(key).is_some_and(|there| Arc::ptr_eq(there, flight)) {
            inner.flights.remove(key);
        } else if let Some(n) = inner.outdated.iter().position(|old| Arc::ptr_eq(old, flight)) {
            inner.outdated.swap_remove(n);
        }
    }

    /// Lends a value to later callers as long as somebody uses it. There are few at a time: they are large, and
    /// unused ones are removed here.
    pub(crate) fn lend(&self, key: &str, lent: Lent) {
        let mut inner = self.inner.lock();
        inner.lent.retain(|_, lent| lent.value.upgrade().is_some());
        inner.lent.insert(key.into(), lent);
    }

    pub(crate) fn succeeded(&self, key: &str) {
        self.inner.lock().failures.remove(key);
    }

    /// Notes a failure; returns the time until which the key is not to be loaded.
    pub(crate) fn failed(&self, key: &str, policy: &Policy, now: u64, error: CacheError<E>) -> u64 {
        if policy.failure_backoff.is_zero() {
            return now;
        }
        let mut inner = self.inner.lock();
        let failures = &mut inner.failures;
        if failures.len() >= MAX_FAILURES && !failures.contains_key(key) {
            failures.retain(|_, failure| now < failure.until);
            if failures.len() >= MAX_FAILURES {
                return now;
            }
        }
        let in_a_row = failures.get(key).map_or(0, |failure| failure.in_a_row);
        let pause = policy.failure_backoff.saturating_mul(1 << in_a_row.min(20));
        let until = now.saturating_add(nanos(pause.min(policy.failure_backoff_max)));
        let in_a_row = in_a_row.saturating_add(1);
        failures.insert(key.into(), Failure { until, in_a_row, last: Arc::new(error) });
        until
    }

    /// Aborts every load: nobody is left to use the results.
    pub(crate) fn abort_all(&self) {
        let inner = self.inner.lock();
        for flight in inner.flights.values().chain(&inner.outdated) {
            if let Some(task) = flight.task.get() {
                task.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_ended_between_two_looks_is_not_begun_again() {
        let flights = Flights::<()>::new();
        let policy = Policy::default();
        let ask = Ask { key: "k", policy: &policy, now: 0, longest: Duration::MAX };
        let role = |stored| flights.role(&ask, |_| true, Marks::default, || stored);
        assert!(matches!(role(true), FlightRole::Again));
        assert!(matches!(role(false), FlightRole::Lead(..)));
        assert!(matches!(role(true), FlightRole::Join(_)), "a load in flight comes first");
    }
}
