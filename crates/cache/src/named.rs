//! A named part of the cache, and the look-up itself.

use std::{
    fmt,
    future::Future,
    sync::{Arc, atomic::AtomicU64},
};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    clock::{Clock, nanos},
    error::CacheError,
    flight::{Ask, Filled, Flight, Flights, Outcome, Receiver, Sender, Turn, longest_load},
    load::{self, Leader},
    metrics::{Counter, MetricsSnapshot},
    policy::Policy,
    shard::{Entry, Name},
    stamp::{MAX_STAMPS, Marks, Stamp},
    store::{Found, Refused, StaleCandidate, Store, entry_weight},
    value::Value,
};

/// What a loader brings back.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// Serve it and store it.
    Store(Value),
    /// Serve it and do not store it: not worth the room by the caller's own judgement. Callers
    /// who waited for the same key are given it too.
    Bypass(Value),
    /// There is no such thing; remembered for the policy's `negative_ttl`.
    Absent,
}

/// How a look-up was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Served {
    /// From a live entry.
    Hit,
    /// By the load this look-up began.
    Miss,
    /// By a load another look-up had begun.
    Coalesced,
    /// From an entry past its soft expiry, because a load failed, was refused, or took too long.
    Stale,
    /// By the load this look-up began, whose result is not to be stored.
    Bypass,
}

/// The answer to a look-up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lookup {
    /// The value; `None`: there is no such thing.
    pub value: Option<Value>,
    /// How it was come by.
    pub served: Served,
}

/// What the handles of one named part share. Its loads hold it weakly.
pub(crate) struct Shared<E> {
    name: Arc<Name>,
    pub(crate) policy: Policy,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    pub(crate) flights: Flights<E>,
    pub(crate) permits: Arc<Semaphore>,
}

/// A named part of a [`Cache`](crate::Cache) with a policy and figures of its own. `E` is the
/// error of its loaders. Cheap to clone; when the last clone is dropped, its loads in flight are
/// aborted.
pub struct NamedCache<E> {
    shared: Arc<Shared<E>>,
}

impl<E> Clone for NamedCache<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<E> fmt::Debug for NamedCache<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedCache").field("name", &self.shared.name.name).finish_non_exhaustive()
    }
}

impl<E> NamedCache<E> {
    pub(crate) fn new(
        name: Arc<Name>,
        policy: Policy,
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(policy.max_loads_in_flight));
        let flights = Flights::new();
        Self { shared: Arc::new(Shared { name, policy, store, clock, flights, permits }) }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name.name
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// The figures so far.
    #[must_use]
    pub fn metrics(&self) -> MetricsSnapshot {
        self.shared.name.metrics.snapshot()
    }

    /// The value of a live entry, at once and without a loader: the fast path of [`get`], for
    /// callers who would rather not build a loader before they need one.
    ///
    /// `None` says "ask `get`": there is no entry, or it is negative, expired, dead, or due for a
    /// refresh. Only an answer is counted (as a hit).
    ///
    /// [`get`]: Self::get
    #[must_use]
    pub fn peek_fresh(&self, key: &str) -> Option<Value> {
        let shared = &*self.shared;
        if !shared.policy.enabled {
            return None;
        }
        let value = shared.store.fresh(&shared.name, key, shared.now())?;
        shared.name.metrics.count(Counter::Hits);
        Some(value)
    }
}

