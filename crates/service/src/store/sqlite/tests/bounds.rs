//! Bounds of reads and of the write-ahead log.

use super::super::Reader;
use super::*;
use crate::config::DatabaseSettings;
use crate::store::Conn;
use madang_testing::until;
use rusqlite::Connection;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn open_with(dir: &std::path::Path, readers: usize, log_limit: usize) -> Store {
    let settings = Sources::new().resolve().unwrap().database;
    let settings = DatabaseSettings { max_connections: Some(readers), log_limit, ..settings };
    Store::open(dir, &settings).unwrap()
}

async fn opened_with(readers: usize, log_limit: usize) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = open_with(dir.path(), readers, log_limit);
    with_notes(&store).await;
    (dir, store)
}

fn endless(conn: &Conn<'_>) -> Result<i64> {
    let sql =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    conn.one(sql, &[])
}

const BLOBS: &str = "CREATE TABLE blobs (b BLOB)";

fn insert_blob(tx: &mut Tx<'_>) -> Result<()> {
    tx.run("INSERT INTO blobs VALUES (zeroblob(65536))", &[])?;
    Ok(())
}

async fn within_a_minute<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it never ended")
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_given_up_and_its_reader_reads_on() {
    let (_dir, store) = opened_with(1, 64 << 20).await;
    for _ in 0..3 {
        let late = store.read_within(Some(Duration::from_millis(20)), endless);
        let late = within_a_minute(late).await;
        assert!(matches!(late, Err(StoreError::GivenUp(_))), "{late:?}");
        assert!(late.is_err_and(|error| error.is_temporary()));
        assert_eq!(notes(&store).await, Vec::<i64>::new());
    }
}

#[tokio::test]
async fn a_read_whose_caller_has_left_is_given_up() {
    let (_dir, store) = opened_with(1, 64 << 20).await;
    let (began, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let left = tokio::spawn({
        let store = store.clone();
        async move {
            let job = move |conn: &Conn<'_>| {
                let _ = began.send(());
                endless(conn)
            };
            store.read_within(None, job).await
        }
    });
    begins.recv().await.unwrap();
    left.abort();
    assert_eq!(within_a_minute(notes(&store)).await, Vec::<i64>::new());
}

/// `SOAK_ROUNDS` multiplies the writes; `make soak` runs for minutes.
#[tokio::test]
async fn the_log_stays_short_while_reads_overlap_all_the_time() {
    const LIMIT: usize = 1 << 20;
    let rounds = std::env::var("SOAK_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let (_dir, store) = opened_with(4, LIMIT).await;
    store.execute(BLOBS).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, done) = (store.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                // A snapshot, held for some milliseconds; the next one of another task begins before it ends.
                let job = |conn: &Conn<'_>| {
                    conn.only("SELECT count(*) FROM notes", &[], |_| Ok(()))?;
                    let some = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000)
                                SELECT count(*) FROM n";
                    conn.only(some, &[], |_| Ok(()))
                };
                let mut reads = 0;
                while !done.load(Relaxed) {
                    match within_a_minute(store.read(job)).await {
                        Ok(()) => reads += 1,
                        // On a busy machine it took so long that all transactions waited for it.
                        Err(StoreError::GivenUp(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                reads
            })
        })
        .collect();
    let mut longest = 0;
    for _ in 0..300 * rounds {
        within_a_minute(store.write(insert_blob)).await.unwrap();
        longest = longest.max(store.sizes().files.unwrap().log_bytes);
    }
    done.store(true, Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    let written = 300 * rounds * 65536;
    // At twice the limit the writer waits.
    assert!(longest <= 3 * LIMIT as u64, "{longest} bytes of log, {written} written");
    assert!(store.metrics().log_cuts > 0);
    assert_eq!(notes(&store).await, Vec::<i64>::new());
}

