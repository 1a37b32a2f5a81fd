//! Upgrades of every schema version, from a dump of each as its program made it.
//!
//! Rows are those of the embedded store's fixture with the same tables, which also proves that one exists
//! (`Migration::as_file`). After a new migration, write the new file with `BLESS=1 scripts/with-mariadb cargo test
//! --workspace --lib maria::fixtures`, add the digest of the migration, and rows of tables that only a server has to
//! [`OWN`]. Existing files are never written again.
//!
//! Tests that need a server pass without one; `scripts/with-mariadb`, which `scripts/test` uses, provides it.

use super::schema::{MIGRATIONS, migrate_to};
use super::{Session, Use, connect};
use crate::store::fixtures::{self, Rows};
use crate::store::sql::params;
use crate::store::{FILE, copy, sqlite};
use mysql::Value;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Rows of tables that only a server has, with the first version that has the table.
const OWN: [(usize, &str); 6] = [
    (2, "INSERT INTO madang_cluster (only_row, delay_ms) VALUES (1, 50)"),
    (2, "UPDATE outbox_lanes SET leased_until = '2026-01-01 00:00:00'"),
    (
        2,
        "INSERT INTO outbox (lane, number, effects, made_at) VALUES (3, 7, x'00ff', '2026-01-01 00:00:00')",
    ),
    (3, "UPDATE madang_cluster SET identity = 77"),
    (5, "UPDATE like_positions SET position = 9, generation = 'g', closed = 8 WHERE part = 2"),
    (5, "INSERT INTO used_proofs (proof, expires) VALUES (1, 9999999999)"),
];

/// Tables that an upgrade changes: its own, and texts noted for indexing.
const CHANGED: [&str; 2] = ["madang_schema", "search_changes"];

/// Digests of the migrations as released; the second one includes the tables of the outbox.
const DIGESTS: [&str; 7] = [
    "d6aa255130b8bee5", "a4dc284a6dedb54e", "dc5caa5d06de577e", "8e3ecfa58e6ca74c",
    "ee6a9c64f6ba9acc", "d55a35364ff0430a", "ad2030ce62532b43",
];

fn database() -> Option<Session> {
    let url = madang_testing::database()?;
    Some(connect(&url, Use::Copies).unwrap())
}

/// A database of a version, with rows in each of its tables.
fn make(version: usize) -> Session {
    let session = database().unwrap();
    migrate_to(&session, version, |_, _| Ok(())).unwrap();
    let dir = tempfile::tempdir().unwrap();
    sqlite::fixtures::unpack(MIGRATIONS[version - 1].as_file, &dir.path().join(FILE));
    let session = copy::fill(session, dir.path()).unwrap();
    for (_, sql) in OWN.iter().filter(|(since, _)| *since <= version) {
        session.batch(sql).unwrap();
    }
    session
}

/// Tables with the columns of their primary keys.
fn tables(session: &Session) -> Vec<(String, String)> {
    let tables = "SELECT table_name, group_concat('`', column_name, '`' ORDER BY ordinal_position)
         FROM information_schema.key_column_usage
         WHERE table_schema = DATABASE() AND constraint_name = 'PRIMARY' GROUP BY table_name";
    let rows = session.query(tables, params![]).unwrap();
    rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect()
}

fn all(session: &Session, table: &str, key: &str) -> Vec<mysql::Row> {
    session.query(&format!("SELECT * FROM `{table}` ORDER BY {key}"), params![]).unwrap()
}

fn rows(session: &Session) -> Rows<Value> {
    let rows = |(table, key): (String, String)| {
        let of = |row: mysql::Row| {
            let names = row.columns();
            let names = names.iter().map(|column| column.name_str().into_owned());
            names.zip(row.unwrap()).collect()
        };
        (table.clone(), all(session, &table, &key).into_iter().map(of).collect())
    };
    tables(session).into_iter().map(rows).collect()
}