impl<E: Send + Sync + 'static> NamedCache<E> {
    /// Looks `key` up, and runs `loader` when there is no live entry.
    ///
    /// `stamps` (one to four) name the state the value depends on; the same key must always come
    /// with the same ones, since hits go by those the entry was stored with. The loader runs in a
    /// task of its own on the caller's runtime, at most once, and not when another caller is
    /// loading the key already: then its outcome is shared. It is not cancelled when this future
    /// is dropped. What it returns must be at least as new as the moment it was called.
    ///
    /// The answer is never older than the last write on its stamps that had finished when `get`
    /// was called.
    ///
    /// # Errors
    /// [`CacheError`], where no answer could be had and no old one may be served. It takes no
    /// longer than `queue_timeout` + `load_timeout` + 100 ms.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers, when a load has to begin.
    pub async fn get<F, Fut>(
        &self,
        key: &str,
        stamps: &[Stamp],
        loader: F,
    ) -> Result<Lookup, CacheError<E>>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded, E>> + Send + 'static,
    {
        if let Some(value) = self.peek_fresh(key) {
            return Ok(Lookup { value: Some(value), served: Served::Hit });
        }
        if !(1..=MAX_STAMPS).contains(&stamps.len()) {
            return Err(CacheError::StampCount { given: stamps.len() });
        }
        if !self.shared.policy.enabled {
            return self.shared.load_uncached(loader).await;
        }
        self.get_slow(key, stamps, loader).await
    }

    async fn get_slow<F, Fut>(
        &self,
        key: &str,
        stamps: &[Stamp],
        loader: F,
    ) -> Result<Lookup, CacheError<E>>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded, E>> + Send + 'static,
    {
        let shared = &self.shared;
        let deadline = Instant::now() + longest_load(&shared.policy);
        let mut loader = Some(loader);
        loop {
            let stale = match shared.find(key) {
                Found::Fresh { value, refresh } => {
                    if refresh && let Some(loader) = loader.take() {
                        shared.refresh(key, stamps, loader);
                    }
                    return Ok(shared.hit(value));
                }
                Found::Soft(stale) => Some(stale),
                Found::Nothing => None,
            };
            let (receiver, served) = match shared.turn(key, stamps) {
                Turn::Again => continue,
                Turn::Refused(error) => {
                    shared.count_refusal(&error);
                    return shared.stale_or(stale, error);
                }
                Turn::Join(receiver) => (receiver, Served::Coalesced),
                Turn::Lead(flight, sender) => {
                    let receiver = flight.receiver.clone();
                    let leader = shared.leader(key, flight);
                    // Only a leader uses its loader up, and a leader never comes round again.
                    let Some(loader) = loader.take() else { return Err(CacheError::Abandoned) };
                    shared.spawn(sender, leader, loader);
                    (receiver, Served::Miss)
                }
            };
            shared.count_turn(served);
            match shared.wait(receiver, stale, deadline).await {
                Waited::Done(outcome) => return outcome.map(|filled| answer(filled, served)),
                Waited::Stale(lookup) => return Ok(lookup),
                // The load went down with the runtime of whoever began it: try again, with this
                // caller's own loader, unless it was this caller's.
                Waited::Lost if served == Served::Miss => return Err(CacheError::Abandoned),
                Waited::Lost => {}
            }
        }
    }
}

/// How waiting for a load ended.
enum Waited<E> {
    Done(Outcome<E>),
    Stale(Lookup),
    Lost,
}

