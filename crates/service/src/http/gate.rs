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
//! cannot be called back (a write, [`Gate::run`]; reading an upload; a load for the cache) still uses the machine
//! after its client has left. A single short statement of a read is not worth a task of its own: when its client leaves
//! before it has begun the store skips it, and otherwise it is over in a moment, beyond the gate but
//! never on more connections than the store has. Such reads hold a permit of [`Gate::enter`].
//!
//! **Waiting.** Addresses take turns (`gate/line.rs`), each first come, first served; bounded in number and in
//! time. When too many wait, the address with the longest queue loses its newest request. A burst may wait for
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
    /// The address that its requests are for, when the task that enters does not know it.
    client: Client,
    limit: Option<Arc<ClassLimit>>,
}

#[derive(Debug)]
struct Inner {
    places: Mutex<Places>,
    most: usize,
    queue_time: Duration,
    started: Instant,
    /// When the queue was last empty before somebody joined it, in nanoseconds since `started`.
    empty_at: AtomicU64,
    shed_full: AtomicU64,
    shed_late: AtomicU64,
    waits: Histogram,
}

/// Whoever waits learns that its turn has come, or that another has displaced it.
type Turn = oneshot::Sender<Result<Permit, ShedReason>>;

#[derive(Debug)]
struct Places {
    /// Greater than zero only while nobody waits.
    free: usize,
    line: Line<Turn>,
}

/// A place among the work in progress, until it is dropped.
#[derive(Debug)]
#[must_use = "the work is in progress as long as the permit lives"]
pub struct Permit {
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
        // If the waiter leaves at this very moment, the permit is dropped unread and goes to the next.
        let _ = turn.send(Ok(Permit { gate: Arc::clone(&self.gate) }));
    }
}

/// There is more work than can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match reason {
    ShedReason::Full => "the queue is full",
    ShedReason::Late => "the wait exceeds the queue time",
    ShedReason::Rate => "the client asks too often",
})]
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
    /// The client's own rate.
    Rate,
}

/// Why work was not done, or is not known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRun {
    /// It had no turn: nothing was begun.
    #[error(transparent)]
    Shed(#[from] Shed),
    /// Its task was ended with its event loop: what became of it is unknown.
    #[error("the work was abandoned; its outcome is unknown")]
    Abandoned,
}

