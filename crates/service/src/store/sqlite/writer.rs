//! The writer thread: group commit for every write.
#![allow(clippy::disallowed_types, reason = "runs the transactions of the store")]

use super::log::Log;
use super::{BUSY_TIMEOUT, Conn, Effects, Memory, Result, StoreError, Tx, handover};
use crate::ops::record::micros;
use crate::ops::thread::Joined;
use crate::store::Counted;
use crate::store::error::JobError;
use crate::store::tx::{caught, follow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time between two tries while writes fail and nobody asks for one.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// Answers a job's caller once the fate of the commit is known.
type Settle = Box<dyn FnOnce(Result<()>)>;
/// Given an error, a job does not run: there is no transaction to run it in.
type Run = Box<dyn FnOnce(Result<&mut Group>) -> Settle + Send>;

/// The transaction that the jobs of a group share.
struct Group {
    conn: Connection,
    state: GroupState,
    /// Rows that the connection had changed when the transaction began.
    changes_before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupState {
    /// Nothing has been written yet: to undo a job is to undo everything.
    Clean,
    Written,
    /// A job could not be undone: this must never be committed.
    Broken,
}

/// With whom a job commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Company {
    Shared,
    Alone,
}

struct Job {
    company: Company,
    run: Run,
}

/// What the writer has met since the start.
#[derive(Debug, Default)]
pub(in crate::store) struct WriterStats {
    pub(super) counted: Counted,
    /// What the last group met, if it failed.
    failure: Mutex<Option<StoreError>>,
}

impl WriterStats {
    /// Why writes fail now; nothing while they succeed.
    pub(in crate::store) fn failure(&self) -> Option<StoreError> {
        self.failure.lock().clone()
    }

    /// Notes how a group that had something to write ended, or the try of one.
    fn ended(&self, result: Result<()>) {
        *self.failure.lock() = result.err();
    }
}

/// Dropped, it lets the queued jobs commit and be answered, then closes the connection, which takes the write-ahead log
/// back into the file.
pub(in crate::store) struct Writer {
    // Before the thread: it ends it.
    queue: Sender<Job>,
    _thread: Joined,
    pub(in crate::store) stats: Arc<WriterStats>,
    memory: Arc<Memory>,
}

impl Writer {
    pub(super) fn start(
        conn: Connection,
        group: usize,
        queue: usize,
        log: Arc<Log>,
        memory: Arc<Memory>,
    ) -> std::io::Result<Writer> {
        let (queue, receive) = bounded(queue);
        let stats = Arc::new(WriterStats::default());
        let counted = Arc::clone(&stats);
        // The log goes after the connection.
        let work = move || work(conn, &receive, group, &counted, &log);
        let _thread = Joined::spawn("store-write", work)?;
        Ok(Writer { queue, _thread, stats, memory })
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Hands a job over; `settle` is told on the writer's thread what became of it, unless the job was
    /// not taken.
    pub(in crate::store) fn submit<T: Send + 'static, E: JobError>(
        &self,
        company: Company,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        settle: impl FnOnce(Result<T, E>) + Send + 'static,
    ) -> Result<()> {
        let (stats, memory) = (Arc::clone(&self.stats), Arc::clone(&self.memory));
        let handed = handover::hand_over();
        let written = handed.clone();
        let run: Run = Box::new(move |group| {
            let outcome = match group {
                Ok(group) => group.run(job),
                Err(error) => Err(E::from(error)),
            };
            if outcome.is_err() {
                stats.counted.failed_jobs.fetch_add(1, Relaxed);
            }
            Box::new(move |commit: Result<()>| {
                if outcome.is_err() || commit.as_ref().is_err_and(|error| !error.is_unknown()) {
                    written.undone();
                }
                settle(match (outcome, commit) {
                    (Ok((value, effects)), Ok(())) => {
                        stats.counted.committed_jobs.fetch_add(1, Relaxed);
                        follow(|| effects.apply(&memory));
                        Ok(value)
                    }
                    (Ok(_), Err(error)) => Err(E::from(error)),
                    (Err(error), _) => Err(error),
                });
            })
        });
        self.queue.try_send(Job { company, run }).map_err(|refused| {
            handed.undone();
            match refused {
                TrySendError::Full(_) => StoreError::Busy,
                TrySendError::Disconnected(_) => StoreError::Closed,
            }
        })
    }
}

impl Group {
    fn begin(&mut self) -> Result<()> {
        self.state = GroupState::Clean;
        self.changes_before = self.conn.total_changes();
        Ok(self.conn.execute_batch("BEGIN IMMEDIATE")?)
    }

    /// Whether nobody may join it, because there is no transaction or it must not be committed.
    fn is_over(&self) -> bool {
        self.state == GroupState::Broken || self.conn.is_autocommit()
    }

    /// Runs one job: an error or a panic undoes that job alone.
    fn run<T, E: From<StoreError>>(
        &mut self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<(T, Effects), E> {
        // An earlier job of the group may have met a full disk, on which SQLite ends the whole transaction.
        if self.is_over() {
            let text = "an earlier write of the same group ended it".to_owned();
            return Err(StoreError::Commit(text).into());
        }
        // SQLite copies each page that a savepoint may have to bring back, to a file when there are many: for a batch
        // of likes, which is mostly alone, half of all bytes written. So the first job has the whole transaction.
        if self.state == GroupState::Written {
            return self.run_after_others(job);
        }
        let mut tx = Tx::new(Conn::sqlite(&self.conn));
        let result = caught(job, &mut tx);
        let effects = tx.effects;
        match result {
            Ok(value) => {
                self.state = GroupState::Written;
                Ok((value, effects))
            }
            Err(error) => {
                self.begin_again();
                Err(error)
            }
        }
    }

    /// The same in a savepoint: others have written before.
    fn run_after_others<T, E: From<StoreError>>(
        &mut self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<(T, Effects), E> {
        self.conn.execute_batch("SAVEPOINT job").map_err(StoreError::from)?;
        let mut tx = Tx::new(Conn::sqlite(&self.conn));
        let result = caught(job, &mut tx);
        let effects = tx.effects;
        let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
        // A job that met a full disk has ended the whole transaction, and with it the savepoint.
        let ended = self.conn.execute_batch(end);
        if ended.is_err() {
            // What cannot be undone must not be committed with the others.
            self.state = GroupState::Broken;
        }
        let value = result?;
        ended.map_err(StoreError::from)?;
        Ok((value, effects))
    }

    /// Undoes the only job so far. If the transaction cannot begin once more, the group is over: nobody's
    /// write was in it.
    fn begin_again(&mut self) {
        let undone = self.conn.is_autocommit() || self.conn.execute_batch("ROLLBACK").is_ok();
        if !undone {
            self.state = GroupState::Broken;
        } else if let Err(error) = self.begin() {
            tracing::warn!(%error, "cannot start a new group of writes after a failed one");
        }
    }

    fn commit(&mut self, stats: &WriterStats) -> Result<()> {
        let started = Instant::now();
        let result = if self.is_over() {
            Err(StoreError::Commit("the store ended the transaction (no space left?)".to_owned()))
        } else {
            self.conn.execute_batch("COMMIT").map_err(StoreError::of_commit)
        };
        let (took, counted) = (micros(started.elapsed()), &stats.counted);
        match &result {
            // Without a change there is nothing to sync: a job was refused, or only looked.
            Ok(()) if self.conn.total_changes() == self.changes_before => {}
            Ok(()) => {
                stats.ended(Ok(()));
                counted.commits.fetch_add(1, Relaxed);
                counted.commit_micros.fetch_add(took, Relaxed);
            }
            Err(error) => {
                stats.ended(Err(error.clone()));
                if !self.conn.is_autocommit() {
                    // Failing to roll back leaves nothing else to try: the next BEGIN reports it.
                    let _ = self.conn.execute_batch("ROLLBACK");
                }
                counted.failed_commits.fetch_add(1, Relaxed);
                counted.commit_micros.fetch_add(took, Relaxed);
            }
        }
        result
    }

    /// Writes and syncs one page that stays as it is: after a failure, whether writes succeed again. A
    /// balancer sends none to a server that is not ready, so it could not learn that from its clients.
    fn try_to_write(&mut self, stats: &WriterStats) {
        // Whoever comes meanwhile must not wait for a lock of somebody else twice.
        let result = self.conn.busy_timeout(Duration::ZERO).map_err(StoreError::from);
        let result = result.and_then(|()| self.begin()).and_then(|()| self.write_same_again());
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        if let Err(error) = self.conn.busy_timeout(BUSY_TIMEOUT) {
            tracing::warn!(%error, "the writer cannot set its timeout");
        }
        if result.is_ok() {
            tracing::info!("writes succeed again");
        }
        stats.ended(result);
    }

    fn write_same_again(&self) -> Result<()> {
        let version: i64 = self.conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        self.conn.execute_batch(&format!("PRAGMA user_version = {version}; COMMIT"))?;
        Ok(())
    }
}

fn work(conn: Connection, queue: &Receiver<Job>, group: usize, stats: &WriterStats, log: &Log) {
    let mut settle: Vec<Settle> = Vec::with_capacity(group.min(256));
    let mut shared = Group { conn, state: GroupState::Clean, changes_before: 0 };
    // One that commits alone, taken from the queue while a group was gathered.
    let mut next_first = None;
    while let Some(first) = next_first.take().or_else(|| next_job(queue, &mut shared, stats, log)) {
        let group = if first.company == Company::Alone { 1 } else { group };
        let turn = log.writers_turn();
        let begun = shared.begin();
        match &begun {
            Ok(()) => {
                settle.push((first.run)(Ok(&mut shared)));
                while settle.len() < group && !shared.is_over() {
                    let Ok(next) = queue.try_recv() else { break };
                    if next.company == Company::Alone {
                        next_first = Some(next);
                        break;
                    }
                    settle.push((next.run)(Ok(&mut shared)));
                }
            }
            // Beginning may have taken its whole timeout: whoever waits now need not wait for another.
            Err(error) => {
                stats.ended(Err(error.clone()));
                let waiting = std::iter::once(first).chain(queue.try_iter());
                settle.extend(waiting.map(|job| (job.run)(Err(error.clone()))));
            }
        }
        let outcome = begun.and_then(|()| shared.commit(stats));
        drop(turn);
        for answer in settle.drain(..) {
            answer(outcome.clone());
        }
    }
}

/// Waits for a job. As long as writes fail it tries to write something itself.
fn next_job(
    queue: &Receiver<Job>,
    group: &mut Group,
    stats: &WriterStats,
    log: &Log,
) -> Option<Job> {
    while stats.failure().is_some() {
        match queue.recv_timeout(TRY_EVERY) {
            Ok(job) => return Some(job),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let _turn = log.writers_turn();
                group.try_to_write(stats);
            }
        }
    }
    queue.recv().ok()
}
