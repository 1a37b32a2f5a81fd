//! A named part of the cache, and the look-up itself.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::CacheError;
use crate::flight::FlightRole;
use crate::load::{Asks, Loader};
use crate::metrics::{Counter, MetricsSnapshot};
use crate::policy::Policy;
use crate::remote;
use crate::shared::{Shared, Waited, answer};
use crate::stamp::{MAX_STAMPS, Stamp};
use crate::store::StoredEntry;
use crate::value::Value;

/// Result of a loader.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// Serve it and store it.
    Store(Value),
    /// Serve it, also to callers that waited for the same key, and do not store it.
    Bypass(Value),
    /// There is no such thing; cached for the policy's `negative_ttl`.
    Absent,
    /// The caller of this loader had no turn. Callers that waited for it run their own loaders. It is not counted as
    /// a failure of the key.
    NoTurn {
        /// Time until a retry makes sense.
        retry_after: Duration,
    },
    /// A limit of the loader itself was reached: all callers get the error of too many loads. It is not counted as a
    /// failure of the key.
    Overloaded {
        /// Time until a retry makes sense.
        retry_after: Duration,
    },
}

/// Source of the answer to a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Served {
    /// A live entry.
    Hit,
    /// A load that this look-up began.
    Miss,
    /// A load that another look-up began and whose value is awaited or held by somebody.
    Coalesced,
    /// An entry past its soft expiry, because a load failed, was refused, or took too long.
    Stale,
    /// A load that this look-up began, whose result is not to be stored.
    Bypass,
}

/// The answer to a look-up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lookup {
    /// The value; `None`: there is no such thing.
    pub value: Option<Value>,
    /// Its source.
    pub served: Served,
}

/// A named part of a [`Cache`](crate::Cache) with its own policy and metrics. `E` is the error of its
/// loaders. Cheap to clone; when the last clone is dropped, its loads in flight are aborted.
pub struct NamedCache<E> {
    pub(crate) shared: Arc<Shared<E>>,
}

impl<E> Clone for NamedCache<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<E> fmt::Debug for NamedCache<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedCache").field("name", &self.shared.name()).finish_non_exhaustive()
    }
}

impl<E> NamedCache<E> {
    /// Its name in the metrics, unique in the cache.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Its policy, fixed at creation.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Its metrics so far.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.shared.name.metrics.snapshot()
    }

    /// The value of a live entry: the fast path of [`get`], without building a loader.
    ///
    /// `None` means "call `get`": there is no entry, or it is negative, expired, dead, or due for a
    /// refresh. Only `Some` is counted (as a hit).
    ///
    /// [`get`]: Self::get
    pub fn peek_fresh(&self, key: &str) -> Option<Value> {
        if self.shared.policy.enabled { self.shared.fresh(key) } else { None }
    }
}

