//! Dependent rows of deletions.
#![allow(clippy::disallowed_types, reason = "fills the tables and looks at them")]

use super::*;
use crate::app::App;
use crate::config::{Origin, Sources};
use crate::http::Remover;
use crate::store::{FILE, Tx, plan, test_schema};
use rusqlite::{Connection, StatementStatus};

/// Users 1 and 2, and 3,000 of everything that depends on user 1, track 1 and article 1. User 2 has also run on track
/// 1, likes article 1, and has a post in the town of all posts.
const FILL: &str = "
    CREATE TEMP TABLE n (i INTEGER PRIMARY KEY);
    WITH RECURSIVE m (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM m LIMIT 3000) INSERT INTO n SELECT i FROM m;
    INSERT INTO users (id, nickname, password_hash, region_id, created_at_ms)
      VALUES (1, 'mina', '-', 11, 0), (2, 'juno', '-', 11, 0);
    INSERT INTO tracks (name, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms, owner_id)
      SELECT 't', 1, 2, 37.5, 127, randomblob(32), 0, 1 FROM n;
    INSERT INTO track_paths SELECT id, x'00' FROM tracks;
    INSERT INTO track_records (track_id, user_id, duration_ms, ran_at_ms, created_at_ms)
      SELECT 1, 1, 1000 + i, 0, 0 FROM n UNION ALL SELECT i, 1, 900, 0, 0 FROM n UNION ALL SELECT 1, 2, 2000, 0, 0;
    INSERT INTO track_bests SELECT i, 1, 900, 3000 + i FROM n;
    INSERT INTO track_bests VALUES (1, 2, 2000, 6001);
    INSERT INTO towns VALUES (1, 11010, '혜화동'), (2, 11010, '이화동');
    INSERT INTO posts (author_id, category_id, state_id, city_id, town_id, price, stock, status, created_at_ms,
                       updated_at_ms, title, item_name, content)
      SELECT 1, 1, 11, 11010, 1, 1, 1, 0, 0, 0, 'p', 'p', 'p' FROM n;
    INSERT INTO posts (author_id, category_id, state_id, city_id, town_id, price, stock, status, created_at_ms,
                       updated_at_ms, title, item_name, content, removed)
      VALUES (2, 1, 11, 11010, 1, 1, 1, 0, 0, 0, 'p', 'p', 'p', 1);
    INSERT INTO articles (author_id, title, created_at_ms, updated_at_ms, like_count) SELECT 1, 'a', 0, 0, 1 FROM n;
    INSERT INTO article_contents SELECT id, 'c' FROM articles;
    INSERT INTO article_comments (article_id, author_id, content, created_at_ms) SELECT 1, 1, 'c', 0 FROM n;
    INSERT INTO article_likes SELECT i, 1 FROM n UNION ALL SELECT 1, 2;
    UPDATE articles SET like_count = 2, comment_count = 3000 WHERE id = 1;
    INSERT INTO schedules (user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms)
      SELECT 1, 1, 's', i, i + 1, 0 FROM n;
    INSERT INTO schedule_counts VALUES (1, 3000);
    INSERT INTO idempotency_keys SELECT 1, '/', i, i, zeroblob(32), '1', 0 FROM n;
    DROP TABLE n;";

fn filled(dir: &std::path::Path) -> App {
    let mut sources = Sources::new();
    let flag = Origin::Flag("test".to_owned());
    sources.set("data.dir", &dir.to_string_lossy(), flag).unwrap();
    let app = App::open(&sources.resolve().unwrap()).unwrap();
    Connection::open(dir.join(FILE)).unwrap().execute_batch(FILL).unwrap();
    app
}

/// Sweeps the dependent rows of one id. Returns the rows that each sweep changed.
async fn sweeps(app: &App, kind: Leftovers, id: i64, rows: usize) -> Vec<u64> {
    let store = &app.store;
    let changes = || {
        store.write(|tx: &mut Tx<'_>| {
            Ok::<_, crate::store::StoreError>(tx.embedded().total_changes())
        })
    };
    let mut all = Vec::new();
    loop {
        let before = changes().await.unwrap();
        let more = kind.sweep(store, id, rows).await.unwrap();
        all.push(changes().await.unwrap() - before);
        if !more {
            return all;
        }
    }
}

#[test]
fn a_deletion_is_a_few_steps_however_much_hangs_on_its_row() {
    for foreign_keys in [true, false] {
        for (table, changed) in [("users", 2), ("tracks", 4), ("articles", 3)] {
            let conn = test_schema();
            conn.pragma_update(None, "foreign_keys", foreign_keys).unwrap();
            conn.execute_batch(FILL).unwrap();
            let before = conn.total_changes();
            let mut delete = conn.prepare(&format!("DELETE FROM {table} WHERE id = ?")).unwrap();
            assert_eq!(delete.execute([1]), Ok(1), "{table}");
            assert_eq!(delete.get_status(StatementStatus::FullscanStep), 0, "{table}");
            let steps = delete.get_status(StatementStatus::VmStep);
            assert!(steps < 1000, "{table}: {steps} steps");
            assert_eq!(conn.total_changes() - before, changed, "{table}");
        }
    }
}

