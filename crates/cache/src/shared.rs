//! The state that all handles of a named part share, and the steps of a look-up that use it.

use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::clock::{Clock, nanos};
use crate::error::CacheError;
use crate::flight::{Filled, Flight, FlightRole, Flights, LoadOutcome, Receiver, Sender};
use crate::load::{self, Asks, Leader, Loader};
use crate::metrics::Counter;
use crate::named::{Loaded, Lookup, Served};
use crate::policy::{Admission, Policy};
use crate::remote::{self, Remote};
use crate::shard::{Entry, Name};
use crate::stamp::{Marks, Stamp};
use crate::store::{Refused, StaleCandidate, Store, StoredEntry, entry_weight};
use crate::value::Value;

/// Margin of the longest load, so that its own timers fire first.
const GRACE: Duration = Duration::from_millis(100);

/// State that all handles of a named part share. Its loads hold it weakly.
pub(crate) struct Shared<E> {
    pub(crate) name: Arc<Name>,
    pub(crate) policy: Policy,
    pub(crate) store: Arc<Store>,
    /// Values are kept in `store`.
    pub(crate) local: bool,
    pub(crate) remote: Option<Arc<Remote>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// No code of a caller runs under its lock.
    pub(crate) flights: Mutex<Flights<E>>,
    pub(crate) permits: Arc<Semaphore>,
}

/// Outcome of waiting for a load.
pub(crate) enum Waited<E> {
    Done(LoadOutcome<E>),
    Stale(Lookup),
    /// The load's task ended without an outcome; the old value is handed back.
    Lost(Option<StaleCandidate>),
}

/// Age of a value, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    /// Start of its load, or of the look-up in another tier, by the cache's clock.
    pub(crate) begun: u64,
    /// Time that it was in another tier before.
    pub(crate) lived: u64,
}

/// The answer of a look-up from the result of a load.
pub(crate) fn answer(filled: Filled, served: Served) -> Lookup {
    match filled {
        Filled::Value(value) => Lookup { value: Some(value), served },
        Filled::Absent => Lookup { value: None, served },
        Filled::Bypass(value) => {
            let served = if served == Served::Miss { Served::Bypass } else { served };
            Lookup { value: Some(value), served }
        }
    }
}

impl<E> Shared<E> {
    pub(crate) fn name(&self) -> &str {
        &self.name.name
    }

    /// The hit path.
    pub(crate) fn fresh(&self, key: &str) -> Option<Value> {
        let value = self.store.fresh(&self.name, key, self.now())?;
        self.count(Counter::Hits);
        Some(value)
    }

    /// Longest time from the start of a load to its outcome.
    pub(crate) fn longest(&self) -> Duration {
        let remote = self.remote.as_ref().map_or(Duration::ZERO, |_| remote::LONGEST);
        let Policy { queue_timeout, load_timeout, .. } = self.policy;
        queue_timeout.saturating_add(load_timeout).saturating_add(GRACE).saturating_add(remote)
    }

    pub(crate) fn now(&self) -> u64 {
        nanos(self.clock.now())
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.name.metrics.count(counter);
    }

    pub(crate) fn count_turn(&self, served: Served) {
        self.count(if served == Served::Miss { Counter::Misses } else { Counter::Coalesced });
    }

    pub(crate) fn count_refusal(&self, error: &CacheError<E>) {
        let backing_off = matches!(error, CacheError::BackingOff { .. });
        self.count(if backing_off { Counter::BackingOff } else { Counter::Overloaded });
    }

    pub(crate) fn hit(&self, value: Option<Value>) -> Lookup {
        self.count(if value.is_some() { Counter::Hits } else { Counter::NegativeHits });
        Lookup { value, served: Served::Hit }
    }

    pub(crate) fn find(&self, key: &str) -> StoredEntry {
        self.store.find(&self.name, key, self.now(), nanos(self.longest()))
    }

    /// The shared tier if it is the only one.
    pub(crate) fn remote_alone(&self) -> Option<&Remote> {
        self.remote.as_deref().filter(|_| !self.local)
    }

