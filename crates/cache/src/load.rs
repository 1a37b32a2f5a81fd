//! One run of a loader, in its own task.
//!
//! The task outlives its caller (a client that hangs up). It holds the named part of the cache only weakly: when the
//! last handle is dropped, loads are aborted, and none keeps the cache alive.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::clock::nanos;
use crate::error::CacheError;
use crate::flight::{Filled, Flight, LoadOutcome, Sender};
use crate::metrics::Counter;
use crate::named::Loaded;
use crate::remote::{Remote, SharedEntry};
use crate::shared::{Age, Shared};
use crate::stamp::Stamp;

/// A caller's loader, of one type for all callers: one allocation more is nothing beside a load.
pub(crate) type Loader<E> = Box<dyn FnOnce() -> Loading<E> + Send>;
type Loading<E> = Pin<Box<dyn Future<Output = Result<Loaded, E>> + Send>>;

/// Leads a flight and ends it on drop, whether its task ended, panicked outside of the loader, was aborted, or was
/// lost with its runtime.
pub(crate) struct Leader<E> {
    pub(crate) shared: Weak<Shared<E>>,
    pub(crate) key: Box<str>,
    pub(crate) flight: Arc<Flight<E>>,
    pub(crate) stamps: Box<[Stamp]>,
    pub(crate) asks: Asks,
}

/// Whether a load looks into the shared tier first.
pub(crate) enum Asks {
    /// No: a value there would be as old as the one here.
    Never,
    Yes,
    /// It has done so, with this result.
    Has(SharedEntry),
}

impl<E> Drop for Leader<E> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.end_flight(&self.key, &self.flight);
        }
    }
}

/// Runs a load to its end and answers all who wait. Without a `permit` the load waits for its turn.
///
/// If the task is dropped meanwhile, `sender` is dropped after `leader`: the flight has left the table before the
/// waiters see that they need another.
pub(crate) async fn run<E: Send + Sync + 'static>(
    sender: Sender<E>,
    mut leader: Leader<E>,
    permit: Option<OwnedSemaphorePermit>,
    loader: Loader<E>,
) {
    let remote = leader.shared.upgrade().and_then(|shared| shared.remote.clone());
    let mut own = OwnLoad::default();
    if let Some(remote) = &remote {
        match ask(&mut leader, remote).await {
            Ok(filled) => {
                drop(leader);
                let _ = sender.send(Some(Ok(filled)));
                return;
            }
            Err(load) => own = load,
        }
    }
    let outcome = turn_and_load(&leader, permit, loader).await;
    let marks = &leader.flight.marks;
    let shared = leader.shared.upgrade().filter(|shared| {
        let may_share = shared.settle(&leader.key, marks, &outcome);
        // A write that came between has invalidated the value; nobody would use it.
        may_share && shared.store.stamps.is_current(marks)
    });
    let key = leader.key.clone();
    // Ended before the answer is sent: a caller that arrives after it finds the entry, or loads again.
    drop(leader);
    let value = match &outcome {
        Ok((Filled::Value(value), _)) => Some(value.clone()),
        _ => None,
    };
    let _ = sender.send(Some(outcome.map(|(filled, _)| filled)));
    let Some(remote) = remote else { return };
    if let (Some(label), Some(shared), Some(value)) = (own.label, shared, value)
        && remote.keep(shared.name(), &key, &label, &value, shared.policy.soft_ttl).await
    {
        shared.count(Counter::RemoteStored);
    }
    if let Some(name) = own.claimed {
        remote.unclaim(&name, &key).await;
    }
}

/// A load that this process has to do.
#[derive(Default)]
struct OwnLoad {
    /// `None`: its result may not be shared.
    label: Option<Vec<u8>>,
    /// The name under which its key is claimed.
    claimed: Option<String>,
}