/// A log that nobody reads restarts after the second copy, for which the writer waits. Without it the log would grow to
/// its limit, and each page would go to new blocks of the disk.
#[tokio::test]
async fn the_log_of_writes_alone_begins_anew_long_before_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_with(dir.path(), 1, 1 << 30);
    store.execute(BLOBS).await;
    let log = || store.sizes().files.unwrap().log_bytes;
    let mut written: u64 = 0;
    // 64 MiB; more on a busy machine, where the thread may be late at first.
    while written < 1000 << 16 || log() > written / 2 && written < 256 << 20 {
        within_a_minute(store.write(insert_blob)).await.unwrap();
        written += 1 << 16;
    }
    assert!(log() <= written / 2, "{} bytes of log, {written} written", log());
    assert_eq!(store.metrics().log_cuts, 0);
}

#[tokio::test]
async fn a_snapshot_of_another_program_delays_the_end_of_the_log_and_no_write() {
    let (dir, store) = opened_with(2, 64 << 10).await;
    store.write(|tx| insert(tx, 1)).await.unwrap();
    let other = Connection::open(dir.path().join(super::super::FILE)).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM notes").unwrap();
    let seen: i64 = other.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap();
    let cuts = store.metrics().log_cuts;
    for n in 0..60 {
        within_a_minute(store.write(move |tx| insert(tx, n))).await.unwrap();
    }
    assert_eq!(store.metrics().log_cuts, cuts, "it was cut under somebody's feet");
    assert_eq!(other.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)), Ok(seen));
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(notes(&store).await.len(), 61);
}

#[test]
fn a_log_that_begins_anew_at_its_limit_is_written_over_and_one_that_is_emptied_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    drop(open_with(dir.path(), 1, 1 << 20));
    let path = dir.path().join(super::super::FILE);
    let length = || std::fs::metadata(super::super::beside(&path, "-wal")).unwrap().len();
    let conn = Connection::open(&path).unwrap();
    let insert = "INSERT INTO blobs VALUES (zeroblob(100000))";
    conn.execute_batch("PRAGMA wal_autocheckpoint=0; CREATE TABLE blobs (b BLOB)").unwrap();
    conn.execute_batch(insert).unwrap();
    let log = super::super::Log::new(tempfile::tempfile().unwrap(), 1 << 20);
    let long = length();
    assert!(long > 100_000);
    assert_eq!(log.cut(&conn, "RESTART"), Ok(true));
    assert_eq!(length(), long, "its blocks are kept");
    conn.execute_batch(insert).unwrap();
    assert_eq!(length(), long, "it is written over");
    assert_eq!(log.cut(&conn, "TRUNCATE"), Ok(true));
    assert_eq!(length(), 0);
}

#[test]
fn a_read_is_held_up_only_while_the_log_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    drop(open_with(dir.path(), 1, 1 << 20));
    let log = super::super::Log::new(tempfile::tempfile().unwrap(), 1 << 20);
    let mut reader = Reader::open(&dir.path().join(super::super::FILE), Arc::clone(&log)).unwrap();
    let here = Arc::new(());
    let soon = Some(Duration::from_millis(1));
    assert!(reader.run(soon, Arc::downgrade(&here), endless).is_err());
    assert!(!log.is_held_up(Duration::from_secs(9)), "nobody waits");
    let cut = std::thread::scope(|scope| {
        let held = log.turn();
        let path = dir.path().join(super::super::FILE);
        let conn = Connection::open(path).unwrap();
        let shared = Arc::clone(&log);
        let waits = scope.spawn(move || shared.cut(&conn, "TRUNCATE"));
        until("it waits", || log.is_held_up(Duration::from_secs(9)).then_some(()));
        assert!(!log.is_held_up(Duration::from_millis(1)), "a short one may end");
        drop(held);
        waits.join().unwrap()
    });
    assert_eq!(cut, Ok(true));
    assert!(!log.is_held_up(Duration::from_secs(9)), "and nobody waits again");
    let late = Some(Duration::from_secs(60));
    assert_eq!(reader.run(late, Arc::downgrade(&here), |_| Ok(7)), Ok(7));
}
