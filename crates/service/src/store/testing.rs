//! Stores for tests.

use super::{Result, Store, Tx};
use crate::config::Sources;
use std::ops::RangeInclusive;

impl Store {
    /// A new store with these settings, in its own directory.
    pub(crate) fn fresh(sources: &Sources) -> (Store, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let settings = sources.resolve().unwrap().database;
        (Store::open(dir.path(), &settings).unwrap(), dir)
    }

    /// Runs statements without values, a `;` after each.
    pub(crate) async fn execute(&self, sql: impl Into<String>) {
        let sql = sql.into();
        let done: Result<()> = self.write(move |tx: &mut Tx<'_>| tx.batch(&sql)).await;
        done.unwrap();
    }

    /// Adds users with these ids.
    pub(crate) async fn add_users(&self, ids: RangeInclusive<i64>) {
        let rows: Vec<_> = ids.map(|id| format!("({id}, 'user-{id}', '-', 11, 0)")).collect();
        let columns = "id, nickname, password_hash, region_id, created_at_ms";
        self.execute(format!("INSERT INTO users ({columns}) VALUES {}", rows.join(", "))).await;
    }

    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        self.read(move |conn| conn.one(sql, &[])).await.unwrap()
    }

    /// SQLite's plan of a statement, one line for each step.
    pub(crate) async fn plan(&self, sql: &str) -> String {
        let sql = sql.to_owned();
        self.read(move |conn| Ok(plan(conn.embedded(), &sql))).await.unwrap().join("\n")
    }
}

/// The steps of SQLite's plan of a statement.
pub(crate) fn plan(conn: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nothing = rusqlite::params_from_iter(vec![0; explain.parameter_count()]);
    explain.query_map(nothing, |row| row.get(3)).unwrap().map(Result::unwrap).collect()
}