impl<E: Send + Sync + 'static> NamedCache<E> {
    /// Looks `key` up, and runs `loader` when there is no live entry.
    ///
    /// `stamps` (one to four) name the state the value depends on. The same key must always come with the same
    /// stamps: a hit is checked against those the entry was stored with. The loader runs at most once, in its own
    /// task on the caller's runtime. If another caller is loading the key, that outcome is shared, unless that load
    /// had [no turn](Loaded::NoTurn): its caller may have to wait longer than this one, whose own loader then runs.
    /// Dropping this future does not cancel the loader. Its result must be at least as new as the moment it was
    /// called.
    ///
    /// The answer is never older than the last write on its stamps that had finished when `get` was called.
    ///
    /// # Errors
    /// [`CacheError`], where there is no answer and no old one may be served. It takes no longer than
    /// `queue_timeout` + `load_timeout` + 100 ms.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers, when a load has to begin.
    pub async fn get<Fut: Future<Output = Result<Loaded, E>> + Send + 'static>(
        &self,
        key: &str,
        stamps: &[Stamp],
        loader: impl FnOnce() -> Fut + Send + 'static,
    ) -> Result<Lookup, CacheError<E>> {
        if let Some(value) = self.peek_fresh(key) {
            return Ok(Lookup { value: Some(value), served: Served::Hit });
        }
        if !(1..=MAX_STAMPS).contains(&stamps.len()) {
            return Err(CacheError::StampCount { given: stamps.len() });
        }
        if !self.shared.policy.enabled {
            return self.shared.load_uncached(loader).await;
        }
        let asks = match self.shared.remote_alone() {
            // A hit there needs no task: a load would cost more than the call.
            Some(remote) => match remote.find_once(self.name(), key, stamps).await {
                remote::SharedEntry::Body(value, _) => {
                    self.shared.count_turn(Served::Miss);
                    self.shared.count(Counter::RemoteHits);
                    return Ok(Lookup { value: Some(value), served: Served::Miss });
                }
                found => Asks::Has(found),
            },
            None => Asks::Yes,
        };
        self.get_slow(key, stamps, asks, Box::new(move || Box::pin(loader()))).await
    }

    async fn get_slow(
        &self,
        key: &str,
        stamps: &[Stamp],
        asks: Asks,
        loader: Loader<E>,
    ) -> Result<Lookup, CacheError<E>> {
        let shared = &self.shared;
        let deadline = Instant::now() + shared.longest();
        let mut own = Some((loader, asks));
        // Set when the load that this caller joined had no turn.
        let mut turned_away = false;
        loop {
            let stale = match shared.find(key) {
                StoredEntry::Fresh { value, refresh } => {
                    if refresh && let Some((loader, _)) = own.take() {
                        shared.refresh(key, stamps, loader);
                    }
                    return Ok(shared.hit(value));
                }
                StoredEntry::Soft(stale) => Some(stale),
                StoredEntry::Nothing => None,
            };
            let (receiver, served) = match shared.role(key, stamps, false) {
                FlightRole::Again => continue,
                FlightRole::Borrow(value) => {
                    shared.count_turn(Served::Coalesced);
                    return Ok(Lookup { value: Some(value), served: Served::Coalesced });
                }
                FlightRole::Refused(error) => {
                    shared.count_refusal(&error);
                    return shared.stale_or(stale, error);
                }
                // Not again: the leader's queue may be long, and it is not this caller's.
                FlightRole::Join(_) if turned_away && let Some((loader, _)) = own.take() => {
                    let Ok(_permit) = shared.permits.try_acquire() else {
                        let retry_after = shared.policy.queue_timeout;
                        return shared.stale_or(stale, CacheError::Overloaded { retry_after });
                    };
                    return shared.load_uncached(loader).await;
                }
                FlightRole::Join(receiver) => (receiver, Served::Coalesced),
                FlightRole::Lead(flight, sender) => {
                    let receiver = flight.receiver.clone();
                    // Only a leader consumes its loader, and a leader never loops.
                    let Some((loader, asks)) = own.take() else {
                        return Err(CacheError::Abandoned);
                    };
                    let leader = shared.leader(key, flight, stamps, asks);
                    shared.spawn(sender, leader, loader);
                    (receiver, Served::Miss)
                }
            };
            shared.count_turn(served);
            match shared.wait(receiver, stale, deadline).await {
                Waited::Done(Err(CacheError::NoTurn { .. }))
                    if served == Served::Coalesced && !turned_away =>
                {
                    turned_away = true;
                }
                Waited::Done(outcome) => return outcome.map(|filled| answer(filled, served)),
                Waited::Stale(lookup) => return Ok(lookup),
                // The load was lost with the runtime of its caller: retry with this caller's loader, unless it was
                // this caller's.
                Waited::Lost(stale) if served == Served::Miss => {
                    return shared.stale_or(stale, CacheError::Abandoned);
                }
                Waited::Lost(_) => {}
            }
        }
    }
}
