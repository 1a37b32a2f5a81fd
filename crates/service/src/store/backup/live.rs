//! A copy of the embedded store's files while they are in use.
//!
//! **As bytes.** A read transaction stays open while the database and its write-ahead log are copied. While it is
//! open, only pages that are in the log are written to the database, and no part of the log that it reads is
//! overwritten (sqlite.org/walformat.html, "Checkpoints"). So the copy of the database may mix old and new pages: its
//! copy of the log has the right ones, and SQLite applies them when it opens both. Page by page, as in the backup
//! API, the same takes about four times the processor time.
//!
//! **In two passes.** The log cannot restart while the transaction is open. So nearly all is copied before, slowly and
//! without a transaction; within it, both files are read and the differences are copied again.

use super::chain::fill;
use super::pace::Pace;
use super::quiet;
use super::snapshot::open;
use crate::store::sqlite::{beside, checkpoint, schema_version};
use crate::store::{Result, StoreError, private};
use std::fs::File;
use std::io::{self, ErrorKind, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes copied at a time.
const CHUNK: usize = 256 << 10;
/// Time limit of pauses while the transaction is open, because the log grows.
const LEISURE: Duration = Duration::from_secs(1);
/// Bytes of the header of a log, which changes with each restart.
const LOG_HEAD: usize = 32;

/// Copies the store in `from` to a new file `to`; `watch` gets the bytes done and the total.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    pace: &mut Pace,
    mut watch: impl FnMut(u64, u64),
) -> Result<()> {
    let of_file = |error: io::Error| StoreError::of_file(&error);
    let file = File::open(from).map_err(of_file)?;
    // Closed before the file, because that ends all locks of this process on it, SQLite's too (fcntl(2)).
    let conn = open(from)?;
    if schema_version(&conn)? == 0 {
        return Err(StoreError::Foreign(format!("{} is an empty file", from.display())));
    }
    let target = private::open(to).map_err(of_file)?;
    let all = file.metadata().map_err(of_file)?.len();
    let mut synced = 0;
    let first = copy_differing(&file, &target, |done| {
        watch(done.min(all), all);
        pace.step();
        // Otherwise the system writes all at once, half a minute later.
        if done - synced >= quiet::STEP as u64 {
            synced = done;
            target.sync_data()?;
        }
        Ok(())
    });
    first.map_err(of_file)?;
    conn.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let began = Instant::now();
    let second = copy_differing(&file, &target, |_| {
        if began.elapsed() < LEISURE {
            pace.step();
        }
        Ok(())
    });
    let copied = second.and_then(|()| copy_log(&log_of(from), &log_of(to)));
    let ended = conn.execute_batch("COMMIT");
    copied.map_err(of_file)?;
    ended?;
    drop(target);
    drop(conn);
    drop(file);
    fold(to)
}

fn log_of(file: &Path) -> PathBuf {
    beside(file, "-wal")
}

/// Makes `to` equal to `from`, and writes only what differs.
fn copy_differing(
    from: &File,
    to: &File,
    mut done: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    loop {
        let read = fill_at(from, &mut theirs, at)?;
        let there = fill_at(to, &mut ours[..read], at)?;
        if ours[..there] != theirs[..read] {
            to.write_all_at(&theirs[..read], at)?;
        }
        at += read as u64;
        done(at)?;
        if read < CHUNK {
            break;
        }
    }
    // Truncated only if longer, because ext4 writes all of a truncated file to the disk when it is closed.
    if to.metadata()?.len() > at { to.set_len(at) } else { Ok(()) }
}

/// Reads from `at` until `into` is full, or to the end. Returns the bytes read.
fn fill_at(mut file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(at))?;
    fill(&mut file, into)
}

/// Copies a write-ahead log, if there is one, while it grows.
///
/// If the database had all of the log when the transaction began, the log may restart once meanwhile. A copy with an
/// old beginning and a new rest would restore old pages, so it is repeated.
fn copy_log(from: &Path, to: &Path) -> io::Result<()> {
    let from = match File::open(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let to = private::open(to)?;
    for _ in 0..3 {
        let before = head(&from)?;
        copy_differing(&from, &to, |_| Ok(()))?;
        if head(&from)? == before {
            return Ok(());
        }
    }
    Err(io::Error::other("the write-ahead log began anew while it was copied"))
}

fn head(log: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; LOG_HEAD];
    let read = fill_at(log, &mut head, 0)?;
    head.truncate(read);
    Ok(head)
}

