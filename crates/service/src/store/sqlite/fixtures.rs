//! Upgrades of every schema version, from a file of each as its program wrote it.
//!
//! After a new migration, add rows for its tables to `fixtures/rows.sql` and write the new file with
//! `BLESS=1 cargo test --workspace --lib every_version`. Existing files are never written again: they also prove that
//! no migration was changed after its release.

use super::migrations::{MIGRATIONS, run, run_to};
use crate::store::copy;
use crate::store::fixtures::{self, Rows};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

const ROWS: &str = include_str!("fixtures/rows.sql");

/// Tables whose rows an upgrade changes: nearness is stored in another way, and texts are noted for indexing.
const CHANGED: [&str; 2] = ["track_starts", "search_changes"];

/// A store of this version in `file`, with rows in each of its tables.
fn make(file: &Path, version: usize) {
    let mut conn = Connection::open(file).unwrap();
    run_to(&mut conn, version).unwrap();
    let heading =
        |line: &str| line.strip_prefix("-- ").and_then(|number| number.parse::<usize>().ok());
    let mut since = 0;
    let mut sql = String::new();
    for line in ROWS.lines() {
        since = heading(line).unwrap_or(since);
        if (1..=version).contains(&since) {
            sql += line;
            sql += "\n";
        }
    }
    conn.pragma_update(None, "foreign_keys", true).unwrap();
    conn.execute_batch(&sql).unwrap();
    conn.execute_batch("VACUUM").unwrap();
}

pub(crate) fn unpack(version: usize, to: &Path) {
    let bytes = fixtures::unpack(&format!("sqlite/fixtures/{version:04}.db"), || {
        let made = to.with_extension("made");
        make(&made, version);
        std::fs::read(made).unwrap()
    });
    std::fs::write(to, bytes).unwrap();
}

fn rows(conn: &Connection) -> Rows<Value> {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
         AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'track_starts_%'";
    let mut tables = conn.prepare(tables).unwrap();
    let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    names
        .map(|name| {
            let name = name.unwrap();
            let mut all = conn.prepare(&format!("SELECT * FROM {name}")).unwrap();
            let columns: Vec<String> = all.column_names().map(str::to_owned).collect();
            let row = |row: &rusqlite::Row<'_>| {
                columns
                    .iter()
                    .map(|column| Ok((column.clone(), row.get(column.as_str())?)))
                    .collect()
            };
            let rows = all.query_map([], row).unwrap().map(Result::unwrap).collect();
            (name, rows)
        })
        .collect()
}

fn schema(conn: &Connection) -> Vec<(String, String)> {
    let sql = "SELECT type || ' ' || name, ifnull(sql, '') FROM sqlite_schema ORDER BY 1";
    let mut all = conn.prepare(sql).unwrap();
    let found = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    found.map(Result::unwrap).collect()
}

#[test]
fn a_store_of_every_version_is_brought_up_to_date_and_keeps_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut newest = Connection::open_in_memory().unwrap();
    run(&mut newest).unwrap();
    for version in 1..=MIGRATIONS.len() {
        let file = dir.path().join(format!("{version}.db"));
        unpack(version, &file);
        let mut conn =
            Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        let before = rows(&conn);
        run(&mut conn).unwrap();
        let check: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "version {version}");
        assert_eq!(schema(&conn), schema(&newest), "version {version}");
        let wrong =
            copy::derived(|query| Ok(conn.query_row(query, [], |row| row.get(0))?)).unwrap();
        assert_eq!(wrong, [] as [String; 0], "version {version}");
        let after = rows(&conn);
        fixtures::assert_kept(version, &before, &after, &CHANGED);
        let texts = "SELECT count(*) FROM search_changes";
        let noted: i64 = conn.query_row(texts, [], |row| row.get(0)).unwrap();
        assert_eq!(noted > 0, version >= 7, "version {version}: texts are to be indexed");
    }
}

#[test]
fn a_migration_is_as_it_was_when_it_was_released() {
    let dir = tempfile::tempdir().unwrap();
    for version in 1..=MIGRATIONS.len() {
        let (then, now) =
            (dir.path().join("then.db"), dir.path().join(format!("now-{version}.db")));
        unpack(version, &then);
        make(&now, version);
        let [then, now] = [then, now].map(|file| Connection::open(file).unwrap());
        assert_eq!(schema(&then), schema(&now), "version {version}");
        assert_eq!(rows(&then), rows(&now), "version {version}");
    }
}
