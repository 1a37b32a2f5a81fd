//! Replicas: servers that follow the primary, and answer reads for which they have caught up.
//!
//! Each has its own connections, and a thread that polls it for the numbers of the outbox that it contains (see
//! [`Reach`](madang_positions::Reach)). One that is unavailable, slow or behind is skipped until it has caught up.
//! Reads that it does not answer in time go to the primary.

use super::session::{Session, Use};
use super::{Maria, Shared, parse, poll, reach, run_read};
use crate::ops::thread::Joined;
use crate::store::sql::Conn;
use crate::store::{Pool, ReplicaMetrics, Result, StoreError};
use madang_cache::Stamp;
use madang_positions::Replica as Contents;
use mysql::OptsBuilder;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Time between two polls of a replica that has everything.
const STEADY: Duration = Duration::from_millis(100);
/// The same while this node gets no requests.
const IDLE: Duration = Duration::from_millis(500);
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Two starts of a server that are so close are the same run, because its uptime is in whole seconds. A replica is used
/// from this uptime on, so that it cannot be mistaken for the run before.
const SAME_RUN: Duration = Duration::from_secs(2);

pub(super) struct Replica {
    _thread: Joined,
    state: Arc<ReplicaState>,
    reads: Pool<Seat>,
}

struct ReplicaState {
    /// Without login.
    name: String,
    options: OptsBuilder,
    shared: Arc<Shared>,
    stop: AtomicBool,
    /// The version that it has reached, plus one; 0 means that it is not used.
    reached: AtomicU64,
    /// Start of the run of the server that was polled last.
    run: Mutex<Option<Instant>>,
    reads: AtomicU64,
}

/// The connection of a reading thread, with the start of the server's run.
pub(super) struct Seat {
    state: Arc<ReplicaState>,
    session: Option<(Session, Instant)>,
}

impl Replica {
    pub(super) fn start(
        url: &str,
        size: usize,
        queue: usize,
        shared: &Arc<Shared>,
    ) -> Result<Self> {
        let options = parse("database.replicas", url)?;
        let name = name(&options);
        let shared = Arc::clone(shared);
        let (stop, reached, run, reads) = Default::default();
        let state = Arc::new(ReplicaState { name, options, shared, stop, reached, run, reads });
        let seats = (0..size).map(|_| Seat { state: Arc::clone(&state), session: None });
        let no_thread =
            |e: std::io::Error| StoreError::Other(format!("cannot start a thread: {e}"));
        let reads = Pool::start("store-replica", seats.collect(), queue).map_err(no_thread)?;
        let mut probe = ReplicaProbe {
            state: Arc::clone(&state),
            contents: Contents::default(),
            session: None,
            is_away: false,
        };
        let _thread = Joined::spawn("store-lag", move || {
            while !probe.state.stop.load(Relaxed) {
                probe.turn();
            }
        });
        let _thread = _thread.map_err(no_thread)?;
        Ok(Self { _thread, state, reads })
    }

    /// Runs a read. One that fails here belongs on the primary: the replica may be unavailable, or lack a table.
    pub(super) async fn read<T, F>(&self, time: Option<Duration>, job: &Arc<F>) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Conn<'_>) -> Result<T> + Send + Sync + 'static,
    {
        let job = Arc::clone(job);
        let read = self.reads.ask(move |seat: &mut Seat, answer| {
            seat.read(time, &*job, |found| drop(answer.send(found)));
        });
        read.await?
    }

    fn has(&self, version: u64) -> bool {
        self.state.reached.load(SeqCst) > version
    }

