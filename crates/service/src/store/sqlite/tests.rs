//! The writer, on a real file.

mod bounds;

use crate::config::Sources;
use crate::store::{Result, Store, StoreError, Tx, params};
use madang_testing::until_async;
use rusqlite::{Connection, StatementStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

fn open(dir: &std::path::Path, group: usize) -> Store {
    let settings = Sources::new().resolve().unwrap().database;
    Store::open(dir, &crate::config::DatabaseSettings { commit_group: group, ..settings }).unwrap()
}

async fn opened(group: usize) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), group);
    with_notes(&store).await;
    (dir, store)
}

/// Adds tables, so that the tests need no system's.
async fn with_notes(store: &Store) {
    store
        .execute(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n < 100));
             CREATE TABLE parts (note INTEGER NOT NULL REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED);",
        )
        .await;
}

fn insert(tx: &Tx<'_>, n: i64) -> Result<()> {
    tx.run("INSERT INTO notes (n) VALUES (?)", params![n])?;
    Ok(())
}

async fn notes(store: &Store) -> Vec<i64> {
    store
        .read(|conn| conn.rows("SELECT n FROM notes ORDER BY id", &[], |row| row.get(0)))
        .await
        .unwrap()
}

type Job = Box<dyn Fn(&mut Tx<'_>) -> Result<()> + Send>;

/// Runs jobs in one commit: the writer is held until all of them wait.
async fn in_one_group(store: &Store, jobs: Vec<Job>) -> Vec<Result<()>> {
    behind(store, |_| Ok(()), |_| Ok(()), jobs).await.1
}

/// Runs jobs that wait, in this order, while another holds the writer, which does `before` and `after`.
async fn behind(
    store: &Store,
    before: fn(&Tx<'_>) -> Result<()>,
    after: fn(&Tx<'_>) -> Result<()>,
    jobs: Vec<Job>,
) -> (Result<()>, Vec<Result<()>>) {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let started = Arc::new(Notify::new());
    let held = Arc::clone(&started);
    let holder = tokio::spawn({
        let store = store.clone();
        async move {
            let job = move |tx: &mut Tx<'_>| {
                before(tx)?;
                started.notify_one();
                gate.recv().map_err(|_| StoreError::Closed)?;
                after(tx)
            };
            store.write(job).await
        }
    });
    held.notified().await;
    let mut waiting = Vec::new();
    for (count, job) in (1..).zip(jobs) {
        let this = store.clone();
        waiting.push(tokio::spawn(async move { this.write(job).await }));
        until_async("it waits", || store.metrics().waiting_writes >= count).await;
    }
    release.send(()).unwrap();
    let held = holder.await.unwrap();
    let mut results = Vec::new();
    for result in waiting {
        results.push(result.await.unwrap());
    }
    (held, results)
}

/// Whether a deletion was signalled since the last call.
fn was_told(deletions: &Notify) -> bool {
    let told = std::pin::pin!(deletions.notified());
    told.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
}

#[tokio::test]
async fn a_failing_or_panicking_job_rolls_back_alone() {
    let (_dir, store) = opened(256).await;
    let before = store.metrics();
    let jobs: Vec<Job> = vec![
        Box::new(|tx| insert(tx, 1)),
        Box::new(|tx| insert(tx, 2).and_then(|()| insert(tx, 100))),
        Box::new(|tx| insert(tx, 3).map(|()| panic!("a bug"))),
        Box::new(|tx| insert(tx, 4)),
    ];
    let results = in_one_group(&store, jobs).await;
    assert_eq!(results[0], Ok(()));
    let refused = &results[1];
    assert!(
        matches!(refused, Err(StoreError::Constraint(text)) if text.contains("CHECK")),
        "{refused:?}"
    );
    assert_eq!(results[2], Err(StoreError::Panic("a bug".to_owned())));
    assert_eq!(results[3], Ok(()));
    assert_eq!(notes(&store).await, [1, 4]);
    let after = store.metrics();
    assert_eq!((after.commits - before.commits, after.failed_jobs - before.failed_jobs), (1, 2));
}

#[tokio::test]
async fn failing_jobs_at_the_head_of_a_group_leave_nothing_and_spoil_nothing() {
    let (_dir, store) = opened(256).await;
    let before = store.metrics();
    let jobs: Vec<Job> = vec![
        Box::new(|tx| insert(tx, 2).map(|()| panic!("a bug"))),
        Box::new(|tx| insert(tx, 3)),
        Box::new(|tx| insert(tx, 4).and_then(|()| insert(tx, 101))),
        Box::new(|tx| insert(tx, 5)),
    ];
    let (first, results) = behind(&store, |tx| insert(tx, 1), |tx| insert(tx, 100), jobs).await;
    assert!(matches!(first, Err(StoreError::Constraint(_))));
    assert_eq!(results[0], Err(StoreError::Panic("a bug".to_owned())));
    assert_eq!(results[1], Ok(()));
    assert!(matches!(results[2], Err(StoreError::Constraint(_))), "{:?}", results[2]);
    assert_eq!(results[3], Ok(()));
    assert_eq!(notes(&store).await, [3, 5]);
    let after = store.metrics();
    assert_eq!((after.commits - before.commits, after.failed_jobs - before.failed_jobs), (1, 3));
}

#[tokio::test]
async fn a_failing_commit_answers_every_job_in_it_and_keeps_nothing() {
    let (_dir, store) = opened(256).await;
    let deletions = store.deletions();
    let results = in_one_group(
        &store,
        vec![
            Box::new(|tx| {
                tx.effects().leave_rows();
                insert(tx, 1)
            }),
            // Deferred: the job itself succeeds, the COMMIT finds the missing parent.
            Box::new(|tx| tx.run("INSERT INTO parts (note) VALUES (4711)", &[]).map(drop)),
            Box::new(|tx| insert(tx, 2)),
        ],
    )
    .await;
    for result in &results {
        assert!(matches!(result, Err(StoreError::Commit(_))), "{result:?}");
        assert!(result.as_ref().is_err_and(StoreError::is_temporary));
    }
    assert!(!was_told(&deletions), "an effect of what was not committed");
    assert_eq!(notes(&store).await, Vec::<i64>::new());
    assert_eq!(store.metrics().failed_commits, 1);
    // The writer goes on.
    store.write(|tx| insert(tx, 7)).await.unwrap();
    assert_eq!(notes(&store).await, [7]);
}

#[tokio::test]
async fn a_full_store_answers_every_job_of_the_group_and_recovers() {
    let (_dir, store) = opened(256).await;
    let limit = |pages: i64| {
        move |tx: &mut Tx<'_>| -> Result<()> {
            Ok(tx.embedded().query_row(
                &format!("PRAGMA max_page_count={pages}"),
                [],
                |_| Ok(()),
            )?)
        }
    };
    store.write(limit(1)).await.unwrap();
    let results = in_one_group(&store, vec![
        Box::new(|tx| insert(tx, 1)),
        Box::new(|tx| {
            let many = "WITH RECURSIVE c(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM c WHERE i < 100000)
                        INSERT INTO notes (id, n) SELECT i, 1 FROM c";
            tx.run(many, &[]).map(drop)
        }),
        Box::new(|tx| insert(tx, 2)),
    ])
    .await;
    assert!(results.iter().any(|r| matches!(r, Err(StoreError::Full(_)))), "{results:?}");
    // The results agree with the rows.
    let kept = notes(&store).await;
    for (result, n) in [(&results[0], 1), (&results[2], 2)] {
        assert_eq!(result.is_ok(), kept.contains(&n), "{result:?}, kept {kept:?}");
    }
    store.write(limit(1_000_000)).await.unwrap();
    store.write(|tx| insert(tx, 9)).await.unwrap();
    assert!(notes(&store).await.contains(&9));
}

#[tokio::test]
async fn effects_and_outcome_are_told_after_the_commit_and_before_the_answer() {
    let (dir, store) = opened(256).await;
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let path = dir.path().join(super::FILE);
    let deletions = store.deletions();
    let told = Arc::clone(&deletions);
    let job = |tx: &mut Tx<'_>| {
        tx.effects().leave_rows();
        insert(tx, 1)
    };
    let committed = move |(): &()| {
        assert!(was_told(&told), "effects come first");
        // Another connection sees the row: the commit has happened.
        let conn = Connection::open(path).unwrap();
        let rows = conn.query_row("SELECT count(*) FROM notes", [], |r| r.get(0)).unwrap();
        count.store(rows, Ordering::SeqCst);
    };
    store.write_then(job, committed).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    let failed = |tx: &mut Tx<'_>| {
        tx.effects().leave_rows();
        Err::<(), _>(StoreError::KeyReused)
    };
    assert_eq!(store.write(failed).await, Err(StoreError::KeyReused));
    assert!(!was_told(&deletions), "an effect of what was rolled back");
}

