//! Gates: bounds on work in progress, and on the time that further work waits (docs/decisions/0008-gates.md).
//!
//! A permit is held until the work is done, even after its client has left: a write ([`Gate::run`]), an upload or a
//! load for the cache cannot be recalled. A single short statement of a read ([`Gate::enter`]) is not worth a task of
//! its own: when its client leaves before it has begun the store skips it; otherwise it ends in a moment, beyond the
//! gate, but never on more connections than the store has.
//!
//! Waiting addresses take turns (`gate/line.rs`). When too many wait, the address with the longest queue loses its
//! newest request. A burst may wait for [`BURST`] times `server.queue_time`. A queue that was not empty once within
//! [`INTERVAL`] is standing, and new requests wait for `queue_time` at most (B. Maurer, "Fail at Scale", ACM Queue
//! 13:8, 2015).
//!
//! Refusals are 503 with a random `Retry-After`, so that refused clients do not return together.

mod line;

use super::Problem;
use super::limits::ClassLimit;
use crate::current;
use crate::ops::record::Part;
use crate::store::handover;
use line::{Client, Line};
use madang_cache::Loaded;
use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Interval within which the queue of a burst is empty once: Maurer's 100 ms, long enough for it to drain.
const INTERVAL: Duration = Duration::from_millis(100);

/// Factor by which a burst may wait longer than a standing queue.
const BURST: u32 = 10;

/// Maximum number of waiters. Each is a connection with its request, some 10 KiB; a thousand are a second's work, and
/// more would not be served in time.
const MOST_WAITING: usize = 1024;

/// Range of the random `Retry-After`.
const RETRY_AFTER_SECONDS: std::ops::RangeInclusive<u32> = 1..=3;

/// Bounds of the queue time histogram, in seconds.
const BUCKETS: [f64; 7] = [0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0];

/// A bound on work in progress. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    inner: Arc<Inner>,
    /// Address of the requests, when the entering task does not know it.
    client: Client,
    limit: Option<Arc<ClassLimit>>,
}

#[derive(Debug)]
struct Inner {
    places: Mutex<Places>,
    most: usize,
    queue_time: Duration,
    shed_full: AtomicU64,
    shed_late: AtomicU64,
    waits: Histogram,
}

/// Wakes a waiter: its turn has come, or another request has displaced it.
type Turn = oneshot::Sender<Result<Permit, ShedReason>>;

#[derive(Debug)]
struct Places {
    /// Greater than zero only while nobody waits.
    free: usize,
    line: Line<Turn>,
    /// Time at which the queue was last empty before a request joined it.
    empty_at: Instant,
}

/// A place among the work in progress, until it is dropped.
#[derive(Debug)]
#[must_use = "the work is in progress as long as the permit lives"]
pub(crate) struct Permit {
    gate: Arc<Inner>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut places = self.gate.places.lock();
        let Some(turn) = places.line.next() else {
            places.free += 1;
            return;
        };
        drop(places);
        // If the waiter leaves at this moment, the permit is dropped unread and passed on.
        let _ = turn.send(Ok(Permit { gate: Arc::clone(&self.gate) }));
    }
}

/// Refusal of work because of overload, or of the client's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match reason {
    ShedReason::Full => "the queue is full",
    ShedReason::Late => "the wait exceeds the queue time",
    ShedReason::Rate => "the client asks too often",
})]
pub(crate) struct Shed {
    reason: ShedReason,
    retry_after_seconds: u32,
}

/// The exceeded bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShedReason {
    /// Number of waiters.
    Full,
    /// Time of waiting.
    Late,
    /// Rate of the client.
    Rate,
}

/// Error of [`Gate::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRun {
    /// The work was refused; nothing was begun.
    #[error(transparent)]
    Shed(#[from] Shed),
    /// The task was aborted with its event loop; the outcome is unknown.
    #[error("the work was abandoned; its outcome is unknown")]
    Abandoned,
}

#[derive(Clone, Debug)]
pub(crate) struct GateMetrics {
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    /// Refused because too many waited.
    pub(crate) shed_full: u64,
    /// Refused after the maximum wait.
    pub(crate) shed_late: u64,
    /// Waits of admitted requests, in seconds.
    pub(crate) waits: Histogram,
}

impl Gate {
    /// Admits `most` at once; others wait for `queue_time`, or [`BURST`] times as long in a burst.
    pub(crate) fn new(most: usize, queue_time: Duration) -> Self {
        let places = Places { free: most, line: Line::default(), empty_at: Instant::now() };
        let (shed_full, shed_late) = Default::default();
        let (places, waits) = (Mutex::new(places), Histogram::new(BUCKETS));
        let inner = Inner { places, most, queue_time, shed_full, shed_late, waits };
        Self { inner: Arc::new(inner), client: None, limit: None }
    }

    /// The same gate with a rate limit.
    #[must_use]
    pub(crate) fn limited_by(self, limit: Option<Arc<ClassLimit>>) -> Self {
        Self { limit, ..self }
    }

    /// The same gate, for work of the current request in another task.
    #[must_use]
    pub(crate) fn for_current_client(&self) -> Gate {
        Gate { client: self.asking(), ..self.clone() }
    }

    fn asking(&self) -> Client {
        self.client.or_else(current::client)
    }

