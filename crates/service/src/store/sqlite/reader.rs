//! A reading connection, whose reads end at a deadline or when their caller is gone.

use super::log::Log;
use super::{Conn, Result};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Time limit of a read for a request: half of the default of `server.request_timeout`, and far more than any request
/// needs.
pub(crate) const READ_TIME: Duration = Duration::from_secs(5);

/// Steps of SQLite's virtual machine between two checks of the bounds: about 20 µs.
const STEPS: i32 = 1000;

pub(super) struct Reader {
    // Closed before the log's descriptor.
    conn: Connection,
    log: Arc<Log>,
}

impl Reader {
    pub(super) fn open(path: &Path, log: Arc<Log>) -> Result<Reader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(Duration::from_secs(5))?;
        // 2 MiB of page cache for each reader: the index pages of a busy listing, not the whole store.
        conn.execute_batch(
            "PRAGMA query_only=ON; PRAGMA cache_size=-2048; PRAGMA trusted_schema=OFF;",
        )?;
        super::keep_plans(&conn, 64)?;
        Ok(Reader { conn, log })
    }

    /// Runs one read transaction. It is interrupted after `time`, or when the caller drops its side of `waits`.
    pub(super) fn run<T>(
        &mut self,
        time: Option<Duration>,
        waits: Weak<()>,
        job: impl FnOnce(&Conn<'_>) -> Result<T>,
    ) -> Result<T> {
        let _turn = self.log.turn();
        let (began, log) = (Instant::now(), Arc::clone(&self.log));
        let is_over = move || {
            let late = |time| {
                let took = began.elapsed();
                took >= time || log.is_held_up(took)
            };
            waits.strong_count() == 0 || time.is_some_and(late)
        };
        self.conn.progress_handler(STEPS, Some(is_over))?;
        let tx = self.conn.unchecked_transaction()?;
        let value = job(&Conn::sqlite(&tx))?;
        tx.finish()?;
        Ok(value)
    }
}