    pub(crate) fn leader(
        self: &Arc<Self>,
        key: &str,
        flight: Arc<Flight<E>>,
        stamps: &[Stamp],
        asks: Asks,
    ) -> Leader<E> {
        let shared = Arc::downgrade(self);
        Leader { shared, key: key.into(), flight, stamps: stamps.into(), asks }
    }

    /// The old value if it may be served, else the error.
    pub(crate) fn stale_or(
        &self,
        stale: Option<StaleCandidate>,
        error: CacheError<E>,
    ) -> Result<Lookup, CacheError<E>> {
        stale.and_then(|stale| self.stale(&stale)).ok_or(error)
    }

    fn stale(&self, stale: &StaleCandidate) -> Option<Lookup> {
        self.store.may_serve(stale, self.now()).then(|| {
            self.count(Counter::Stale);
            Lookup { value: stale.value.clone(), served: Served::Stale }
        })
    }

    /// Waits for a load until `deadline`; with an old value, for the soft timeout first.
    pub(crate) async fn wait(
        &self,
        mut receiver: Receiver<E>,
        stale: Option<StaleCandidate>,
        deadline: Instant,
    ) -> Waited<E> {
        if let Some(stale) = &stale
            && timeout(self.policy.soft_timeout, receiver.wait_for(Option::is_some)).await.is_err()
            && let Some(lookup) = self.stale(stale)
        {
            return Waited::Stale(lookup);
        }
        let outcome = match timeout_at(deadline, receiver.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone(),
            Ok(Err(_closed)) => None,
            Err(_elapsed) => Some(Err(CacheError::TimedOut { after: self.longest() })),
        };
        match outcome {
            None => Waited::Lost(stale),
            Some(Ok(filled)) => Waited::Done(Ok(filled)),
            Some(Err(error)) => match self.stale_or(stale, error) {
                Ok(lookup) => Waited::Stale(lookup),
                Err(error) => Waited::Done(Err(error)),
            },
        }
    }

    /// Stores the result of a load, unless its key is not admitted yet, a write came between, it is too heavy, or the
    /// load took longer than the entry may live. Returns whether key and weight allow storing it, in any tier.
    pub(crate) fn fill(&self, key: &str, marks: &Marks, value: Option<Value>, age: Age) -> bool {
        let at_once = match self.policy.admission {
            Admission::Everything => true,
            Admission::Values => value.is_some(),
            Admission::Nothing => false,
        };
        if !at_once && !self.store.is_known(&self.name, key) {
            // There is no older entry to remove.
            self.count(Counter::RefusedByPredicate);
            return false;
        }
        let weight = entry_weight(key, value.as_ref());
        if weight > self.policy.max_entry_bytes.min(self.store.capacity()) {
            self.count(Counter::RefusedBySize);
            if let Some(value) = &value {
                self.lend(key, marks, value, age.begun);
            }
            self.forget(key, marks);
            return false;
        }
        if self.local {
            self.enter(key, marks, value, weight, age);
        }
        true
    }

    fn enter(&self, key: &str, marks: &Marks, value: Option<Value>, weight: u64, age: Age) {
        if value.is_none() && self.policy.negative_ttl.is_zero() {
            return self.forget(key, marks);
        }
        let now = self.now();
        let entry = self.entry(key, marks, value, weight, age);
        if entry.hard_expiry <= now {
            return self.forget(key, marks);
        }
        match self.store.insert(entry, now) {
            Ok(()) => {}
            Err(Refused::Vetoed) => self.count(Counter::Vetoed),
            Err(Refused::NoRoom) => {
                self.count(Counter::RefusedByCapacity);
                self.forget(key, marks);
            }
        }
    }