#[tokio::test]
async fn a_group_of_one_commits_each_write() {
    let (_dir, store) = opened(1).await;
    let before = store.metrics().commits;
    let results = in_one_group(
        &store,
        (0..10).map(|n| Box::new(move |tx: &mut Tx<'_>| insert(tx, n)) as Box<_>).collect(),
    )
    .await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(
        store.metrics().commits - before,
        10,
        "the one that held the writer changed nothing"
    );
}

#[tokio::test]
async fn a_panic_after_the_commit_leaves_the_write_and_its_effects() {
    let (_dir, store) = opened(256).await;
    let job = |tx: &mut Tx<'_>| {
        tx.effects().leave_rows();
        insert(tx, 1)
    };
    assert_eq!(store.write_then(job, |()| panic!("a bug")).await, Ok(()));
    assert!(was_told(&store.deletions()));
    assert_eq!(notes(&store).await, [1]);
}

#[tokio::test]
async fn a_transaction_that_cannot_begin_answers_everybody_with_the_true_reason() {
    let (dir, store) = opened(256).await;
    store
        .write(|tx| Ok::<(), StoreError>(tx.embedded().busy_timeout(std::time::Duration::ZERO)?))
        .await
        .unwrap();
    // Another writer, where none should be, holds the lock.
    let other = Connection::open(dir.path().join(super::FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        assert_eq!(store.write(|tx| insert(tx, 1)).await, Err(StoreError::Busy));
    }
    other.execute_batch("ROLLBACK").unwrap();
    store.write(|tx| insert(tx, 2)).await.unwrap();
    assert_eq!(notes(&store).await, [2]);
}

#[tokio::test]
async fn a_commit_that_changed_nothing_is_not_counted() {
    let (_dir, store) = opened(64).await;
    let before = store.metrics();
    let nothing: Result<usize> = store.write(|tx| tx.run("UPDATE notes SET n = 1", &[])).await;
    assert_eq!(nothing, Ok(0));
    let refused: Result<()> = store
        .write(|tx| {
            insert(tx, 1)?;
            Err(StoreError::KeyReused)
        })
        .await;
    assert_eq!(refused, Err(StoreError::KeyReused));
    let after = store.metrics();
    assert_eq!((after.commits, after.commit_micros), (before.commits, before.commit_micros));
    store.write(|tx| insert(tx, 1)).await.unwrap();
    assert_eq!(store.metrics().commits, before.commits + 1);
}

#[test]
fn a_statement_with_a_limit_is_planned_once_whatever_its_values() {
    let plans = |conn: &Connection| {
        let mut statement = conn.prepare("SELECT value FROM json_each(?1) LIMIT ?2").unwrap();
        for limit in 1..5 {
            let mut rows = statement.query(rusqlite::params!["[1,2,3]", limit]).unwrap();
            while rows.next().unwrap().is_some() {}
        }
        statement.get_status(StatementStatus::RePrepare)
    };
    let conn = Connection::open_in_memory().unwrap();
    assert!(plans(&conn) > 0, "SQLite no longer plans by values: keep_plans is of no use");
    super::keep_plans(&conn, 1).unwrap();
    assert_eq!(plans(&conn), 0);
}
