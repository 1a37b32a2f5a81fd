//! The write-ahead log, kept short by its own thread.
//!
//! **Copying.** Left to itself, SQLite copies the log into the database within the commit that makes it long, and all
//! writes wait. Here the writer only appends. This thread copies what was appended, [`EVERY`] pages at a time, while
//! the writer goes on, and syncs the database. The little that was appended meanwhile it copies and syncs while the
//! writer waits: only when all is copied can the log restart, and a short log is written over the same blocks of the
//! disk and the same memory again and again.
//!
//! **Limit.** The log can restart only when all of it is in the database and nobody reads it. While reads overlap
//! that moment never comes, and the log grows without bound. So beyond `database.log_limit` the thread makes the
//! moment. Reads and writes hold a shared lock while their transactions are open ([`Log::turn`]), and the thread
//! takes it alone: no transaction begins, running ones end (a read within [`PATIENCE`]), the rest of the log is
//! copied, and the log restarts. The file keeps its length, because freeing its blocks is work for the disk that all
//! would wait for. On a busy machine the thread may be late: at twice the limit the writer waits for it.
//!
//! **Other programs.** One that keeps a transaction open still prevents a restart. The thread logs that and retries;
//! meanwhile the log grows, because refusing writes would be worse.

use super::{Result, StoreError};
use crate::ops::thread::Joined;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Pages between two copies into the database: 4 MiB, SQLite's default.
const EVERY: u64 = 1000;
/// Bytes of a page in the log, with its header.
const PAGE_BYTES: u64 = 4096 + 24;
/// Pages that may be copied while the writer waits.
const FEW: u64 = 64;
/// Copies until so few are left. A writer that appends faster waits for more.
const TRIES: usize = 4;
/// Time limit of a read that all transactions wait for.
const PATIENCE: Duration = Duration::from_millis(250);
/// Longest wait of the writer for the thread, which usually takes far less.
const LATE: Duration = Duration::from_secs(1);
/// Time until the next try after another program prevented a restart; it doubles up to the longest.
const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// State that readers, the writer and the thread share.
pub(super) struct Log {
    /// Must outlive all connections: closing a descriptor of the file ends all locks of this process on it, SQLite's
    /// too (fcntl(2)), and another program would take the log as unused.
    database: File,
    turns: RwLock<()>,
    /// Held by the writer with each of its turns.
    writes: RwLock<()>,
    /// The thread waits for all turns to end.
    waited_for: AtomicBool,
    /// Another program prevented the last restart.
    blocked: AtomicBool,
    tries: Mutex<()>,
    tried: Condvar,
    /// Pages in the log after the last commit.
    pages: AtomicU64,
    /// Pages at which the next copy begins.
    next: AtomicU64,
    /// Pages at which it must restart.
    limit: u64,
    every: u64,
    copies: AtomicU64,
    cuts: AtomicU64,
}

impl Log {
    pub(super) fn new(database: File, limit_bytes: usize) -> Arc<Log> {
        let limit = (limit_bytes as u64 / PAGE_BYTES).max(1);
        let every = EVERY.min(limit.div_ceil(4));
        Arc::new(Log {
            database,
            turns: RwLock::new(()),
            writes: RwLock::new(()),
            waited_for: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            tries: Mutex::new(()),
            tried: Condvar::new(),
            pages: AtomicU64::new(0),
            next: AtomicU64::new(every),
            limit,
            every,
            copies: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
        })
    }

    /// Held while a transaction is open.
    pub(super) fn turn(&self) -> RwLockReadGuard<'_, ()> {
        self.turns.read()
    }

    /// The [turn](Self::turn) of the writer, which waits before if the log is far too long.
    pub(super) fn writers_turn(&self) -> [RwLockReadGuard<'_, ()>; 2] {
        let is_far_too_long =
            |(): &mut ()| self.pages.load(Relaxed) >= 2 * self.limit && !self.blocked.load(Relaxed);
        if is_far_too_long(&mut ()) {
            // It goes on whether the log was cut or the thread is late.
            self.tried.wait_while_for(&mut self.tries.lock(), is_far_too_long, LATE);
        }
        [self.writes.read(), self.turn()]
    }

    /// Whether a read must end because all transactions wait for it.
    pub(super) fn is_held_up(&self, took: Duration) -> bool {
        took >= PATIENCE && self.waited_for.load(Relaxed)
    }

    pub(super) fn metrics(&self) -> (u64, u64) {
        (self.copies.load(Relaxed), self.cuts.load(Relaxed))
    }

    /// Notes its length after a commit. Returns whether a copy is due.
    fn note(&self, pages: u64) -> bool {
        if pages < self.pages.swap(pages, Relaxed) {
            // It has restarted.
            self.next.store(self.every, Relaxed);
        }
        pages >= self.next.load(Relaxed)
    }

    /// Copies the log into the database, as far as readers allow. Returns the pages in the log.
    fn copy(&self, conn: &Connection) -> Result<u64> {
        // Also after a failure, the next commit need not request it again.
        self.next.store(self.pages.load(Relaxed) + self.every, Relaxed);
        for _ in 0..TRIES {
            let done = checkpoint(conn, "PASSIVE")?;
            if done.copied < done.pages {
                // A read prevents the rest.
                self.copies.fetch_add(1, Relaxed);
                return Ok(done.pages);
            }
            // Otherwise SQLite syncs all these pages at once after the last copy, while the writer waits.
            self.database.sync_data().map_err(|error| StoreError::of_file(&error))?;
            if self.pages.load(Relaxed) < done.pages + FEW {
                break;
            }
        }
        self.copies.fetch_add(1, Relaxed);
        let alone = self.writes.write();
        let rest = checkpoint(conn, "PASSIVE");
        drop(alone);
        Ok(rest?.pages)
    }

    /// Copies all of it while nobody reads or writes, so that it restarts. `RESTART` keeps the file's length,
    /// `TRUNCATE` empties it. Returns whether it could.
    pub(super) fn cut(&self, conn: &Connection, mode: &str) -> Result<bool> {
        self.waited_for.store(true, Relaxed);
        let alone = self.turns.write();
        self.waited_for.store(false, Relaxed);
        // The rest first: while another program reads, a restart would only make everybody wait for it.
        let cut = checkpoint(conn, "PASSIVE")
            .and_then(|rest| Ok(rest.copied == rest.pages && !checkpoint(conn, mode)?.busy));
        if cut == Ok(true) {
            self.pages.store(0, Relaxed);
            self.next.store(self.every, Relaxed);
            self.cuts.fetch_add(1, Relaxed);
        }
        drop(alone);
        let tries = self.tries.lock();
        self.blocked.store(cut != Ok(true), Relaxed);
        self.tried.notify_all();
        drop(tries);
        cut
    }
}

