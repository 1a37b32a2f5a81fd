//! The writer thread with group commit.

use super::log::Log;
use super::{BUSY_TIMEOUT, Conn, Effects, Memory, Result, StoreError, Tx, handover};
use crate::ops::record::micros;
use crate::ops::thread::Joined;
use crate::store::Counted;
use crate::store::error::JobError;
use crate::store::tx::{caught, follow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time between two tries while writes fail and none arrives.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// Reports the outcome of the commit to a job's caller.
type Settle = Box<dyn FnOnce(Result<()>)>;
/// Runs a job. Given an error, there is no transaction, and the job fails with it.
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
    /// Nothing was written yet: undoing a job undoes everything.
    Clean,
    Written,
    /// A job could not be undone: the transaction must not be committed.
    Broken,
}

/// Whether a job shares its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    Shared,
    Alone,
}

struct Job {
    company: Company,
    run: Run,
}

/// On drop, the queued jobs commit and their callers get the results. Then the connection closes, which copies the
/// write-ahead log into the file.
pub(crate) struct Writer {
    // Dropped before the thread, which ends it.
    queue: Sender<Job>,
    _thread: Joined,
    pub(crate) stats: Arc<Counted>,
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
        let stats = Arc::new(Counted::default());
        let counted = Arc::clone(&stats);
        // The log is dropped after the connection.
        let work = move || work(conn, &receive, group, &counted, &log);
        let _thread = Joined::spawn("store-write", work)?;
        Ok(Writer { queue, _thread, stats, memory })
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Queues a job. `settle` gets its outcome on the writer's thread, unless the job was not accepted.
    pub(crate) fn submit<T: Send + 'static, E: JobError>(
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
                stats.failed_jobs.fetch_add(1, Relaxed);
            }
            Box::new(move |commit: Result<()>| {
                if outcome.is_err() || commit.as_ref().is_err_and(|error| !error.is_unknown()) {
                    written.undone();
                }
                settle(match (outcome, commit) {
                    (Ok((value, effects)), Ok(())) => {
                        stats.committed_jobs.fetch_add(1, Relaxed);
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

    /// Whether no job may join, because there is no transaction or it must not be committed.
    fn is_over(&self) -> bool {
        self.state == GroupState::Broken || self.conn.is_autocommit()
    }

    /// Runs one job: an error or a panic undoes that job alone.
    fn run<T, E: From<StoreError>>(
        &mut self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<(T, Effects), E> {
        // On a full disk, which an earlier job of the group may have met, SQLite ends the whole transaction.
        if self.is_over() {
            let text = "an earlier write of the same group ended it".to_owned();
            return Err(StoreError::Commit(text).into());
        }
        // SQLite copies each page that a savepoint may have to restore, to a file when there are many: for a batch of
        // likes, which is mostly alone, half of all bytes written. So the first job has the whole transaction.
        let is_first = self.state == GroupState::Clean;
        if !is_first {
            self.conn.execute_batch("SAVEPOINT job").map_err(StoreError::from)?;
        }
        let mut tx = Tx::new(Conn::sqlite(&self.conn));
        let result = caught(job, &mut tx);
        let effects = tx.effects;
        if !is_first {
            let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
            if let Err(error) = self.conn.execute_batch(end) {
                // A full disk has ended the transaction, and with it the savepoint. A job that cannot be undone must
                // not be committed with the others.
                self.state = GroupState::Broken;
                return Err(result.err().unwrap_or_else(|| StoreError::from(error).into()));
            }
        } else if result.is_ok() {
            self.state = GroupState::Written;
        } else {
            self.begin_again();
        }
        Ok((result?, effects))
    }

    /// Undoes the only job so far. If the transaction cannot begin again, the group is over; no write was in it.
    fn begin_again(&mut self) {
        let undone = self.conn.is_autocommit() || self.conn.execute_batch("ROLLBACK").is_ok();
        if !undone {
            self.state = GroupState::Broken;
        } else if let Err(error) = self.begin() {
            tracing::warn!(%error, "cannot start a new group of writes after a failed one");
        }
    }

    fn commit(&mut self, stats: &Counted) -> Result<()> {
        let started = Instant::now();
        let result = if self.is_over() {
            Err(StoreError::Commit("the store ended the transaction (no space left?)".to_owned()))
        } else {
            self.conn.execute_batch("COMMIT").map_err(StoreError::of_commit)
        };
        let took = micros(started.elapsed());
        match &result {
            // Without a change nothing was synced: the jobs were refused, or only read.
            Ok(()) if self.conn.total_changes() == self.changes_before => {}
            Ok(()) => {
                stats.note(Ok(()));
                stats.commits.fetch_add(1, Relaxed);
                stats.commit_micros.fetch_add(took, Relaxed);
            }
            Err(error) => {
                stats.note(Err(error.clone()));
                if !self.conn.is_autocommit() {
                    // If this fails too, the next BEGIN reports it.
                    let _ = self.conn.execute_batch("ROLLBACK");
                }
                stats.failed_commits.fetch_add(1, Relaxed);
                stats.commit_micros.fetch_add(took, Relaxed);
            }
        }
        result
    }

    /// After a failure, writes and syncs one unchanged page, to learn whether writes succeed again. A load balancer
    /// sends none to a server that is not ready.
    fn try_to_write(&mut self, stats: &Counted) {
        // A job that arrives meanwhile must not wait for a lock twice.
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
        stats.note(result);
    }

    fn write_same_again(&self) -> Result<()> {
        let version: i64 = self.conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        self.conn.execute_batch(&format!("PRAGMA user_version = {version}; COMMIT"))?;
        Ok(())
    }
}

fn work(conn: Connection, queue: &Receiver<Job>, group: usize, stats: &Counted, log: &Log) {
    let mut settle: Vec<Settle> = Vec::with_capacity(group.min(256));
    let mut shared = Group { conn, state: GroupState::Clean, changes_before: 0 };
    // A job with its own commit, taken from the queue while a group was gathered.
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
            // Beginning may have taken its whole timeout: waiting jobs must not wait for another.
            Err(error) => {
                stats.note(Err(error.clone()));
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

/// Waits for a job. While writes fail, it tries to write something itself.
fn next_job(queue: &Receiver<Job>, group: &mut Group, stats: &Counted, log: &Log) -> Option<Job> {
    while stats.failure.lock().is_some() {
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