    fn entry(
        &self,
        key: &str,
        marks: &Marks,
        value: Option<Value>,
        weight: u64,
        Age { begun, lived }: Age,
    ) -> Entry {
        let Policy { soft_ttl, hard_ttl, negative_ttl, jitter, refresh_ahead, .. } = self.policy;
        let (soft_ttl, hard_ttl) =
            if value.is_some() { (soft_ttl, hard_ttl) } else { (negative_ttl, negative_ttl) };
        // One draw for all times, so that they keep their order.
        let share = 1.0 - jitter * fastrand::f64();
        // From the start of the load: the loader may have read at once and been slow with the rest.
        // In floating point, so that "for ever" saturates instead of overflowing.
        let after = |ttl, share| {
            let expiry = begun.saturating_add((nanos(ttl) as f64 * share) as u64);
            expiry.saturating_sub(lived)
        };
        let refresh = refresh_ahead.filter(|_| value.is_some());
        Entry {
            hash: self.store.hash(&self.name, key),
            name: Arc::clone(&self.name),
            key: key.into(),
            value,
            marks: *marks,
            soft_expiry: after(soft_ttl, share),
            hard_expiry: after(hard_ttl, share),
            refresh_at: AtomicU64::new(
                refresh.map_or(u64::MAX, |part| after(soft_ttl, share * part)),
            ),
            weight,
        }
    }

    /// Removes the entry of a key whose newer value is not stored: the older one must not be served after it.
    fn forget(&self, key: &str, marks: &Marks) {
        self.store.remove(&self.name, key, marks);
    }

    /// Stores the result of a load and its start, or notes its failure, so that the loader pauses. Returns whether
    /// the result may be shared with other processes.
    pub(crate) fn settle(
        &self,
        key: &str,
        marks: &Marks,
        outcome: &Result<(Filled, u64), CacheError<E>>,
    ) -> bool {
        let (filled, begun) = match outcome {
            Ok((filled, begun)) => (filled, *begun),
            // A load without a turn is not a failure of its key.
            Err(CacheError::Overloaded { .. } | CacheError::NoTurn { .. }) => {
                self.count(Counter::QueueTimeouts);
                return false;
            }
            Err(CacheError::Abandoned) => return false,
            Err(error) => {
                self.count(Counter::LoadErrors);
                let until = self.failed(key, error.clone());
                self.store.postpone_refresh(&self.name, key, until);
                return false;
            }
        };
        self.succeeded(key);
        let age = Age { begun, lived: 0 };
        match filled {
            Filled::Value(value) => self.fill(key, marks, Some(value.clone()), age),
            Filled::Absent => {
                self.fill(key, marks, None, age);
                false
            }
            Filled::Bypass(value) => {
                self.count(Counter::RefusedByPredicate);
                self.lend(key, marks, value, begun);
                self.forget(key, marks);
                false
            }
        }
    }

    /// Runs the loader as a service without a cache does.
    pub(crate) async fn load_uncached<Fut: Future<Output = Result<Loaded, E>>>(
        &self,
        loader: impl FnOnce() -> Fut,
    ) -> Result<Lookup, CacheError<E>> {
        self.count(Counter::Misses);
        self.count(Counter::Loads);
        let outcome = load::filled(loader().await);
        if let Err(CacheError::Load(_)) = &outcome {
            self.count(Counter::LoadErrors);
        }
        outcome.map(|filled| answer(filled, Served::Miss))
    }
}

impl<E: Send + Sync + 'static> Shared<E> {
    pub(crate) fn spawn(&self, sender: Sender<E>, leader: Leader<E>, loader: Loader<E>) {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        let flight = Arc::clone(&leader.flight);
        let task = tokio::spawn(load::run(sender, leader, permit, loader));
        let _ = flight.task.set(task.abort_handle());
    }

    /// Starts a load in the background of a hit, if a permit is free: waiting loads go first.
    pub(crate) fn refresh(self: &Arc<Self>, key: &str, stamps: &[Stamp], loader: Loader<E>) {
        if self.permits.available_permits() == 0 {
            return;
        }
        if let FlightRole::Lead(flight, sender) = self.role(key, stamps, true) {
            self.count(Counter::Refreshes);
            let leader = self.leader(key, flight, stamps, Asks::Never);
            self.spawn(sender, leader, loader);
        }
    }
}

impl<E> Drop for Shared<E> {
    fn drop(&mut self) {
        self.abort_loads();
    }
}