/// Result of a checkpoint; `pages` is the length of the log.
pub(crate) struct Checkpoint {
    pub(crate) busy: bool,
    pub(crate) pages: u64,
    pub(crate) copied: u64,
}

pub(crate) fn checkpoint(conn: &Connection, mode: &str) -> Result<Checkpoint> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(conn.query_row(&sql, [], |row| {
        let (busy, pages, copied) = (row.get(0)?, count(row.get(1)?), count(row.get(2)?));
        Ok(Checkpoint { busy, pages, copied })
    })?)
}

enum Wake {
    Copy,
    /// Request to empty the log, with a sender for the result of [`Log::cut`].
    Cut(Sender<Result<bool>>),
    End,
}

/// The thread; it ends on drop.
pub(super) struct Checkpoints {
    wake: Sender<Wake>,
    _thread: Joined,
}

impl Checkpoints {
    /// Takes over copying from `writer`, the writing connection of the store at `path`.
    pub(super) fn start(
        path: &Path,
        writer: &mut Connection,
        log: &Arc<Log>,
    ) -> Result<Checkpoints> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        // Only other programs lock it, for a moment.
        conn.busy_timeout(Duration::from_millis(50))?;
        conn.execute_batch("PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF;")?;
        // A log that one large transaction has made longer than the limit is cut when it begins anew.
        let limit = i64::try_from(log.limit * PAGE_BYTES).unwrap_or(i64::MAX);
        writer.pragma_update_and_check(None, "journal_size_limit", limit, |_| Ok(()))?;
        let (wake, woken) = bounded(1);
        let (noted, waker) = (Arc::clone(log), wake.clone());
        // A connection has one hook: this replaces SQLite's own copying.
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            if noted.note(u64::try_from(pages).unwrap_or(0)) {
                // If the channel is full, the thread is awake.
                let _ = waker.try_send(Wake::Copy);
            }
            Ok(())
        }))?;
        let log = Arc::clone(log);
        let work = move || {
            work(&conn, &log, &woken);
            // Before the log, whose descriptor must be closed last.
            drop(conn);
            drop(log);
        };
        let _thread = Joined::spawn("store-log", work)
            .map_err(|e| StoreError::Other(format!("cannot start a thread: {e}")))?;
        Ok(Checkpoints { wake, _thread })
    }

    /// Copies all of the log into the database and empties it. Returns whether it could. Blocks the thread.
    pub(super) fn cut(&self) -> Result<bool> {
        let (answer, answered) = bounded(1);
        self.wake.send(Wake::Cut(answer)).map_err(|_| StoreError::Closed)?;
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        // The thread always takes the next message: this waits for one copy at most.
        let _ = self.wake.send(Wake::End);
    }
}

fn work(conn: &Connection, log: &Log, woken: &Receiver<Wake>) {
    let (mut rest, mut not_before) = (SHORTEST_REST, None);
    while let Ok(wake) = woken.recv() {
        match wake {
            Wake::Copy => {}
            Wake::Cut(answer) => {
                // Most is copied while others go on; they all wait for the rest.
                let _ = answer.send(log.copy(conn).and_then(|_| log.cut(conn, "TRUNCATE")));
                continue;
            }
            Wake::End => break,
        }
        let is_long = match log.copy(conn) {
            Ok(pages) => pages >= log.limit,
            Err(error) => {
                // A full disk, which the writes report.
                tracing::debug!(%error, "cannot copy the write-ahead log into the database");
                false
            }
        };
        if !is_long || not_before.is_some_and(|at| Instant::now() < at) {
            continue;
        }
        let cut = log.cut(conn, "RESTART");
        if matches!(cut, Ok(true)) {
            (rest, not_before) = (SHORTEST_REST, None);
            continue;
        }
        let error = cut.err().map(tracing::field::display);
        tracing::warn!(
            error,
            "the write-ahead log is longer than database.log_limit: does another program read the database?"
        );
        not_before = Some(Instant::now() + rest);
        rest = (2 * rest).min(LONGEST_REST);
    }
}
