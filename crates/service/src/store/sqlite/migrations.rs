//! Schema versions. A released migration never changes; a new one is added below it.

use super::{Result, StoreError};
use rusqlite::{Connection, TransactionBehavior};

/// Each file brings the schema from version `index` to `index + 1`.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tracks.sql"),
    include_str!("migrations/0002_accounts.sql"),
    include_str!("migrations/0003_schedules.sql"),
    include_str!("migrations/0004_track_records.sql"),
    include_str!("migrations/0005_idempotency.sql"),
    include_str!("migrations/0006_markets.sql"),
    include_str!("migrations/0007_posts.sql"),
    include_str!("migrations/0008_articles.sql"),
    include_str!("migrations/0009_like_log.sql"),
    include_str!("migrations/0010_deletions.sql"),
    include_str!("migrations/0011_search.sql"),
    include_str!("migrations/0012_sessions.sql"),
];

pub(crate) const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// SQLite's `application_id` of a store: `MADG` in ASCII.
const APPLICATION_ID: i64 = 0x4d41_4447;

/// The schema version of a store; 0 of an empty file. A file of another program, or of a newer version of this one, is
/// [`StoreError::Foreign`].
pub(crate) fn version(conn: &Connection) -> Result<usize> {
    let id: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if id != APPLICATION_ID && (id != 0 || tables > 0) {
        return Err(StoreError::Foreign("the database file belongs to another program".to_owned()));
    }
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > MIGRATIONS.len() {
        return Err(StoreError::Foreign(format!(
            "the database has schema version {version}, this program knows up to {}; use a newer program",
            MIGRATIONS.len()
        )));
    }
    Ok(version)
}

/// Upgrades the schema to the newest version, each step in its own transaction.
pub(super) fn run(conn: &mut Connection) -> Result<()> {
    run_to(conn, MIGRATIONS.len())
}