/// Statements that make the database.
fn dump(session: &Session) -> Vec<u8> {
    let mut sql = "SET foreign_key_checks = 0;\n".to_owned();
    for (table, key) in tables(session) {
        let made = session.text(&format!("SHOW CREATE TABLE `{table}`")).unwrap();
        let made: String = made[0].get(1).unwrap();
        let _ = writeln!(sql, "{made};");
        for row in all(session, &table, &key) {
            let values: Vec<_> = row.unwrap().iter().map(literal).collect();
            let _ = writeln!(sql, "INSERT INTO `{table}` VALUES ({});", values.join(", "));
        }
    }
    sql += "SET foreign_key_checks = 1;\n";
    sql.into_bytes()
}

fn literal(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) if bytes.is_empty() => "''".to_owned(),
        Value::Bytes(bytes) => format!("x'{}'", crate::hex(bytes)),
        other => other.as_sql(true),
    }
}

/// The database of a version, from its fixture.
fn loaded(version: usize) -> Session {
    let sql =
        fixtures::unpack(&format!("maria/fixtures/{version:04}.sql"), || dump(&make(version)));
    let session = database().unwrap();
    let sql = String::from_utf8(sql).unwrap();
    for statement in sql.split(";\n").filter(|one| !one.is_empty()) {
        session.batch(statement).unwrap();
    }
    session
}

fn schema(session: &Session) -> Vec<String> {
    let parts = [
        "SELECT concat_ws(' ', table_name, column_name, column_type, is_nullable, column_default, collation_name, extra)
         FROM information_schema.columns WHERE table_schema = DATABASE()",
        "SELECT concat_ws(' ', table_name, index_name, seq_in_index, column_name, non_unique)
         FROM information_schema.statistics WHERE table_schema = DATABASE()",
        "SELECT concat_ws(' ', table_name, check_clause)
         FROM information_schema.check_constraints WHERE constraint_schema = DATABASE()",
        "SELECT concat_ws(' ', table_name, column_name, referenced_table_name, referenced_column_name)
         FROM information_schema.key_column_usage WHERE table_schema = DATABASE()",
        "SELECT concat_ws(' ', table_name, engine, table_collation)
         FROM information_schema.tables WHERE table_schema = DATABASE()",
    ];
    let of = |part| session.query(part, params![]).unwrap();
    let mut all: Vec<String> =
        parts.into_iter().flat_map(of).map(|row| row.get(0).unwrap()).collect();
    all.sort();
    all
}

#[test]
fn a_database_of_every_version_is_brought_up_to_date_and_keeps_its_rows() {
    let Some(newest) = database() else { return };
    migrate_to(&newest, MIGRATIONS.len(), |_, _| Ok(())).unwrap();
    for version in 1..=MIGRATIONS.len() {
        let session = loaded(version);
        let before = rows(&session);
        let mut kept = None;
        migrate_to(&session, MIGRATIONS.len(), |version, is_begun| {
            kept = Some((version, is_begun));
            Ok(())
        })
        .unwrap();
        let is_old = version < MIGRATIONS.len();
        assert_eq!(kept, is_old.then_some((version, false)), "what is kept before the upgrade");
        assert_eq!(schema(&session), schema(&newest), "version {version}");
        let after = rows(&session);
        fixtures::assert_kept(version, &before, &after, &CHANGED);
        let noted = after["search_changes"].len();
        assert!(noted > 0, "version {version}: texts are to be indexed");
    }
}

#[test]
fn a_migration_makes_the_database_that_it_made_when_it_was_released() {
    if database().is_none() {
        return;
    }
    for version in 1..=MIGRATIONS.len() {
        let [then, now] = [loaded(version), make(version)];
        assert_eq!(schema(&then), schema(&now), "version {version}");
        assert_eq!(rows(&then), rows(&now), "version {version}");
    }
}

#[test]
fn a_migration_is_as_it_was_when_it_was_released() {
    let found: Vec<_> = MIGRATIONS
        .iter()
        .enumerate()
        .map(|(at, migration)| {
            let outbox =
                if at == 1 { madang_positions::sql::SCHEMA.concat() } else { String::new() };
            crate::hex(&Sha256::digest(format!("{}{outbox}", migration.file))[..8])
        })
        .collect();
    assert_eq!(found, DIGESTS);
}