/// Looks into the shared tier; without a usable body there, this process has to load.
async fn ask<E>(leader: &mut Leader<E>, remote: &Remote) -> Result<Filled, OwnLoad> {
    let Some(name) = leader.shared.upgrade().map(|shared| shared.name().to_owned()) else {
        return Err(OwnLoad::default());
    };
    let mut found = match std::mem::replace(&mut leader.asks, Asks::Never) {
        Asks::Never => return Err(OwnLoad { label: remote.label(), claimed: None }),
        Asks::Yes => remote.find(&name, &leader.key, &leader.stamps).await,
        Asks::Has(found) => found,
    };
    let mut claimed = None;
    if matches!(found, SharedEntry::Nothing | SharedEntry::Outdated) {
        claimed = remote.claim(&name, &leader.key).await;
        if claimed == Some(false) {
            found = remote.find_soon(&name, &leader.key, &leader.stamps).await;
        }
    }
    let claimed = (claimed == Some(true)).then_some(name);
    let Some(shared) = leader.shared.upgrade() else { return Err(OwnLoad::default()) };
    shared.count(match found {
        SharedEntry::Body(..) => Counter::RemoteHits,
        SharedEntry::Nothing => Counter::RemoteMisses,
        SharedEntry::Outdated => Counter::RemoteOutdated,
        SharedEntry::Failed => Counter::RemoteFailed,
        SharedEntry::Skipped => Counter::RemoteSkipped,
    });
    let SharedEntry::Body(value, left) = found else {
        return Err(OwnLoad { label: remote.label(), claimed });
    };
    let lived = nanos(shared.policy.soft_ttl.saturating_sub(left));
    let age = Age { begun: shared.now(), lived };
    shared.fill(&leader.key, &leader.flight.marks, Some(value.clone()), age);
    shared.succeeded(&leader.key);
    Ok(Filled::Value(value))
}

/// Waits for a turn and runs the loader; returns its result and its start by the cache's clock.
async fn turn_and_load<E>(
    leader: &Leader<E>,
    permit: Option<OwnedSemaphorePermit>,
    loader: Loader<E>,
) -> Result<(Filled, u64), CacheError<E>> {
    let Some(shared) = leader.shared.upgrade() else { return Err(CacheError::Abandoned) };
    let (queue_timeout, after) = (shared.policy.queue_timeout, shared.policy.load_timeout);
    let permits = Arc::clone(&shared.permits);
    drop(shared);
    let _permit = match permit {
        Some(permit) => permit,
        None => match timeout(queue_timeout, permits.acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            _ => return Err(CacheError::Overloaded { retry_after: queue_timeout }),
        },
    };
    let begun = leader.shared.upgrade().map_or(0, |shared| {
        shared.count(Counter::Loads);
        shared.now()
    });
    match timeout(after, catch(loader)).await {
        Ok(Some(answer)) => Ok((filled(answer)?, begun)),
        Ok(None) => Err(CacheError::Panicked),
        Err(_) => Err(CacheError::TimedOut { after }),
    }
}

/// Runs the loader; `None` if it panicked. The panic hook has reported it, and the loader's state is dropped without
/// being observed.
async fn catch<T, Fut: Future<Output = T>>(loader: impl FnOnce() -> Fut) -> Option<T> {
    let future = catch_unwind(AssertUnwindSafe(loader)).ok()?;
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => std::task::Poll::Ready(None),
    })
    .await
}

/// The outcome of a load from the result of its loader.
pub(crate) fn filled<E>(answer: Result<Loaded, E>) -> LoadOutcome<E> {
    match answer {
        Ok(Loaded::Store(value)) => Ok(Filled::Value(value)),
        Ok(Loaded::Bypass(value)) => Ok(Filled::Bypass(value)),
        Ok(Loaded::Absent) => Ok(Filled::Absent),
        Ok(Loaded::NoTurn { retry_after }) => Err(CacheError::NoTurn { retry_after }),
        Ok(Loaded::Overloaded { retry_after }) => Err(CacheError::Overloaded { retry_after }),
        Err(error) => Err(CacheError::Load(Arc::new(error))),
    }
}