/// Upgrades the schema to this version.
pub(crate) fn run_to(conn: &mut Connection, last: usize) -> Result<()> {
    let version = version(conn)?;
    for (done, sql) in MIGRATIONS.iter().enumerate().take(last).skip(version) {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(sql)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", i64::try_from(done + 1).unwrap_or(i64::MAX))?;
        tx.commit()?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) fn test_schema() -> Connection {
    let mut conn = Connection::open_in_memory().expect("memory");
    run(&mut conn).expect("an empty file takes the schema");
    conn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;
    use crate::store::{FILE, Store};
    use std::path::Path;

    /// A file of version 1 with a track, as the first release leaves it.
    fn filled_version_1() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "foreign_keys", true).unwrap();
        conn.execute_batch(MIGRATIONS[0]).unwrap();
        conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        conn.pragma_update(None, "user_version", 1).unwrap();
        conn.execute_batch(
            "INSERT INTO tracks VALUES (7, '한강', 4.5, 1234.5, 3, 37.5, 127.0, zeroblob(32), 99);
             INSERT INTO track_paths VALUES (7, x'0102');
             INSERT INTO tracks VALUES (9, 'gone', 0, 1, 2, 1, 1, randomblob(32), 99);
             DELETE FROM tracks WHERE id = 9;",
        )
        .unwrap();
        conn
    }

    #[test]
    fn a_filled_file_of_version_1_keeps_its_rows_when_it_is_brought_up_to_date() {
        let mut conn = filled_version_1();
        run(&mut conn).unwrap();
        assert_eq!(version(&conn), Ok(MIGRATIONS.len()));
        let track = "SELECT name || ' ' || rate || ' ' || length_metres || ' ' || points || ' ' || start_lat
             || ' ' || start_lon || ' ' || hex(path) || ' ' || ifnull(owner_id, 'nobody')
             FROM tracks JOIN track_paths ON track_id = id WHERE id = 7";
        let track: String = conn.query_row(track, [], |row| row.get(0)).unwrap();
        assert_eq!(track, "한강 4.5 1234.5 3 37.5 127.0 0102 nobody");
        let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("SELECT id FROM track_starts WHERE lat > 37"), 7);
        assert_eq!(number("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        // Newer tables work on older rows, and a used id stays used.
        conn.execute_batch(
            "INSERT INTO users VALUES (1, 'mina', '-', 11, 0);
             INSERT INTO track_records VALUES (1, 7, 1, 60000, 0, 0);
             INSERT INTO track_bests VALUES (7, 1, 60000, 1);
             INSERT INTO tracks (name, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms, owner_id)
             VALUES ('new', 1, 2, 0, 0, randomblob(32), 0, 1);",
        )
        .unwrap();
        assert_eq!(number("SELECT max(id) FROM tracks"), 10);
        conn.execute("DELETE FROM tracks WHERE id = 7", []).unwrap();
        for gone in ["track_paths", "track_starts WHERE id = 7"] {
            assert_eq!(number(&format!("SELECT count(*) FROM {gone}")), 0, "{gone}");
        }
        assert_eq!(number("SELECT id FROM deleted_tracks"), 7);
    }

    #[test]
    fn a_filled_file_of_version_9_keeps_its_rows_and_lets_users_go() {
        let mut conn = filled_version_1();
        run_to(&mut conn, 9).unwrap();
        // Rows of users 8 and 9 were left by a connection without foreign keys.
        conn.execute_batch(
            "PRAGMA foreign_keys = OFF;
             INSERT INTO users VALUES (1, 'mina', '-', 11, 0), (2, 'juno', '-', 11, 0);
             UPDATE tracks SET owner_id = 1 WHERE id = 7;
             INSERT INTO tracks (name, length_metres, points, start_lat, start_lon, fingerprint, created_at_ms)
             VALUES ('pole', 1, 2, -90, 180, randomblob(32), 0);
             INSERT INTO schedule_counts VALUES (8, 1);
             INSERT INTO track_records VALUES (1, 7, 1, 100, 0, 0), (2, 7, 2, 200, 0, 0), (3, 7, 9, 50, 0, 0);
             INSERT INTO track_bests VALUES (7, 1, 100, 1), (7, 2, 200, 2), (7, 9, 50, 3);
             INSERT INTO towns VALUES (1, 11010, '혜화동');
             INSERT INTO posts (author_id, category_id, state_id, city_id, town_id, price, stock, status,
                                created_at_ms, updated_at_ms, title, item_name, content)
             VALUES (1, 1, 11, 11010, 1, 1, 1, 0, 0, 0, 'p', 'p', 'p');
             INSERT INTO articles VALUES (1, 1, 'a', 0, 0, 1, 1);
             INSERT INTO article_contents VALUES (1, 'a');
             INSERT INTO article_comments VALUES (1, 1, 1, 'c', 0);
             INSERT INTO article_likes VALUES (1, 1);
             INSERT INTO deleted_articles VALUES (17);
             INSERT INTO schedules VALUES (1, 1, 1, 's', 0, 1, 0);
             INSERT INTO schedule_counts VALUES (1, 1);
             PRAGMA foreign_keys = ON;",
        )
        .unwrap();
        run(&mut conn).unwrap();
        let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let text = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(text("PRAGMA integrity_check"), "ok");
        assert_eq!(number("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        let starts = "SELECT group_concat(id || ' ' || lat || ' ' || lon || ' ' || (cell = start_cell), ', ')
             FROM (SELECT s.*, t.start_cell FROM track_starts s JOIN tracks t USING (id) ORDER BY id)";
        assert_eq!(text(starts), "7 37.5 127.0 1, 10 -90.0 180.0 1");
        assert_eq!(text("SELECT group_concat(id) FROM deleted_users"), "8,9");
        assert_eq!(number("SELECT id FROM deleted_articles"), 17);
        for (table, rows) in [
            ("tracks", 2),
            ("track_records", 3),
            ("track_bests", 3),
            ("posts", 1),
            ("articles", 1),
            ("article_comments", 1),
            ("article_likes", 1),
            ("schedules", 1),
            ("schedule_counts", 2),
            // To be indexed: a post and an article.
            ("search_changes", 2),
        ] {
            assert_eq!(number(&format!("SELECT count(*) FROM {table}")), rows, "{table}");
        }
        conn.execute_batch("DELETE FROM users; UPDATE tracks SET start_lat = 10 WHERE id = 7")
            .unwrap();
        assert_eq!(number("SELECT count(*) FROM deleted_users"), 4);
        assert_eq!(number("SELECT count(*) FROM track_starts WHERE id = 7 AND lat = 10"), 1);
        conn.execute_batch("DELETE FROM tracks").unwrap();
        assert_eq!(number("SELECT count(*) FROM track_starts"), 0);
        assert_eq!(number("SELECT count(*) FROM deleted_tracks"), 2);
    }

    #[test]
    fn a_copy_is_kept_before_an_upgrade_and_named_when_an_older_program_refuses_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        filled_version_1().execute("VACUUM INTO ?", [file.to_str().unwrap()]).unwrap();
        run_to(&mut Connection::open(&file).unwrap(), 9).unwrap();
        let open = || Store::open(dir.path(), &Sources::new().resolve().unwrap().database);
        drop(open().unwrap());
        let of = |path: &Path| {
            let conn = Connection::open(path).unwrap();
            let tracks: i64 =
                conn.query_row("SELECT count(*) FROM tracks", [], |row| row.get(0)).unwrap();
            (version(&conn).unwrap(), tracks)
        };
        let kept = dir.path().join("madang.db.schema-9");
        assert_eq!([of(&file), of(&kept)], [(MIGRATIONS.len(), 1), (9, 1)]);
        // A newer program leaves such a version.
        let conn = Connection::open(&file).unwrap();
        conn.pragma_update(None, "user_version", 1_000_000).unwrap();
        drop(conn);
        let refused = |error: StoreError| error.to_string();
        let text = refused(open().err().unwrap());
        assert!(text.contains("use a newer program") && !text.contains("go back"), "{text}");
        let copy = dir.path().join(format!("madang.db.schema-{SCHEMA_VERSION}"));
        std::fs::rename(&kept, &copy).unwrap();
        let text = refused(open().err().unwrap());
        assert!(text.contains(copy.to_str().unwrap()) && text.contains("go back"), "{text}");
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it_whole() {
        let mut conn = filled_version_1();
        // In the way of the third step, after part of it was done.
        conn.execute_batch("CREATE TABLE schedule_counts (other TEXT)").unwrap();
        assert!(run(&mut conn).is_err());
        assert_eq!(version(&conn), Ok(2));
        let names = "SELECT count(*) FROM sqlite_schema WHERE name IN ('locations', 'schedules')";
        assert_eq!(conn.query_row(names, [], |row| row.get(0)), Ok(0));
        conn.execute_batch("DROP TABLE schedule_counts").unwrap();
        run(&mut conn).unwrap();
        assert_eq!(version(&conn), Ok(MIGRATIONS.len()));
        assert_eq!(conn.query_row("SELECT count(*) FROM tracks", [], |row| row.get(0)), Ok(1));
    }

    #[test]
    fn a_newer_or_foreign_file_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn).unwrap();
        run(&mut conn).unwrap();
        conn.pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(run(&mut conn), Err(StoreError::Foreign(text)) if text.contains("newer")));
        let mut foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE notes (body TEXT)").unwrap();
        assert!(
            matches!(run(&mut foreign), Err(StoreError::Foreign(text)) if text.contains("another"))
        );
    }
}
