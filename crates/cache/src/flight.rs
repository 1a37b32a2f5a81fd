//! Loads in flight, one per key; keys whose load failed a moment ago; values that are not stored but still in use.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::clock::nanos;
use crate::error::CacheError;
use crate::shared::Shared;
use crate::stamp::{Marks, Stamp};
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
struct Lent {
    value: WeakValue,
    marks: Marks,
    until: u64,
}

/// Smallest weight of a value that is lent.
const LENT_FROM_BYTES: u64 = 64 << 10;

/// Keys whose failures are kept. Further keys have no pause: the policy still limits the number of their loads.
const MAX_FAILURES: usize = 1024;

/// All loads of one name. Hits do not use it.
#[derive(Debug)]
pub(crate) struct Flights<E> {
    flights: HashMap<Box<str>, Arc<Flight<E>>>,
    /// Flights replaced by a newer one. Nobody joins them; they answer those who wait.
    outdated: Vec<Arc<Flight<E>>>,
    failures: HashMap<Box<str>, Failure<E>>,
    lent: HashMap<Box<str>, Lent>,
}

impl<E> Flights<E> {
    pub(crate) fn new() -> Self {
        let (failures, lent) = (HashMap::new(), HashMap::new());
        Self { flights: HashMap::new(), outdated: Vec::new(), failures, lent }
    }
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

impl<E> Shared<E> {
    /// Joins the load in flight if it began after the last invalidation, else makes the caller the leader of a new
    /// one. With `refreshes` it leads although there is a live entry.
    ///
    /// Looks into the store once more: a load stores its result before it leaves the flights, so if neither is found
    /// there is none.
    pub(crate) fn role(&self, key: &str, stamps: &[Stamp], refreshes: bool) -> FlightRole<E> {
        let (now, policy, table) = (self.now(), &self.policy, &self.store.stamps);
        let mut inner = self.flights.lock();
        if let Some(flight) = inner.flights.get(key)
            && now < flight.deadline
            && table.is_current(&flight.marks)
        {
            return FlightRole::Join(flight.receiver.clone());
        }
        if !refreshes && self.store.has_live(&self.name, key, now) {
            return FlightRole::Again;
        }
        if let Some(lent) = inner.lent.get(key)
            && now < lent.until
            && table.is_current(&lent.marks)
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
        let (marks, deadline) = (table.read(stamps), now.saturating_add(nanos(self.longest())));
        let flight = Arc::new(Flight { marks, deadline, receiver, task: OnceLock::new() });
        let outdated = inner.flights.insert(key.into(), Arc::clone(&flight));
        inner.outdated.extend(outdated);
        FlightRole::Lead(flight, sender)
    }

    /// Ends a flight: it no longer counts, and nobody can join it any more.
    pub(crate) fn end_flight(&self, key: &str, flight: &Arc<Flight<E>>) {
        let mut inner = self.flights.lock();
        if inner.flights.get(key).is_some_and(|there| Arc::ptr_eq(there, flight)) {
            inner.flights.remove(key);
        } else if let Some(n) = inner.outdated.iter().position(|old| Arc::ptr_eq(old, flight)) {
            inner.outdated.swap_remove(n);
        }
    }

    /// Lends a value that is not stored to later callers, while somebody uses it and as long as it would have been
    /// fresh. A small one is not worth it, and there are few large ones at a time: unused ones are removed here.
    pub(crate) fn lend(&self, key: &str, marks: &Marks, value: &Value, begun: u64) {
        if value.weight() < LENT_FROM_BYTES {
            return;
        }
        let until = begun.saturating_add(nanos(self.policy.soft_ttl));
        let mut inner = self.flights.lock();
        inner.lent.retain(|_, lent| lent.value.upgrade().is_some());
        inner.lent.insert(key.into(), Lent { value: value.downgrade(), marks: *marks, until });
    }

    pub(crate) fn succeeded(&self, key: &str) {
        self.flights.lock().failures.remove(key);
    }

    /// Notes a failure; returns the time until which the key is not to be loaded.
    pub(crate) fn failed(&self, key: &str, error: CacheError<E>) -> u64 {
        let (now, policy) = (self.now(), &self.policy);
        if policy.failure_backoff.is_zero() {
            return now;
        }
        let mut inner = self.flights.lock();
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
    pub(crate) fn abort_loads(&self) {
        let inner = self.flights.lock();
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
    use crate::shared::Age;
    use crate::{Cache, CacheConfig, Policy};

    #[test]
    fn a_load_that_ended_between_two_looks_is_not_begun_again() {
        let cache = Cache::new(&CacheConfig::default()).unwrap();
        let shared = cache.named::<()>("test", Policy::default()).unwrap().shared;
        let stamps = [Stamp::new("k")];
        let store = || {
            let value = Value::new("v".into(), "text/plain", "v");
            let age = Age { begun: shared.now(), lived: 0 };
            assert!(shared.fill("k", &shared.store.stamps.read(&stamps), Some(value), age));
        };
        store();
        assert!(matches!(shared.role("k", &stamps, false), FlightRole::Again));
        cache.invalidate(&stamps);
        assert!(matches!(shared.role("k", &stamps, false), FlightRole::Lead(..)));
        store();
        let role = shared.role("k", &stamps, false);
        assert!(matches!(role, FlightRole::Join(_)), "a load in flight comes first");
    }
}
