//! MariaDB: a bounded number of threads with a connection each, for reads and for writes. There is no writer thread:
//! InnoDB has its own group commit.
//!
//! A transaction that conflicts with another one (deadlock, lock timeout, failed certification), or loses its
//! connection before the commit, has done nothing. It is run again for [`RETRY_TIME`], with random pauses. One that
//! loses its connection *during* the commit may have been committed: [`StoreError::Unknown`].

mod check;
mod duty;
#[cfg(test)]
mod fixtures;
mod freshness;
mod outbox;
mod poll;
mod reach;
mod replica;
pub(crate) mod schema;
mod servers;
mod session;

pub(crate) use check::check;
pub(crate) use duty::Duty;
pub use freshness::{Freshness, now};
pub(crate) use session::{Done, Session, Use};

use super::effects::{Effects, Memory};
use super::error::JobError;
use super::sql::Conn;
use super::tx::{caught, follow};
use super::{
    Counted, Pool, ReplicaMetrics, Result, StoreError, StoreMetrics, Tx, backup, handover,
};
use crate::config::DatabaseSettings;
use crate::ops::record::micros;
use madang_cache::{Horizon, Stamp};
use madang_positions::{Reach, Timing};
use outbox::{Fate, Number, Outbox};
use poll::Poller;
use replica::Replica;
use servers::{Servers, parse};
pub(crate) use servers::{UrlError, connect};
use session::{Trouble, is_refusal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Default numbers of connections: enough for the server's group commit.
const READS: usize = 16;
const WRITES: usize = 32;
/// Time limit of repetitions of a transaction.
const RETRY_TIME: Duration = Duration::from_secs(5);
/// Time without a complete poll after which the server counts as unavailable: an idle node polls twice a second.
const SILENCE: Duration = Duration::from_secs(2);
/// Longest pause before the first repetition; it doubles with each, up to the longest of all.
const FIRST_REST: Duration = Duration::from_millis(2);
const LONGEST_REST: Duration = Duration::from_millis(100);

/// A server, as one node uses it.
pub(super) struct Maria {
    _poller: Poller,
    replicas: Vec<Replica>,
    reads: Pool<Seat>,
    writes: Pool<Seat>,
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    servers: Servers,
    memory: Arc<Memory>,
    counted: Counted,
    outbox: Outbox,
    pub(super) freshness: Arc<Freshness>,
    reach: Arc<Reach>,
    /// Identity of the database.
    pub(super) identity: i64,
}

/// The connection of a thread.
struct Seat {
    shared: Arc<Shared>,
    purpose: Use,
    session: Option<Session>,
    /// Epoch of the server of the session.
    epoch: u64,
}

impl Maria {
    pub(super) fn open(
        url: &str,
        dir: &Path,
        settings: &DatabaseSettings,
        memory: &Arc<Memory>,
    ) -> Result<Self> {
        let servers = Servers::parse(url)?;
        servers.look()?;
        let (session, _) = servers.connect(Use::Writes)?;
        let cluster = &settings.cluster;
        let keep = |version, as_file| {
            let (session, _) = servers.connect(Use::Copies)?;
            backup::before_migration_of_server(session, dir, version, as_file)
        };
        let identity = schema::prepare(&session, dir, cluster.delay, keep)?;
        let timing = Timing::new(cluster.delay);
        let freshness = Arc::new(Freshness::new(timing, cluster.poll, cluster.wait));
        let (counted, outbox) = Default::default();
        let reach = Arc::new(Reach::new(reach::BUCKETS));
        let memory = Arc::clone(memory);
        let shared =
            Arc::new(Shared { servers, memory, counted, outbox, freshness, reach, identity });
        let (reads_size, writes_size) = sizes(settings.max_connections);
        let pool = |name, purpose, size| {
            let seats = (0..size).map(|_| Seat {
                shared: Arc::clone(&shared),
                purpose,
                session: None,
                epoch: 0,
            });
            Pool::start(name, seats.collect(), settings.queue)
                .map_err(|e| StoreError::Other(format!("cannot start a thread: {e}")))
        };
        let reads = pool("store-read", Use::Reads, reads_size)?;
        let writes = pool("store-write", Use::Writes, writes_size)?;
        let replicas = settings
            .replicas
            .iter()
            .map(|url| Replica::start(url, reads_size, settings.queue, &shared))
            .collect::<Result<_, _>>()?;
        let _poller = Poller::start(&shared)
            .map_err(|e| StoreError::Other(format!("cannot start a thread: {e}")))?;
        Ok(Self { _poller, replicas, reads, writes, shared })
    }

    /// The judge of responses in a shared cache.
    pub(super) fn horizon(&self) -> Arc<dyn Horizon> {
        Arc::new(reach::ReachHorizon(Arc::clone(&self.shared.reach)))
    }

    /// Runs a read. One with stamps goes to a replica that contains what it needs, if any.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        time: Option<Duration>,
        stamps: &[Stamp],
        job: impl Fn(&Conn<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let Some(replica) = self.replica(stamps) else { return self.read_here(time, job).await };
        let job = Arc::new(job);
        match replica.read(time, &job).await {
            // It would take as long on the primary.
            found @ (Ok(_) | Err(StoreError::GivenUp(_))) => found,
            Err(error) => {
                tracing::debug!(%error, "the primary answers a read of a replica");
                self.read_here(time, move |conn: &Conn<'_>| job(conn)).await
            }
        }
    }

    async fn read_here<T, F>(&self, time: Option<Duration>, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Conn<'_>) -> Result<T> + Send + 'static,
    {
        let reads = self.reads.ask(move |seat: &mut Seat, answer| {
            seat.read(time, job, |found| drop(answer.send(found)));
        });
        reads.await?
    }

    pub(super) fn submit<T: Send + 'static, E: JobError>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        settle: impl FnOnce(Result<T, E>) + Send + 'static,
    ) -> Result<()> {
        let handed = handover::hand_over();
        let written = handed.clone();
        let taken = self.writes.hand_over(move |seat: &mut Seat| {
            let (outcome, is_unknown) = seat.write(&job);
            if outcome.is_err() && !is_unknown {
                written.undone();
            }
            settle(outcome.map(|Committed { value, effects, number }| {
                follow(|| effects.apply(&seat.shared.memory));
                number.into_iter().for_each(|number| seat.shared.outbox.applied(number));
                value
            }));
        });
        taken.map_err(|error| {
            handed.undone();
            error.into()
        })
    }

    /// The error of a server that is unavailable.
    pub(super) fn failure(&self) -> Option<StoreError> {
        let age = self.shared.freshness.age();
        if age.is_some_and(|age| age < SILENCE) {
            return None;
        }
        let text = age.map(|age| format!("it has not answered for {} s", age.as_secs()));
        Some(StoreError::Unreachable(text.unwrap_or_else(|| "it has not answered yet".to_owned())))
    }

    pub(super) fn replica_metrics(&self) -> Vec<ReplicaMetrics> {
        self.replicas.iter().map(Replica::metrics).collect()
    }

    pub(super) fn metrics(&self) -> StoreMetrics {
        let (polls, waits) = self.shared.freshness.metrics();
        StoreMetrics {
            polls,
            waits,
            waiting_writes: self.writes.waiting() as u64,
            reads: self.reads.jobs(),
            waiting_reads: self.reads.waiting() as u64,
            ..self.shared.counted.metrics()
        }
    }
}

/// Numbers of connections for reads and writes: a third reads.
fn sizes(all: Option<usize>) -> (usize, usize) {
    let Some(all) = all else { return (READS, WRITES) };
    let reads = (all / 3).max(1);
    (reads, all.saturating_sub(reads).max(1))
}

impl Seat {
    fn session(&mut self) -> Result<&Session> {
        let servers = &self.shared.servers;
        if self.session.is_none() || self.epoch != servers.epoch() {
            self.session = None;
            let (session, epoch) = servers.connect(self.purpose)?;
            (self.session, self.epoch) = (Some(session), epoch);
        }
        self.session.as_ref().ok_or(StoreError::Closed)
    }

    fn read<T>(
        &mut self,
        time: Option<Duration>,
        job: impl FnOnce(&Conn<'_>) -> Result<T>,
        answer: impl FnOnce(Result<T>),
    ) {
        let session = match self.begin_read(time) {
            Ok(session) => session,
            Err(error) => return answer(Err(error)),
        };
        if !run_read(session, job, answer) {
            self.session = None;
        }
    }

    /// Begins a read. A connection that was lost while unused is replaced.
    fn begin_read(&mut self, time: Option<Duration>) -> Result<&Session> {
        let seconds = time.map_or(0.0, |time| time.as_secs_f64());
        if self.session()?.begin_read(seconds).is_err() {
            self.session = None;
            self.session()?.begin_read(seconds)?;
        }
        self.session()
    }

    /// Runs a write until it is committed or refused. Also returns whether its outcome is unknown.
    fn write<T, E: From<StoreError>>(
        &mut self,
        job: &impl Fn(&mut Tx<'_>) -> Result<T, E>,
    ) -> (Result<Committed<T>, E>, bool) {
        let began = Instant::now();
        let shared = Arc::clone(&self.shared);
        let counted = &shared.counted;
        let mut rest = FIRST_REST;
        loop {
            let tried = self.try_write(job);
            let may_again = began.elapsed() < RETRY_TIME;
            match tried {
                Tried::Committed(committed) => {
                    counted.committed_jobs.fetch_add(1, Relaxed);
                    return (Ok(committed), false);
                }
                Tried::Again(_) if may_again => {
                    counted.retries.fetch_add(1, Relaxed);
                    std::thread::sleep(rest.mul_f64(fastrand::f64()));
                    rest = (rest * 2).min(LONGEST_REST);
                }
                Tried::Again(error) | Tried::Refused(error) => {
                    counted.failed_jobs.fetch_add(1, Relaxed);
                    return (Err(error), false);
                }
                Tried::Unknown(error) => {
                    counted.failed_commits.fetch_add(1, Relaxed);
                    return (Err(StoreError::Unknown(error).into()), true);
                }
            }
        }
    }

    fn try_write<T, E: From<StoreError>>(
        &mut self,
        job: &impl Fn(&mut Tx<'_>) -> Result<T, E>,
    ) -> Tried<T, E> {
        let shared = Arc::clone(&self.shared);
        let begun = self.session().and_then(|session| {
            shared.outbox.provide(session)?;
            session.begin_write()
        });
        if let Err(error) = begun {
            let had_one = self.session.take().is_some();
            return if had_one { Tried::Again(error.into()) } else { Tried::Refused(error.into()) };
        }
        let Some(session) = self.session.as_ref() else {
            return Tried::Refused(StoreError::Closed.into());
        };
        let mut tx = Tx::new(Conn::maria(session));
        let result = caught(job, &mut tx);
        let effects = tx.effects;
        match (session.take_trouble(), result) {
            // In a cluster every transaction has a number, which shows the outcome of a COMMIT whichever server dies.
            (None, Ok(value)) if effects.concern_others() || shared.servers.are_many() => {
                match shared.outbox.insert(session, &effects) {
                    Ok(number) => self.commit(value, effects, Some(number)),
                    Err(error) => {
                        // The server ends the transaction with the session.
                        self.session = None;
                        Tried::Again(error.into())
                    }
                }
            }
            (None, Ok(value)) => self.commit(value, effects, None),
            (trouble, result) => {
                let undone = trouble != Some(Trouble::Lost) && session.roll_back().is_ok();
                if !undone {
                    self.session = None;
                }
                let error = result.err().unwrap_or_else(|| E::from(StoreError::Busy));
                if trouble.is_some() { Tried::Again(error) } else { Tried::Refused(error) }
            }
        }
    }

    fn commit<T, E>(&mut self, value: T, effects: Effects, number: Option<Number>) -> Tried<T, E>
    where
        E: From<StoreError>,
    {
        let outbox = &self.shared.outbox;
        let Some(session) = self.session.as_ref() else {
            return Tried::Refused(StoreError::Closed.into());
        };
        let started = Instant::now();
        let result = session.commit_write();
        self.shared.counted.commit_micros.fetch_add(micros(started.elapsed()), Relaxed);
        match (result, session.take_trouble()) {
            (Ok(()), _) => {
                self.note(number, &effects);
                self.shared.counted.commits.fetch_add(1, Relaxed);
                Tried::Committed(Committed { value, effects, number })
            }
            (Err(error), Some(Trouble::Conflict)) => {
                number.into_iter().for_each(|number| outbox.leave(number));
                Tried::Again(StoreError::from(error).into())
            }
            // The server reports that it did not commit. The rest of the transaction ends with the session.
            (Err(error), None) if is_refusal(&error) => {
                number.into_iter().for_each(|number| outbox.leave(number));
                self.session = None;
                Tried::Refused(StoreError::Commit(error.to_string()).into())
            }
            (Err(error), _) => {
                self.session = None;
                match number.map_or(Fate::Unknown, |number| self.settle(number)) {
                    Fate::Committed => {
                        self.note(number, &effects);
                        Tried::Committed(Committed { value, effects, number })
                    }
                    Fate::Undone => Tried::Again(StoreError::from(error).into()),
                    Fate::Unknown => {
                        // It may be committed, and other nodes would then drop what it ends. Or it is committed later: its
                        // row is news then.
                        self.note(number, &effects);
                        follow(|| effects.apply(&self.shared.memory));
                        Tried::Unknown(error.to_string())
                    }
                }
            }
        }
    }

    /// Notes what has ended, before it is applied to memory.
    fn note(&self, number: Option<Number>, effects: &Effects) {
        if let Some(number) = number {
            let ends = effects.stamps().map(reach::bits);
            self.shared.reach.committed(number.lane, number.number, ends);
        }
    }

    /// The outcome of a transaction whose COMMIT was not answered, from its row.
    fn settle(&mut self, number: Number) -> Fate {
        let shared = Arc::clone(&self.shared);
        match self.session() {
            Ok(session) => shared.outbox.settle(session, number),
            Err(_) => {
                shared.outbox.leave(number);
                Fate::Unknown
            }
        }
    }
}

/// Runs a read whose transaction has begun. Returns whether the session can be used again. `answer` gets the result
/// before the transaction ends, so that the caller does not wait for that.
fn run_read<T>(
    session: &Session,
    job: impl FnOnce(&Conn<'_>) -> Result<T>,
    answer: impl FnOnce(Result<T>),
) -> bool {
    let found = catch_unwind(AssertUnwindSafe(|| job(&Conn::maria(session))));
    answer(found.unwrap_or_else(|panic| Err(StoreError::Panic(super::panic_text(&*panic)))));
    let is_kept = || session.take_trouble() != Some(Trouble::Lost);
    // On a lost connection the COMMIT would wait once more.
    is_kept() && session.batch("COMMIT").is_ok() && is_kept()
}

/// A committed write, whose effects are to be applied.
struct Committed<T> {
    value: T,
    effects: Effects,
    number: Option<Number>,
}

/// Outcome of one try of a write.
enum Tried<T, E> {
    Committed(Committed<T>),
    /// Nothing was done, and the same job may succeed.
    Again(E),
    /// Nothing was done.
    Refused(E),
    /// It may have been committed.
    Unknown(String),
}
