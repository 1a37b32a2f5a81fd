//! Gates: how much work may be in progress, and how long more of it may wait.
//!
//! What a cached read costs is nothing to speak of; what costs something passes a gate first, so that
//! more work than the machine can do turns into quick refusals instead of ever longer waits for all.
//! There are two: one for reads that are not in the cache, one for writes, so that a stuck disk does not
//! stop reading, nor heavy reads the writing. Cached reads, 304s, health and metrics pass none. Neither
//! do sign-up and log-in: their work waits for the hash pool, which is a gate of its own, and its seconds
//! would take up every place here.
//!
//! **In progress.** A permit is held until the work is done, not only while its client waits: work that
//! cannot be called back ([`Gate::run`], a load for the cache) still uses the machine after its client
//! has left. A single short statement of a read is not worth a task of its own: when its client leaves
//! before it has begun the store skips it, and otherwise it is over in a moment, beyond the gate but
//! never on more connections than the store has. Such reads hold a permit of [`Gate::enter`].
//!
//! **Waiting.** First come, first served, and bounded in number and in time. A burst may wait for
//! [`BURST`] times `server.queue_time`. But when the queue has not been empty once within [`INTERVAL`],
//! it is standing, not a burst: more comes than can be done, waiting does not help, and whoever comes
//! from then on waits for `queue_time` at most. The sign and its use are those of B. Maurer, "Fail at
//! Scale" (ACM Queue 13:8, 2015), after CoDel (Nichols and Jacobson 2012, RFC 8289). CoDel's own sign,
//! the shortest wait of the interval, does not do here: once all waits are cut at `queue_time` every
//! turn is a quick one, and the bound would lift itself under the load it was made for. Newest first,
//! which Maurer proposes too, is not done: with waits this short it would win little, and the oldest,
//! whose clients have paid most, would always lose.
//!
//! Refusals are 503 with a `Retry-After` that varies, so that those refused together do not come back
//! together.

use super::Problem;
use crate::store::handover;
use madang_cache::Loaded;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Within which time the queue of a burst is empty once: Maurer's 100 ms, long enough for it to drain.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// A burst may wait so many times as long as a standing queue.
pub const BURST: u32 = 10;

/// Waiters beyond those in progress. Each is a connection with its request, some 10 KiB; a thousand of
/// them is a second's work, and more than that would not be served in time.
pub const MOST_WAITING: usize = 1024;

/// Seconds after which the refused may come back, drawn evenly.
const RETRY_AFTER_SECONDS: std::ops::RangeInclusive<u32> = 1..=3;

/// Bounds of the queue time histogram, in seconds.
const BUCKETS: [f64; 7] = [0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0];

/// A bound on work in progress. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    permits: Arc<Semaphore>,
    most: usize,
    queue_time: Duration,
    waiting: AtomicUsize,
    started: Instant,
    /// When the queue was last empty before somebody joined it, in nanoseconds since `started`.
    empty_at: AtomicU64,
    shed_full: AtomicU64,
    shed_late: AtomicU64,
    waits: Histogram,
}

/// A place among the work in progress, until it is dropped.
#[derive(Debug)]
#[must_use = "the work is in progress as long as the permit lives"]
pub struct Permit {
    _permit: OwnedSemaphorePermit,
}

/// There is more work than can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match reason { ShedReason::Full => "too many requests wait already", ShedReason::Late => "no turn within the queue time" })]
pub struct Shed {
    /// What was exceeded.
    pub reason: ShedReason,
    /// When asking again makes sense, in seconds.
    pub retry_after_seconds: u32,
}

/// What was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// The number of waiters.
    Full,
    /// The time that may be waited.
    Late,
}

/// Why work was not done, or is not known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRun {
    /// It had no turn: nothing was begun.
    #[error(transparent)]
    Shed(#[from] Shed),
    /// Its task was ended with its event loop: what became of it is unknown.
    #[error("the work was abandoned: its outcome is unknown")]
    Abandoned,
}

/// What a gate has seen.
#[derive(Clone, Debug)]
pub struct GateFigures {
    /// Work in progress now.
    pub in_flight: usize,
    /// Requests waiting now.
    pub waiting: usize,
    /// Refused because too many waited.
    pub shed_full: u64,
    /// Refused because they had waited long enough.
    pub shed_late: u64,
    /// How long those waited that got a turn, in seconds.
    pub waits: Histogram,
}