#[test]
fn nothing_refers_to_users_by_a_foreign_key() {
    let conn = test_schema();
    let sql = "SELECT count(*) FROM sqlite_schema s, pragma_foreign_key_list(s.name) f
               WHERE s.type = 'table' AND f.\"table\" = 'users'";
    assert_eq!(conn.query_row(sql, [], |row| row.get(0)), Ok(0));
}

#[test]
fn every_statement_of_a_sweep_finds_its_rows_in_an_index() {
    let conn = test_schema();
    for step in [OF_USERS, tracks::LEFTOVERS, articles::LEFTOVERS]
        .iter()
        .flat_map(|kind| kind.dependents.iter().copied().flatten())
    {
        for sql in [step.find(), step.change()] {
            let plan = plan(&conn, &sql);
            assert!(plan.iter().all(|line| !line.starts_with("SCAN")), "{sql}: {plan:?}");
        }
    }
}

#[tokio::test]
async fn what_a_deleted_user_leaves_goes_and_everything_is_right_again() {
    let dir = tempfile::tempdir().unwrap();
    let app = filled(dir.path());
    let operator = Connection::open(dir.path().join(FILE)).unwrap();
    operator.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM users WHERE id = 1").unwrap();
    sweep_all(&app.articles, true).await.unwrap();
    for (rows, left) in [
        ("SELECT count(*) FROM deleted_users", 0),
        ("SELECT count(*) FROM tracks WHERE owner_id IS NULL", 3000),
        ("SELECT count(*) FROM posts WHERE author_id IS NULL", 3000),
        ("SELECT count(*) FROM articles WHERE author_id IS NULL", 3000),
        ("SELECT count(*) FROM article_comments WHERE author_id IS NULL", 3000),
        ("SELECT count(*) FROM track_records", 1),
        ("SELECT count(*) FROM track_bests", 1),
        ("SELECT count(*) FROM schedules", 0),
        ("SELECT count(*) FROM schedule_counts", 0),
        ("SELECT count(*) FROM idempotency_keys", 0),
        ("SELECT count(*) FROM article_likes", 1),
        ("SELECT sum(like_count) FROM articles", 1),
        ("SELECT like_count FROM articles WHERE id = 1", 1),
    ] {
        assert_eq!(app.store.number(rows).await, left, "{rows}");
    }
    let wrong = app.articles.store().compare(0, 10_000).await.unwrap();
    assert!(wrong.iter().all(|one| one.kept == one.rows));
}

#[tokio::test]
async fn what_a_deleted_track_leaves_goes_in_small_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let app = filled(dir.path());
    assert_eq!(app.tracks.store().delete(1, Remover::Operator).await.unwrap(), Ok(()));
    // Its runs, the personal bests, and the note itself.
    assert_eq!(sweeps(&app, tracks::LEFTOVERS, 1, 1000).await, [1000, 1000, 1000, 5]);
    let left = "SELECT (SELECT count(*) FROM track_records WHERE track_id = 1)
         + (SELECT count(*) FROM track_bests WHERE track_id = 1)
         + (SELECT count(*) FROM track_paths WHERE track_id = 1)
         + (SELECT count(*) FROM track_starts WHERE id = 1) + (SELECT count(*) FROM deleted_tracks)";
    assert_eq!(app.store.number(left).await, 0);
    assert_eq!(app.store.number("SELECT count(*) FROM track_bests").await, 2999);
}

#[tokio::test]
async fn towns_without_posts_go_and_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let app = filled(dir.path());
    // Only the post that was removed is left.
    let operator = Connection::open(dir.path().join(FILE)).unwrap();
    operator.execute_batch("DELETE FROM posts WHERE author_id = 1").unwrap();
    sweep_all(&app.articles, false).await.unwrap();
    assert_eq!(app.store.number("SELECT count(*) FROM towns").await, 2, "not asked for");
    let mut looked = Vec::new();
    let mut after = Some(0);
    while let Some(town) = after {
        after = posts::sweep_towns(&app.store, town, 1).await.unwrap();
        looked.extend(after);
    }
    assert_eq!(looked, [1, 2], "one at a time");
    assert_eq!(app.store.number("SELECT id FROM towns").await, 1);
    assert_eq!(app.store.number("SELECT count(*) FROM towns").await, 1);
}