/// What a gate has seen.
#[derive(Clone, Debug)]
pub struct GateMetrics {
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
        let places = Mutex::new(Places { free: most, line: Line::default() });
        let (started, waits) = (Instant::now(), Histogram::new(BUCKETS));
        let (empty_at, shed_full, shed_late) = Default::default();
        let inner =
            Inner { places, most, queue_time, started, empty_at, shed_full, shed_late, waits };
        Self { inner: Arc::new(inner), client: None, limit: None }
    }

    /// The same gate, for requests that have a rate limit.
    #[must_use]
    pub(crate) fn limited_by(self, limit: Option<Arc<ClassLimit>>) -> Self {
        Self { limit, ..self }
    }

    /// The same gate, for work that this request starts in another task.
    #[must_use]
    pub fn for_current_client(&self) -> Gate {
        Gate { client: self.asking(), ..self.clone() }
    }

    fn asking(&self) -> Client {
        self.client.or_else(current::client)
    }

    /// Counts the current request against its client's rate limit. [`enter`](Self::enter) and
    /// [`run`](Self::run) do so; loads do not, for one load answers many clients, and each of them counts for itself
    /// before it waits for one.
    pub async fn take_token(&self) -> Result<(), Shed> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let taken = limit.take().await;
        taken.map_err(|seconds| Shed { reason: ShedReason::Rate, retry_after_seconds: seconds })
    }

    /// Requests that were one too many for their client's rate limit, if there is one.
    pub(crate) fn over_rate(&self) -> Option<u64> {
        self.limit.as_ref().map(|limit| limit.refused())
    }

    /// Counts the request, and waits for a turn.
    ///
    /// # Errors
    /// When it is one too many, when too many wait, or it takes too long.
    pub async fn enter(&self) -> Result<Permit, Shed> {
        self.take_token().await?;
        self.turn().await
    }

    async fn turn(&self) -> Result<Permit, Shed> {
        let gate = &self.inner;
        let arrived = Instant::now();
        let waiter = match gate.arrive(self.asking(), arrived) {
            Arrival::Permit(permit) => {
                gate.waits.observe(0.0);
                return Ok(permit);
            }
            Arrival::Full => return Err(gate.shed(ShedReason::Full)),
            Arrival::Waiter(waiter) => waiter,
        };
        let _time = current::time(Part::Queue);
        match tokio::time::timeout(gate.patience(arrived), waiter.turn()).await {
            Ok(Ok(permit)) => {
                gate.waits.observe(arrived.elapsed().as_secs_f64());
                Ok(permit)
            }
            Ok(Err(reason)) => Err(gate.shed(reason)),
            Err(_) => Err(gate.shed(ShedReason::Late)),
        }
    }

    /// Does a write, which must not be broken off between its commit and what belongs after it: once it has
    /// its turn it runs to its end in a task of its own, permit in hand, even when the client leaves. So a
    /// request that is given up meanwhile is one whose outcome is unknown.
    ///
    /// # Errors
    /// When it has no turn, or when its task is ended with its event loop: what became of it is unknown
    /// then.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, NotRun>> {
        // Boxed before it is handed from future to future: each would copy all of it.
        let work = Box::pin(work);
        async move {
            let permit = self.enter().await?;
            let begun = handover::hand_over();
            let work = run_to_end(async move {
                let done = work.await;
                // What it has handed over counts for itself.
                begun.undone();
                drop(permit);
                done
            });
            work.await.ok_or(NotRun::Abandoned)
        }
    }

    /// Runs the loader of a cache's entry. Only loads pass the gate, so those who wait for a load that is
    /// under way take up no place, and a load that had no turn is not taken for a failed one.
    pub async fn load<E>(
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

    /// Most that can be in progress and waiting together.
    pub fn capacity(&self) -> usize {
        self.inner.most + MOST_WAITING
    }

    /// What it has seen so far.
    pub fn metrics(&self) -> GateMetrics {
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

/// What becomes of a request that arrives.
enum Arrival<'a> {
    Permit(Permit),
    Waiter(Waiter<'a>),
    /// Too many wait, and no address has more of them than this one.
    Full,
}

impl Inner {
    fn arrive(self: &Arc<Self>, client: Client, now: Instant) -> Arrival<'_> {
        let mut places = self.places.lock();
        if places.free > 0 {
            places.free -= 1;
            return Arrival::Permit(Permit { gate: Arc::clone(self) });
        }
        match places.line.len() {
            // Nobody waited until now: whatever was before, this is no standing queue.
            0 => self.note_empty(now),
            MOST_WAITING.. => match places.line.displace(client) {
                Some(displaced) => drop(displaced.send(Err(ShedReason::Full))),
                None => return Arrival::Full,
            },
            _ => {}
        }
        let (turn, comes) = oneshot::channel();
        let ticket = places.line.join(client, turn);
        Arrival::Waiter(Waiter { gate: self, client, ticket, comes })
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

/// A request in the line; it leaves the line however its wait ends.
struct Waiter<'a> {
    gate: &'a Inner,
    client: Client,
    ticket: u64,
    comes: oneshot::Receiver<Result<Permit, ShedReason>>,
}

impl Waiter<'_> {
    async fn turn(mut self) -> Result<Permit, ShedReason> {
        // The sender is dropped unused only together with the gate.
        (&mut self.comes).await.unwrap_or(Err(ShedReason::Late))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.gate.places.lock().line.leave(self.client, self.ticket);
    }
}

/// Runs work in a task of its own: a client that leaves does not stop it half-way. Nothing when the
/// task was ended with its event loop; what became of the work is unknown then.
///
/// A panic of the work goes on in the caller, where the edge answers it.
pub async fn run_to_end<T: Send + 'static>(
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