fn answer(filled: Filled, served: Served) -> Lookup {
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
    fn now(&self) -> u64 {
        nanos(self.clock.now())
    }

    fn count(&self, counter: Counter) {
        self.name.metrics.count(counter);
    }

    pub(crate) fn count_load(&self) {
        self.count(Counter::Loads);
    }

    pub(crate) fn count_bypass(&self) {
        self.count(Counter::RefusedByPredicate);
    }

    fn count_turn(&self, served: Served) {
        self.count(if served == Served::Miss { Counter::Misses } else { Counter::Coalesced });
    }

    fn count_refusal(&self, error: &CacheError<E>) {
        let backing_off = matches!(error, CacheError::BackingOff { .. });
        self.count(if backing_off { Counter::BackingOff } else { Counter::Overloaded });
    }

    fn hit(&self, value: Option<Value>) -> Lookup {
        self.count(if value.is_some() { Counter::Hits } else { Counter::NegativeHits });
        Lookup { value, served: Served::Hit }
    }

    fn find(&self, key: &str) -> Found {
        self.store.find(&self.name, key, self.now(), nanos(longest_load(&self.policy)))
    }

    fn turn(&self, key: &str, stamps: &[Stamp]) -> Turn<E> {
        let now = self.now();
        let ask = Ask { key, policy: &self.policy, now };
        let table = &self.store.stamps;
        self.flights.turn(
            &ask,
            |marks| table.is_current(marks),
            || table.read(stamps),
            || self.store.has_live(&self.name, key, now),
        )
    }

    fn leader(self: &Arc<Self>, key: &str, flight: Arc<Flight<E>>) -> Leader<E> {
        Leader { shared: Arc::downgrade(self), key: key.into(), flight }
    }

    /// The old value if there is one and it may be served, else the error.
    fn stale_or(
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
    async fn wait(
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
            Err(_elapsed) => Some(Err(CacheError::TimedOut { after: longest_load(&self.policy) })),
        };
        match (outcome, stale) {
            (Some(Err(error)), stale) => match self.stale_or(stale, error) {
                Ok(lookup) => Waited::Stale(lookup),
                Err(error) => Waited::Done(Err(error)),
            },
            (Some(outcome), _) => Waited::Done(outcome),
            (None, _) => Waited::Lost,
        }
    }

    /// Enters what a load brought, unless a write came between or it is too heavy.
    pub(crate) fn fill(&self, key: &str, marks: &Marks, value: Option<Value>) {
        let Policy { soft_ttl, hard_ttl, negative_ttl, jitter, refresh_ahead, .. } = self.policy;
        let (soft_ttl, hard_ttl) =
            if value.is_some() { (soft_ttl, hard_ttl) } else { (negative_ttl, negative_ttl) };
        if soft_ttl.is_zero() {
            return;
        }
        let weight = entry_weight(key, value.as_ref());
        if weight > self.policy.max_entry_bytes.min(self.store.capacity()) {
            return self.count(Counter::RefusedBySize);
        }
        let now = self.now();
        // One draw for both, so that the hard expiry stays behind the soft one.
        let share = 1.0 - jitter * fastrand::f64();
        let soft = soft_ttl.mul_f64(share);
        let refresh = refresh_ahead.filter(|_| value.is_some()).map(|part| soft.mul_f64(part));
        let entry = Entry {
            hash: self.store.hash(&self.name, key),
            name: Arc::clone(&self.name),
            key: key.into(),
            value,
            marks: *marks,
            soft_expiry: now.saturating_add(nanos(soft)),
            hard_expiry: now.saturating_add(nanos(hard_ttl.mul_f64(share))),
            refresh_at: AtomicU64::new(
                refresh.map_or(u64::MAX, |after| now.saturating_add(nanos(after))),
            ),
            weight,
        };
        match self.store.insert(entry, now) {
            Ok(()) => {}
            Err(Refused::Vetoed) => self.count(Counter::Vetoed),
            Err(Refused::NoRoom) => self.count(Counter::RefusedByCapacity),
        }
    }

    /// Notes that a load failed, so that the loader is left in peace for a while. Having had no
    /// turn is not the loader's failure.
    pub(crate) fn note_failure(&self, key: &str, error: &CacheError<E>) {
        if matches!(error, CacheError::Overloaded { .. } | CacheError::Abandoned) {
            return;
        }
        self.count(Counter::LoadErrors);
        let ask = Ask { key, policy: &self.policy, now: self.now() };
        let until = self.flights.failed(&ask, error.clone());
        self.store.postpone_refresh(&self.name, key, until);
    }

    /// What a service without a cache does.
    async fn load_uncached<F, Fut>(&self, loader: F) -> Result<Lookup, CacheError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Loaded, E>>,
    {
        self.count(Counter::Misses);
        self.count(Counter::Loads);
        match loader().await {
            Ok(Loaded::Store(value)) => Ok(answer(Filled::Value(value), Served::Miss)),
            Ok(Loaded::Bypass(value)) => Ok(answer(Filled::Bypass(value), Served::Miss)),
            Ok(Loaded::Absent) => Ok(answer(Filled::Absent, Served::Miss)),
            Err(error) => {
                self.count(Counter::LoadErrors);
                Err(CacheError::Load(Arc::new(error)))
            }
        }
    }
}

impl<E: Send + Sync + 'static> Shared<E> {
    fn spawn<F, Fut>(&self, sender: Sender<E>, leader: Leader<E>, loader: F)
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
    fn refresh<F, Fut>(self: &Arc<Self>, key: &str, stamps: &[Stamp], loader: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded, E>> + Send + 'static,
    {
        if self.permits.available_permits() == 0 {
            return;
        }
        if let Turn::Lead(flight, sender) = self.turn_to_refresh(key, stamps) {
            self.count(Counter::Refreshes);
            let leader = self.leader(key, flight);
            self.spawn(sender, leader, loader);
        }
    }

    fn turn_to_refresh(&self, key: &str, stamps: &[Stamp]) -> Turn<E> {
        let ask = Ask { key, policy: &self.policy, now: self.now() };
        let table = &self.store.stamps;
        self.flights.turn(&ask, |marks| table.is_current(marks), || table.read(stamps), || false)
    }
}

impl<E> Drop for Shared<E> {
    fn drop(&mut self) {
        self.flights.abort_all();
    }
}