    pub(super) fn metrics(&self) -> ReplicaMetrics {
        let reached = self.state.reached.load(SeqCst).checked_sub(1);
        ReplicaMetrics {
            name: self.state.name.clone(),
            is_used: reached.is_some(),
            lag: self.state.shared.reach.lag(reached.unwrap_or(0)),
            reads: self.state.reads.load(Relaxed),
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.state.stop.store(true, Relaxed);
        self.state.shared.reach.wake();
    }
}

impl Maria {
    /// The replica that may answer a read with these stamps: of several, the one with the fewest waiting reads.
    pub(super) fn replica(&self, stamps: &[Stamp]) -> Option<&Replica> {
        if self.replicas.is_empty() {
            return None;
        }
        let needed = self.shared.reach.needed(reach::bits(stamps));
        let may = self.replicas.iter().filter(|replica| replica.has(needed));
        may.min_by_key(|replica| (replica.reads.waiting(), replica.state.reads.load(Relaxed)))
    }
}

impl Seat {
    fn read<T>(
        &mut self,
        time: Option<Duration>,
        job: impl Fn(&Conn<'_>) -> Result<T>,
        answer: impl FnOnce(Result<T>),
    ) {
        let seconds = time.map_or(0.0, |time| time.as_secs_f64());
        let begun = self.connect().and_then(|()| self.session()?.begin_read(seconds));
        if let Err(error) = begun {
            self.session = None;
            return answer(Err(error));
        }
        let Some((session, _)) = &self.session else { return answer(Err(StoreError::Closed)) };
        let counted = |found: Result<T>| {
            if found.is_ok() {
                self.state.reads.fetch_add(1, Relaxed);
            }
            answer(found);
        };
        if !run_read(session, job, counted) {
            self.session = None;
        }
    }

    fn session(&self) -> Result<&Session> {
        self.session.as_ref().map(|(session, _)| session).ok_or(StoreError::Closed)
    }

    /// Ensures that the connection is to the run that was polled: after a crash a replica may have less.
    fn connect(&mut self) -> Result<()> {
        let run = *self.state.run.lock();
        let run = run.ok_or_else(|| StoreError::Unreachable("the replica is away".to_owned()))?;
        if self.session.as_ref().is_some_and(|(_, start)| *start == run) {
            return Ok(());
        }
        self.session = None;
        let session = Session::connect(&self.state.options, Use::Brief)?;
        let began = began(&session)?;
        let apart = began.max(run).duration_since(began.min(run));
        if apart > SAME_RUN {
            return Err(StoreError::Unreachable("the replica was started again".to_owned()));
        }
        self.session = Some((session, run));
        Ok(())
    }
}

/// Start of a server's run, to a second.
fn began(session: &Session) -> Result<Instant> {
    let uptime = session.uptime()?;
    let unknown = || StoreError::Other("the server does not say how long it has run".to_owned());
    uptime.and_then(|uptime| Instant::now().checked_sub(uptime)).ok_or_else(unknown)
}

/// The thread that polls a replica.
struct ReplicaProbe {
    state: Arc<ReplicaState>,
    contents: Contents,
    session: Option<Session>,
    is_away: bool,
}

impl ReplicaProbe {
    fn turn(&mut self) {
        match self.poll() {
            Ok(Some(version)) => {
                self.state.reached.store(version + 1, SeqCst);
                if std::mem::take(&mut self.is_away) {
                    tracing::info!(replica = self.state.name, "answers reads again");
                }
                let idle = self.state.shared.freshness.is_idle();
                self.pause(version, if idle { IDLE } else { STEADY });
            }
            // It is behind all known versions.
            Ok(None) => {
                self.state.reached.store(0, SeqCst);
                self.pause(u64::MAX, self.state.shared.freshness.every);
            }
            Err(error) => {
                self.state.reached.store(0, SeqCst);
                self.session = None;
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(replica = self.state.name, %error, "the primary answers its reads for now");
                }
                self.pause(u64::MAX, AFTER_FAILURE);
            }
        }
    }

    /// Waits for a newer version than this one, at most so long.
    fn pause(&self, version: u64, longest: Duration) {
        self.state.shared.reach.until_newer(version, longest, &self.state.stop);
    }

    /// The version that it has reached.
    fn poll(&mut self) -> Result<Option<u64>> {
        if self.session.is_none() {
            self.connect()?;
        }
        let Some(session) = &self.session else { return Ok(None) };
        let rows = session.text(&poll::query("''", Some(self.contents.wanted())))?;
        self.contents.apply(&poll::read(&rows)?);
        let version = self.state.shared.reach.version_of(&self.contents.label().position);
        // While it catches up it is polled as often as the primary, not as fast as it answers.
        if version.is_some_and(|version| self.state.reached.load(SeqCst) == version + 1) {
            self.pause(u64::MAX, self.state.shared.freshness.every);
        }
        Ok(version)
    }

    fn connect(&mut self) -> Result<()> {
        let session = Session::connect(&self.state.options, Use::Brief)?;
        let began = began(&session)?;
        if began.elapsed() < SAME_RUN {
            return Err(StoreError::Unreachable("the replica has just been started".to_owned()));
        }
        let theirs = super::schema::identity(&session)?;
        if theirs != Some(self.state.shared.identity) {
            return Err(foreign());
        }
        *self.state.run.lock() = Some(began);
        self.contents = Contents::default();
        self.session = Some(session);
        Ok(())
    }
}

pub(super) fn foreign() -> StoreError {
    let text =
        "database.replicas names a server with another database: it does not follow database.url";
    StoreError::Foreign(text.to_owned())
}

/// Host and port of a server, without its login.
pub(super) fn name(options: &OptsBuilder) -> String {
    let options = mysql::Opts::from(options.clone());
    format!("{}:{}", options.get_ip_or_hostname(), options.get_tcp_port())
}
