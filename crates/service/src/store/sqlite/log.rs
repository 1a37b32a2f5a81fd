//! The write-ahead log, kept short by a thread of its own.
//!
//! **Why a thread.** Left to itself SQLite copies the log into the database within the commit that makes it
//! long, and all writes wait for that. Here the writer only appends, and this thread copies what it has
//! appended, [`EVERY`] pages at a time, while the writer goes on, and syncs the database. What was appended meanwhile it
//! copies and syncs while the writer waits, which is little: only when all is copied can the log begin anew, and one that
//! stays short is written over the same blocks of the disk and the same memory, again and again.
//!
//! **Why a limit.** A log can begin anew only when all of it is in the database and nobody reads it. While
//! reads overlap that moment never comes, and the log grows without bound. So beyond `database.log_limit` the thread makes the moment. Reads and writes share a lock, each for as
//! long as its transaction is open ([`Log::turn`]), and the thread asks for it alone: nobody begins from then on,
//! what is under way ends, a read within [`PATIENCE`], the rest of the log is copied, it begins anew, and all
//! go on. The file keeps its length: to free its blocks is work for the disk, and everybody would wait for that. On a busy machine the thread may be late: at twice the limit the writer waits for it.
//!
//! **Limit.** Another program that keeps a transaction open is still in the way. The thread logs that and tries
//! again; meanwhile the log grows, for to refuse writes would be worse.
#![allow(clippy::disallowed_types, reason = "this is the store: SQL types live here")]

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

/// Pages between two copies into the database: 4 MiB, as SQLite has it.
const EVERY: u64 = 1000;
/// Bytes of a page in the log, with its head.
const PAGE_BYTES: u64 = 4096 + 24;
/// Pages that the writer may wait for.
const FEW: u64 = 64;
/// Copies until so few are left; a writer that appends faster waits for more.
const TRIES: usize = 4;
/// Time that a read may have taken when everybody waits for it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Time that the writer waits for the thread at a time; it never takes so long.
const LATE: Duration = Duration::from_secs(1);
/// Time until the next try when another program is in the way; it doubles up to the longest.
const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// What readers, the writer and the thread share.
pub(super) struct Log {
    /// Whoever has a connection keeps this one longer: closing a descriptor of the file ends all locks of this process on
    /// it, those of SQLite too (fcntl(2)), and another program would take the log for nobody's.
    database: File,
    turns: RwLock<()>,
    /// The writer's alone, who has it with each turn.
    writes: RwLock<()>,
    /// The thread waits for all turns to end.
    waited_for: AtomicBool,
    /// Another program was in the way of the last try.
    blocked: AtomicBool,
    tries: Mutex<()>,
    tried: Condvar,
    /// Pages in the log after the last commit.
    pages: AtomicU64,
    /// Pages at which it is copied next.
    next: AtomicU64,
    /// Pages at which it has to begin anew.
    limit: u64,
    /// Pages between two copies.
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

