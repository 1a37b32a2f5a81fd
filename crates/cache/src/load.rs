//! One run of a loader, in a task of its own.
//!
//! The caller who started it may go away (a client that hangs up); the task does not. It holds
//! the named part of the cache only weakly: when its last handle is dropped, loads are aborted,
//! and none keeps the cache alive.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Weak},
};

use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use crate::{
    error::CacheError,
    flight::{Filled, Flight, Outcome, Sender},
    named::Loaded,
    shared::Shared,
};

/// Whoever holds it owes the flight an end; dropping it pays (the task ended, panicked outside of
/// the loader, was aborted, or went down with its runtime).
pub(crate) struct Leader<E> {
    pub(crate) shared: Weak<Shared<E>>,
    pub(crate) key: Box<str>,
    pub(crate) flight: Arc<Flight<E>>,
}

impl<E> Drop for Leader<E> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.flights.end(&self.key, &self.flight);
        }
    }
}

/// Runs a load to its end and tells everybody who waits. `permit` is there when one was free at
/// once; otherwise the load waits for its turn.
///
/// When the task is dropped on the way, `sender` is dropped after `leader`: the flight has left
/// the table before the waiters learn that they have to look for another.
pub(crate) async fn run<E, F, Fut>(
    sender: Sender<E>,
    leader: Leader<E>,
    permit: Option<OwnedSemaphorePermit>,
    loader: F,
) where
    E: Send + Sync + 'static,
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<Loaded, E>> + Send + 'static,
{
    let outcome = match turn_and_load(&leader, permit, loader).await {
        Ok((loaded, begun)) => settle(&leader, loaded, begun),
        Err(error) => fail(&leader, error),
    };
    // Ended before told: who arrives after the answer is out finds the entry, or loads anew.
    drop(leader);
    let _ = sender.send(Some(outcome));
}

/// What the loader brings, and when it began by the cache's clock.
async fn turn_and_load<E, F, Fut>(
    leader: &Leader<E>,
    permit: Option<OwnedSemaphorePermit>,
    loader: F,
) -> Result<(Loaded, u64), CacheError<E>>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<Loaded, E>>,
{
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
        shared.count_load();
        shared.now()
    });
    match timeout(after, catch(loader)).await {
        Ok(Some(Ok(loaded))) => Ok((loaded, begun)),
        Ok(Some(Err(error))) => Err(CacheError::Load(Arc::new(error))),
        Ok(None) => Err(CacheError::Panicked),
        Err(_) => Err(CacheError::TimedOut { after }),
    }
}

/// Runs the loader; `None` when it panicked. The panic hook has reported it by then, and the
/// loader's state is dropped unseen, so nothing broken is observed.
async fn catch<T, F, Fut>(loader: F) -> Option<T>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = T>,
{
    let future = catch_unwind(AssertUnwindSafe(loader)).ok()?;
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => std::task::Poll::Ready(None),
    })
    .await
}

fn settle<E>(leader: &Leader<E>, loaded: Loaded, begun: u64) -> Outcome<E> {
    let shared = leader.shared.upgrade();
    if let Some(shared) = &shared
        && !matches!(loaded, Loaded::NoTurn { .. } | Loaded::Overloaded { .. })
    {
        shared.flights.succeeded(&leader.key);
    }
    let fill = |value| {
        if let Some(shared) = &shared {
            shared.fill(&leader.key, &leader.flight.marks, value, begun);
        }
    };
    Ok(match loaded {
        Loaded::Store(value) => {
            fill(Some(value.clone()));
            Filled::Value(value)
        }
        Loaded::Absent => {
            fill(None);
            Filled::Absent
        }
        Loaded::Bypass(value) => {
            if let Some(shared) = &shared {
                shared.count_bypass();
                shared.lend(&leader.key, &leader.flight.marks, &value, begun);
                shared.forget(&leader.key, &leader.flight.marks);
            }
            Filled::Bypass(value)
        }
        Loaded::NoTurn { retry_after } => {
            return fail(leader, CacheError::NoTurn { retry_after });
        }
        Loaded::Overloaded { retry_after } => {
            return fail(leader, CacheError::Overloaded { retry_after });
        }
    })
}

fn fail<E>(leader: &Leader<E>, error: CacheError<E>) -> Outcome<E> {
    if let Some(shared) = leader.shared.upgrade() {
        shared.note_failure(&leader.key, &error);
    }
    Err(error)
}