    /// Counts the current request against its client's rate limit. [`enter`](Self::enter) and [`run`](Self::run)
    /// include it; loads do not, for one load serves many clients, each of which counts before it waits.
    pub(crate) async fn take_token(&self) -> Result<(), Shed> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let taken = limit.take().await;
        taken.map_err(|seconds| Shed { reason: ShedReason::Rate, retry_after_seconds: seconds })
    }

    /// Requests refused for their client's rate; `None` without a limit.
    pub(crate) fn over_rate(&self) -> Option<u64> {
        self.limit.as_ref().map(|limit| limit.refused())
    }

    /// Counts the request, and waits for a turn.
    pub(crate) async fn enter(&self) -> Result<Permit, Shed> {
        self.take_token().await?;
        self.turn().await
    }

    async fn turn(&self) -> Result<Permit, Shed> {
        let gate = &self.inner;
        let arrived = Instant::now();
        let waiter = match gate.arrive(self.asking(), arrived) {
            Entry::Permit(permit) => {
                gate.waits.observe(0.0);
                return Ok(permit);
            }
            Entry::Full => return Err(gate.shed(ShedReason::Full)),
            Entry::Waiter(waiter) => waiter,
        };
        let _time = current::time(Part::Queue);
        match tokio::time::timeout(waiter.patience, waiter.turn()).await {
            Ok(Ok(permit)) => {
                gate.waits.observe(arrived.elapsed().as_secs_f64());
                Ok(permit)
            }
            Ok(Err(reason)) => Err(gate.shed(reason)),
            Err(_) => Err(gate.shed(ShedReason::Late)),
        }
    }

    /// Runs a write, which must not stop between its commit and what follows it: once admitted, it runs to its end in
    /// a task of its own, permit in hand, even when the client leaves. So the outcome of a request that times out
    /// meanwhile is unknown.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, NotRun>> {
        // Boxed before it passes from future to future: each move would copy all of it.
        let work = Box::pin(work);
        async move {
            let permit = self.enter().await?;
            let begun = handover::hand_over();
            let work = run_to_end(async move {
                let done = work.await;
                // Writes it has handed over count on their own.
                begun.undone();
                drop(permit);
                done
            });
            work.await.ok_or(NotRun::Abandoned)
        }
    }

    /// Runs the loader of a cache entry. Only loads pass the gate: requests that wait for a load take no place, and a
    /// refused load does not count as a failed one.
    pub(crate) async fn load<E>(
        &self,
        load: impl Future<Output = Result<Loaded, E>>,
    ) -> Result<Loaded, E> {
        match self.turn().await {
            Ok(_permit) => load.await,
            Err(shed) => Ok(Loaded::NoTurn {
                retry_after: Duration::from_secs(shed.retry_after_seconds.into()),
            }),
        }
    }

    /// Maximum of work in progress and waiting together.
    pub(crate) fn capacity(&self) -> usize {
        self.inner.most + MOST_WAITING
    }

    pub(crate) fn metrics(&self) -> GateMetrics {
        let gate = &*self.inner;
        let (free, waiting) = {
            let places = gate.places.lock();
            (places.free, places.line.len())
        };
        GateMetrics {
            in_flight: gate.most.saturating_sub(free),
            waiting,
            shed_full: gate.shed_full.load(Relaxed),
            shed_late: gate.shed_late.load(Relaxed),
            waits: gate.waits.clone(),
        }
    }
}

/// Outcome of a request's arrival.
enum Entry<'a> {
    Permit(Permit),
    Waiter(Waiter<'a>),
    /// Too many wait, and no address has a longer queue.
    Full,
}

impl Inner {
    fn arrive(self: &Arc<Self>, client: Client, now: Instant) -> Entry<'_> {
        let mut places = self.places.lock();
        if places.free > 0 {
            places.free -= 1;
            return Entry::Permit(Permit { gate: Arc::clone(self) });
        }
        match places.line.len() {
            // No request waited until now, so this is no standing queue.
            0 => places.empty_at = places.empty_at.max(now),
            MOST_WAITING.. => match places.line.displace(client) {
                Some(displaced) => drop(displaced.send(Err(ShedReason::Full))),
                None => return Entry::Full,
            },
            _ => {}
        }
        let is_standing = now.saturating_duration_since(places.empty_at) > INTERVAL;
        let patience = self.queue_time.saturating_mul(if is_standing { 1 } else { BURST });
        let (turn, comes) = oneshot::channel();
        let ticket = places.line.join(client, turn);
        Entry::Waiter(Waiter { gate: self, client, ticket, patience, comes })
    }

    fn shed(&self, reason: ShedReason) -> Shed {
        match reason {
            ShedReason::Full => self.shed_full.fetch_add(1, Relaxed),
            ShedReason::Late => self.shed_late.fetch_add(1, Relaxed),
            // Counted by the limit.
            ShedReason::Rate => 0,
        };
        Shed { reason, retry_after_seconds: fastrand::u32(RETRY_AFTER_SECONDS) }
    }
}

/// A waiting request, which leaves the line however its wait ends.
struct Waiter<'a> {
    gate: &'a Inner,
    client: Client,
    ticket: u64,
    /// Maximum wait.
    patience: Duration,
    comes: oneshot::Receiver<Result<Permit, ShedReason>>,
}

impl Waiter<'_> {
    async fn turn(mut self) -> Result<Permit, ShedReason> {
        // The sender is dropped unused only with the gate.
        (&mut self.comes).await.unwrap_or(Err(ShedReason::Late))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.gate.places.lock().line.leave(self.client, self.ticket);
    }
}

/// Runs work in a task of its own, which a client that leaves does not stop. `None` when the task was aborted with
/// its event loop; the outcome is unknown then.
///
/// A panic of the work continues in the caller, where the edge catches it.
async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    match tokio::spawn(current::carried(work)).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_ended) => None,
        },
    }
}

impl From<Shed> for Problem {
    fn from(shed: Shed) -> Self {
        if shed.reason == ShedReason::Rate {
            let detail = "too many requests; the RateLimit header says which limit was reached";
            return Problem::too_many_requests("rate-limited", detail, shed.retry_after_seconds);
        }
        Problem::unavailable(
            "the server is overloaded; try again later",
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