    /// To be held for as long as a transaction is open.
    pub(super) fn turn(&self) -> RwLockReadGuard<'_, ()> {
        self.turns.read()
    }

    /// The same for the writer, who waits before when the log is far too long.
    pub(super) fn writers_turn(&self) -> WritersTurn<'_> {
        let is_far_too_long =
            |(): &mut ()| self.pages.load(Relaxed) >= 2 * self.limit && !self.blocked.load(Relaxed);
        if is_far_too_long(&mut ()) {
            // Cut, or late: it goes on either way.
            self.tried.wait_while_for(&mut self.tries.lock(), is_far_too_long, LATE);
        }
        let write = self.writes.read();
        WritersTurn { _write: write, _turn: self.turn() }
    }

    /// Whether everybody waits for a read that has taken so long.
    pub(super) fn is_held_up(&self, took: Duration) -> bool {
        took >= PATIENCE && self.waited_for.load(Relaxed)
    }

    /// How often it was copied into the database, and how often it was cut.
    pub(super) fn metrics(&self) -> (u64, u64) {
        (self.copies.load(Relaxed), self.cuts.load(Relaxed))
    }

    /// Takes note of its length after a commit; answers whether it is to be copied.
    fn note(&self, pages: u64) -> bool {
        if pages < self.pages.swap(pages, Relaxed) {
            // It has begun anew.
            self.next.store(self.every, Relaxed);
        }
        pages >= self.next.load(Relaxed)
    }

    /// Copies what the log holds into the database, as far as nobody is in the way; answers the pages in it.
    fn copy(&self, conn: &Connection) -> Result<u64> {
        // Whatever comes of it, the next commit need not ask again.
        self.next.store(self.pages.load(Relaxed) + self.every, Relaxed);
        for _ in 0..TRIES {
            let done = checkpoint(conn, "PASSIVE")?;
            if done.copied < done.pages {
                // A read keeps what follows it.
                self.copies.fetch_add(1, Relaxed);
                return Ok(done.pages);
            }
            // SQLite syncs the database when it has copied all of the log, and would do so for all of these pages at
            // once while the writer waits.
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

    /// Copies all of it while nobody reads or writes, so that it begins anew; answers whether it could.
    pub(super) fn cut(&self, conn: &Connection, how: Cut) -> Result<bool> {
        self.waited_for.store(true, Relaxed);
        let alone = self.turns.write();
        self.waited_for.store(false, Relaxed);
        // While another program reads, all that would come of it is that everybody waits for that.
        let mode = match how {
            Cut::Keep => "RESTART",
            Cut::Empty => "TRUNCATE",
        };
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

/// What becomes of the file of a log that begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It keeps its length and is written over.
    Keep,
    Empty,
}

/// The turn of the writer: others may read meanwhile, and the thread does not make it wait.
pub(super) struct WritersTurn<'a> {
    _write: RwLockReadGuard<'a, ()>,
    _turn: RwLockReadGuard<'a, ()>,
}

struct Checkpoint {
    busy: bool,
    /// Pages in the log.
    pages: u64,
    copied: u64,
}

fn checkpoint(conn: &Connection, mode: &str) -> Result<Checkpoint> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(conn.query_row(&sql, [], |row| {
        let (busy, pages, copied) = (row.get(0)?, count(row.get(1)?), count(row.get(2)?));
        Ok(Checkpoint { busy, pages, copied })
    })?)
}

enum Wake {
    Copy,
    /// Somebody wants the log to begin anew, and is told whether it does.
    Cut(Sender<Result<bool>>),
    End,
}

/// The thread. Dropped, it ends.
pub(super) struct Checkpoints {
    wake: Sender<Wake>,
    _thread: Joined,
}

impl Checkpoints {
    /// Takes copying over from `writer`, the writing connection of the store at `path`.
    pub(super) fn start(
        path: &Path,
        writer: &mut Connection,
        log: &Arc<Log>,
    ) -> Result<Checkpoints> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        // Nobody of this program is in the way; another may be for a moment.
        conn.busy_timeout(Duration::from_millis(50))?;
        conn.execute_batch("PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF;")?;
        // A log that one large transaction has made longer than the limit is cut when it begins anew.
        let limit = i64::try_from(log.limit * PAGE_BYTES).unwrap_or(i64::MAX);
        writer.pragma_update_and_check(None, "journal_size_limit", limit, |_| Ok(()))?;
        let (wake, woken) = bounded(1);
        let (noted, waker) = (Arc::clone(log), wake.clone());
        // There is one such hook; SQLite's own copying, which this replaces, is another.
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            if noted.note(u64::try_from(pages).unwrap_or(0)) {
                // When it is full, the thread is awake.
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

    /// Copies all of the log into the database and begins it anew; answers whether nobody was in the way. Blocks the
    /// thread.
    pub(super) fn cut(&self) -> Result<bool> {
        let (answer, answered) = bounded(1);
        self.wake.send(Wake::Cut(answer)).map_err(|_| StoreError::Closed)?;
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        // It always takes the next message: at most one copy is waited for.
        let _ = self.wake.send(Wake::End);
    }
}

fn work(conn: &Connection, log: &Log, woken: &Receiver<Wake>) {
    let (mut rest, mut not_before) = (SHORTEST_REST, None);
    while let Ok(wake) = woken.recv() {
        match wake {
            Wake::Copy => {}
            Wake::Cut(answer) => {
                // What can be copied while others go on is copied first: they all wait for the rest.
                let _ = answer.send(log.copy(conn).and_then(|_| log.cut(conn, Cut::Empty)));
                continue;
            }
            Wake::End => break,
        }
        let is_long = match log.copy(conn) {
            Ok(pages) => pages >= log.limit,
            Err(error) => {
                // A full disk; the writes say so.
                tracing::debug!(%error, "cannot copy the write-ahead log into the database");
                false
            }
        };
        if !is_long || not_before.is_some_and(|at| Instant::now() < at) {
            continue;
        }
        let cut = log.cut(conn, Cut::Keep);
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