/// Applies the copied log to the copied database.
fn fold(copy: &Path) -> Result<()> {
    let conn = open(copy)?;
    conn.execute_batch("PRAGMA synchronous=OFF")?;
    let done = checkpoint(&conn, "TRUNCATE")?;
    if done.busy || done.pages != done.copied {
        return Err(StoreError::Busy);
    }
    conn.close().map_err(|(_, error)| error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// A database in write-ahead mode whose rows have the same number and a page each.
    fn made(file: &Path) -> Connection {
        let mut conn = Connection::open(file).unwrap();
        crate::store::sqlite::run_to(&mut conn, 1).unwrap();
        conn.execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE rows (number INTEGER, filler BLOB);
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000)
             INSERT INTO rows SELECT 0, zeroblob(3000) FROM n",
        )
        .unwrap();
        conn
    }

    /// Asserts that all rows of a copy have one number, and returns it.
    fn whole(copy: &Path) -> i64 {
        let conn = Connection::open(copy).unwrap();
        let found: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
        let of_rows = "SELECT count(*), min(number), max(number) FROM rows";
        let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (rows, least, most): (i64, i64, i64) = conn.query_row(of_rows, [], columns).unwrap();
        assert_eq!((rows, least), (2000, most), "a mixture of several moments");
        least
    }

    /// Ends a writer with its scope, also when the test fails.
    struct Ends<'e>(&'e AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    fn copied(from: &Path, to: &Path) -> i64 {
        let _ = std::fs::remove_file(to);
        copy(from, to, &mut Pace::new(), |_, _| {}).unwrap();
        assert!(!log_of(to).exists());
        whole(to)
    }

    #[test]
    fn a_copy_is_of_one_moment_while_pages_are_written_and_the_log_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let conn = made(&from);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (ended, _ends) = (&ended, Ends(&ended));
            scope.spawn(move || {
                // Each transaction changes all pages; most are then copied into the database.
                for n in 1.. {
                    conn.execute("UPDATE rows SET number = ?1, filler = randomblob(3000)", [n])
                        .unwrap();
                    if n % 3 > 0 {
                        let copy = "PRAGMA wal_checkpoint(PASSIVE)";
                        conn.query_row(copy, [], |_| Ok(())).unwrap();
                    }
                    if ended.load(Relaxed) {
                        break;
                    }
                }
            });
            let copies: Vec<_> = (0..20).map(|_| copied(&from, &to)).collect();
            assert!(copies.is_sorted() && copies[0] < copies[19], "{copies:?}");
        });
    }

    #[test]
    fn what_is_only_in_the_log_is_copied_and_so_is_a_store_without_one() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let conn = made(&from);
        conn.execute("UPDATE rows SET number = 7", []).unwrap();
        assert_eq!(copied(&from, &to), 7);
        conn.close().unwrap();
        assert!(!log_of(&from).exists());
        assert_eq!(copied(&from, &to), 7);
    }

    #[test]
    fn a_second_pass_writes_what_differs_and_cuts_what_is_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let file = private::open(&dir.path().join(name)).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file
        };
        let same = |from: &File, to: &File| {
            copy_differing(from, to, |_| Ok(())).unwrap();
            let read = |file: &File| {
                let mut bytes = vec![0; 3 * CHUNK];
                let read = fill_at(file, &mut bytes, 0).unwrap();
                bytes.truncate(read);
                bytes
            };
            assert!(read(from) == read(to));
        };
        let to = file("to", b"");
        for (n, length) in [2 * CHUNK + 5, 0, CHUNK, CHUNK - 1, 2 * CHUNK].into_iter().enumerate() {
            let mut bytes = vec![n as u8; length];
            let from = file(&format!("from-{n}"), &bytes);
            same(&from, &to);
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
                from.write_all_at(&bytes, 0).unwrap();
                same(&from, &to);
            }
        }
    }
}
