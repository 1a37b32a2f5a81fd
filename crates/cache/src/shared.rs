//! What the handles of one named part share, and the steps of a look-up that touch it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::clock::{Clock, nanos};
use crate::error::CacheError;
use crate::flight::{
    Ask, Filled, Flight, FlightRole, Flights, Lent, LoadOutcome, Receiver, Sender, longest_load,
};
use crate::load::{self, Asks, Leader};
use crate::metrics::{Counter, MetricsSnapshot};
use crate::named::{Loaded, Lookup, Served};
use crate::policy::{Admission, Policy};
use crate::remote::{self, Remote};
use crate::shard::{Entry, Name};
use crate::stamp::{Marks, Stamp};
use crate::store::{Refused, StaleCandidate, Store, StoredEntry, entry_weight};
use crate::value::Value;

/// Values that are not stored are shared from this weight on.
const LENT_FROM_BYTES: u64 = 64 << 10;

/// What the handles of one named part share. Its loads hold it weakly.
pub(crate) struct Shared<E> {
    pub(crate) name: Arc<Name>,
    pub(crate) policy: Policy,
    pub(crate) store: Arc<Store>,
    /// Whether bodies are kept in `store`.
    pub(crate) local: bool,
    pub(crate) remote: Option<Arc<Remote>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) flights: Flights<E>,
    pub(crate) permits: Arc<Semaphore>,
}

/// How waiting for a load ended.
pub(crate) enum Waited<E> {
    Done(LoadOutcome<E>),
    Stale(Lookup),
    /// The load's task is gone without a word; the old value is handed back.
    Lost(Option<StaleCandidate>),
}

/// How old a value is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    /// When its load, or the look-up in another tier, began by the cache's clock.
    pub(crate) begun: u64,
    /// How long it was kept elsewhere before, in nanoseconds.
    pub(crate) lived: u64,
}

/// The answer that a load's result makes.
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

    pub(crate) fn metrics(&self) -> MetricsSnapshot {
        self.name.metrics.snapshot()
    }

    /// The hit path.
    pub(crate) fn fresh(&self, key: &str) -> Option<Value> {
        let value = self.store.fresh(&self.name, key, self.now())?;
        self.count(Counter::Hits);
        Some(value)
    }

    /// Longest time between the start of a load and its outcome.
    pub(crate) fn longest(&self) -> Duration {
        let remote = self.remote.as_ref().map_or(Duration::ZERO, |_| remote::LONGEST);
        longest_load(&self.policy).saturating_add(remote)
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

    /// `refreshes`: although there is a live entry.
    pub(crate) fn role(&self, key: &str, stamps: &[Stamp], refreshes: bool) -> FlightRole<E> {
        let now = self.now();
        let ask = Ask { key, policy: &self.policy, now, longest: self.longest() };
        let table = &self.store.stamps;
        self.flights.role(
            &ask,
            |marks| table.is_current(marks),
            || table.read(stamps),
            || !refreshes && self.store.has_live(&self.name, key, now),
        )
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

    /// Whether nothing that this load depends on has ended since it began.
    pub(crate) fn may_store(&self, marks: &Marks) -> bool {
        self.store.stamps.is_current(marks)
    }

    /// The old value if there is one and it may be served, else the error.
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

    /// Waits for a load until `deadline`; with an old value at hand, for the soft timeout first.
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

    /// Enters what a load brought, unless its key is not to be stored yet, a write came between, it is too heavy, or it
    /// took longer than the entry may live. Whether key and weight allow storing it, in any tier.
    pub(crate) fn fill(&self, key: &str, marks: &Marks, value: Option<Value>, age: Age) -> bool {
        let at_once = match self.policy.admission {
            Admission::Everything => true,
            Admission::Values => value.is_some(),
            Admission::Nothing => false,
        };
        if !at_once && !self.store.is_known(&self.name, key) {
            // Nothing older is there that would have to go.
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

    /// Shares a value that is not stored with those who ask while somebody has it, as long as it would have
    /// been fresh. A small one is not worth the note.
    fn lend(&self, key: &str, marks: &Marks, value: &Value, begun: u64) {
        if value.weight() < LENT_FROM_BYTES {
            return;
        }
        let until = begun.saturating_add(nanos(self.policy.soft_ttl));
        self.flights.lend(key, Lent { value: value.downgrade(), marks: *marks, until });
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
        // One draw for all, so that they keep their order.
        let share = 1.0 - jitter * fastrand::f64();
        // From the beginning of the load: the loader may have read at once and been slow with the rest.
        // Through floating point, so that "for ever" saturates instead of overflowing.
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

    /// Takes out what the store has for a key whose newer state is not to be stored: nobody
    /// should be given the older one after it.
    fn forget(&self, key: &str, marks: &Marks) {
        self.store.remove(&self.name, key, marks);
    }

    /// Enters what a load brought and when it began, or notes that it failed, so that the loader is left in peace for a
    /// while. Whether what it brought may be shared with other processes.
    pub(crate) fn settle(
        &self,
        key: &str,
        marks: &Marks,
        outcome: &Result<(Filled, u64), CacheError<E>>,
    ) -> bool {
        let (filled, begun) = match outcome {
            Ok((filled, begun)) => (filled, *begun),
            // Having had no turn is not the loader's failure.
            Err(CacheError::Overloaded { .. } | CacheError::NoTurn { .. }) => {
                self.count(Counter::QueueTimeouts);
                return false;
            }
            Err(CacheError::Abandoned) => return false,
            Err(error) => {
                self.count(Counter::LoadErrors);
                let until = self.flights.failed(key, &self.policy, self.now(), error.clone());
                self.store.postpone_refresh(&self.name, key, until);
                return false;
            }
        };
        self.flights.succeeded(key);
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

    /// What a service without a cache does.
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
    pub(crate) fn spawn<F, Fut>(&self, sender: Sender<E>, leader: Leader<E>, loader: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded, E>> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        let flight = Arc::clone(&leader.flight);
        let task = tokio::spawn(load::run(sender, leader, permit, loader));
        let _ = flight.task.set(task.abort_handle());
    }

    /// Starts a load behind a hit, if there is room for it: those who wait go first.
    pub(crate) fn refresh<F, Fut>(self: &Arc<Self>, key: &str, stamps: &[Stamp], loader: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded, E>> + Send + 'static,
    {
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
        self.flights.abort_all();
    }
}