impl Gate {
    /// Lets `most` in at once, and others wait for `queue_time`, or [`BURST`] times as long in a burst.
    pub fn new(most: usize, queue_time: Duration) -> Self {
        let inner = Inner {
            permits: Arc::new(Semaphore::new(most)),
            most,
            queue_time,
            waiting: AtomicUsize::new(0),
            started: Instant::now(),
            empty_at: AtomicU64::new(0),
            shed_full: AtomicU64::new(0),
            shed_late: AtomicU64::new(0),
            waits: Histogram::new(BUCKETS),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// When too many wait, or it takes too long.
    pub async fn enter(&self) -> Result<Permit, Shed> {
        let gate = &*self.inner;
        let arrived = Instant::now();
        if let Ok(permit) = Arc::clone(&gate.permits).try_acquire_owned() {
            gate.waits.observe(0.0);
            return Ok(Permit { _permit: permit });
        }
        let waiter = Waiter::join(gate);
        if waiter.ahead >= MOST_WAITING {
            gate.shed_full.fetch_add(1, Relaxed);
            return Err(shed(ShedReason::Full));
        }
        if waiter.ahead == 0 {
            // Nobody waited until now: whatever was before, this is no standing queue.
            gate.note_empty(arrived);
        }
        let turn = Arc::clone(&gate.permits).acquire_owned();
        match tokio::time::timeout(gate.patience(arrived), turn).await {
            Ok(Ok(permit)) => {
                gate.waits.observe(arrived.elapsed().as_secs_f64());
                Ok(Permit { _permit: permit })
            }
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => {
                gate.shed_late.fetch_add(1, Relaxed);
                Err(shed(ShedReason::Late))
            }
        }
    }

    /// Does work that must not be broken off, such as a commit and what belongs after it: once it has
    /// its turn it runs to its end in a task of its own, permit in hand, even when the client leaves.
    ///
    /// # Errors
    /// When it has no turn, or when its task is ended with its event loop: what became of it is unknown
    /// then.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NotRun> {
        let permit = self.enter().await?;
        run_to_end(async move {
            let done = work.await;
            drop(permit);
            done
        })
        .await
        .ok_or(NotRun::Abandoned)
    }

    /// Runs the loader of a cache's entry. Only loads pass the gate, so those who wait for a load that is
    /// under way take up no place, and a load that had no turn is not taken for a failed one.
    ///
    /// # Errors
    /// Those of `load`.
    pub async fn load<E>(
        &self,
        load: impl Future<Output = Result<Loaded, E>>,
    ) -> Result<Loaded, E> {
        match self.enter().await {
            Ok(_permit) => load.await,
            Err(shed) => Ok(Loaded::NoTurn {
                retry_after: Duration::from_secs(shed.retry_after_seconds.into()),
            }),
        }
    }

    /// Most that can be in progress and waiting together.
    pub fn capacity(&self) -> usize {
        self.inner.most + MOST_WAITING
    }

    /// What it has seen so far.
    pub fn figures(&self) -> GateFigures {
        let gate = &*self.inner;
        GateFigures {
            in_flight: gate.most.saturating_sub(gate.permits.available_permits()),
            waiting: gate.waiting.load(Relaxed),
            shed_full: gate.shed_full.load(Relaxed),
            shed_late: gate.shed_late.load(Relaxed),
            waits: gate.waits.clone(),
        }
    }
}

impl Inner {
    /// How long one who comes now may wait.
    fn patience(&self, now: Instant) -> Duration {
        let empty_at = Duration::from_nanos(self.empty_at.load(Relaxed));
        let standing = now.saturating_duration_since(self.started).saturating_sub(empty_at);
        if standing > INTERVAL { self.queue_time } else { self.queue_time.saturating_mul(BURST) }
    }

    fn note_empty(&self, now: Instant) {
        let since = now.saturating_duration_since(self.started).as_nanos();
        self.empty_at.fetch_max(u64::try_from(since).unwrap_or(u64::MAX), Relaxed);
    }
}

/// Counts a waiter, however its wait ends.
struct Waiter<'a> {
    gate: &'a Inner,
    /// Those who waited before.
    ahead: usize,
}

impl<'a> Waiter<'a> {
    fn join(gate: &'a Inner) -> Self {
        Waiter { gate, ahead: gate.waiting.fetch_add(1, Relaxed) }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.gate.waiting.fetch_sub(1, Relaxed);
    }
}

fn shed(reason: ShedReason) -> Shed {
    Shed { reason, retry_after_seconds: fastrand::u32(RETRY_AFTER_SECONDS) }
}

/// Runs work in a task of its own: a client that leaves does not stop it half-way. Nothing when the
/// task was ended with its event loop; what became of the work is unknown then.
///
/// A panic of the work goes on in the caller, where the edge answers it.
pub async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    match tokio::spawn(handover::carried(work)).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_ended) => None,
        },
    }
}

impl From<Shed> for Problem {
    fn from(shed: Shed) -> Self {
        Problem::unavailable(
            "there is more to do than can be done; try again later",
            shed.retry_after_seconds,
            format!("shed: {shed}"),
        )
    }
}

impl From<NotRun> for Problem {
    fn from(error: NotRun) -> Self {
        match error {
            NotRun::Shed(shed) => shed.into(),
            NotRun::Abandoned => {
                Problem::unavailable("the server is stopping", 1, error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests;
