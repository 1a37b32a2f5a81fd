//! The tables to copy, derived from both schemas. A table or column that only one side has stops the copy unless it is
//! named here with a reason, so a migration of one side alone is noticed.

use super::CopyError;
use crate::store::maria::Session;
use crate::store::sql::params;
use crate::store::{Result, StoreError};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Tables that only one side has, each with the reason.
const ONE_SIDED: [(&str, &str); 9] = [
    ("like_log", "its likes are applied when the file is opened"),
    ("madang_schema", "schema version of the server"),
    ("madang_cluster", "what nodes agree on"),
    (super::MARKS, "progress of the copy"),
    ("outbox", "messages between nodes"),
    ("outbox_epochs", "lanes of nodes"),
    ("outbox_lanes", "lanes of nodes"),
    (
        "like_positions",
        "how far the stream of likes is in the tables, in which all of it is when nodes are stopped",
    ),
    ("used_proofs", "a file has one node, which knows them"),
];

/// A table whose rows get new values in one column, and the unique columns whose order they keep.
pub(super) struct Renumbered {
    pub(super) table: &'static str,
    pub(super) column: &'static str,
    order: [&'static str; 2],
}

/// A file numbers the keys of each user, a server all together. Only the order matters.
pub(super) const RENUMBERED: Renumbered =
    Renumbered { table: "idempotency_keys", column: "number", order: ["user_id", "number"] };

/// Tables that migrations fill. The rows of the source replace those of the target.
pub(super) const CONSTANT: [&str; 4] = ["regions", "region_names", "locations", "post_categories"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Without generated columns.
    pub(super) columns: BTreeSet<String>,
    pub(super) key: Vec<String>,
    /// Tables that it refers to.
    pub(super) after: BTreeSet<String>,
}

pub(super) type Schema = BTreeMap<String, Shape>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    /// Unique columns that give both sides the same order of rows.
    pub(super) key: Vec<String>,
}

impl Table {
    /// Quotes names for both engines.
    pub(super) fn list(names: &[String]) -> String {
        let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        quoted.join(", ")
    }
}

/// Matches both schemas. Returns the tables to copy, each after those that it refers to.
pub(super) fn matched(source: &Schema, target: &Schema) -> Result<Vec<Table>, CopyError> {
    let mut wrong = Vec::new();
    let mut tables = Vec::new();
    let names: BTreeSet<_> = source.keys().chain(target.keys()).collect();
    for name in names.into_iter().filter(|name| !ONE_SIDED.iter().any(|(one, _)| one == name)) {
        let (Some(from), Some(to)) = (source.get(name), target.get(name)) else {
            let side = if source.contains_key(name) { "in the file" } else { "on the server" };
            wrong.push(format!("table {name} is only {side}"));
            continue;
        };
        for column in from.columns.symmetric_difference(&to.columns) {
            let side = if from.columns.contains(column) { "in the file" } else { "on the server" };
            wrong.push(format!("column {name}.{column} is only {side}"));
        }
        if from.key != to.key || from.key.is_empty() {
            wrong.push(format!("the primary keys of {name} differ"));
        }
        let (mut columns, mut key) = (from.columns.clone(), from.key.clone());
        if name == RENUMBERED.table {
            columns.remove(RENUMBERED.column);
            key = RENUMBERED.order.map(str::to_owned).into();
        }
        tables.push(Table { name: name.clone(), columns: columns.into_iter().collect(), key });
    }
    if wrong.is_empty() {
        return Ok(in_order(tables, target));
    }
    Err(CopyError::Store(StoreError::Other(format!(
        "this program does not know how to copy its own schema: {}",
        wrong.join(", ")
    ))))
}

/// Sorts each table after those that it refers to.
fn in_order(mut tables: Vec<Table>, target: &Schema) -> Vec<Table> {
    let mut sorted: Vec<Table> = Vec::with_capacity(tables.len());
    while !tables.is_empty() {
        let is_ready = |table: &Table| {
            let after = target.get(&table.name).map(|shape| &shape.after);
            after
                .into_iter()
                .flatten()
                .all(|other| *other == table.name || sorted.iter().any(|done| done.name == *other))
        };
        // In a cycle any will do: the server refuses it.
        let at = tables.iter().position(is_ready).unwrap_or(0);
        sorted.push(tables.remove(at));
    }
    sorted
}

pub(super) fn of_file(conn: &Connection) -> Result<Schema> {
    let mut schema = Schema::new();
    let mut statement = conn.prepare(
        "SELECT t.name, c.name, c.pk, c.hidden FROM sqlite_schema t, pragma_table_xinfo(t.name) c
         WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY t.name, c.pk",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, column): (String, String) = (row.get(0)?, row.get(1)?);
        let (place, hidden): (i64, i64) = (row.get(2)?, row.get(3)?);
        let shape = schema.entry(table).or_default();
        if place > 0 {
            shape.key.push(column.clone());
        }
        if hidden == 0 {
            shape.columns.insert(column);
        }
    }
    Ok(schema)
}

pub(super) fn of_server(session: &Session) -> Result<Schema> {
    let mut schema = Schema::new();
    let text = |row: &mysql::Row, at: usize| row.get::<String, _>(at).unwrap_or_default();
    let columns = "SELECT table_name, column_name FROM information_schema.columns
         WHERE table_schema = DATABASE() AND is_generated = 'NEVER'";
    for row in session.query(columns, params![])? {
        schema.entry(text(&row, 0)).or_default().columns.insert(text(&row, 1));
    }
    let keys =
        "SELECT table_name, column_name, constraint_name, coalesce(referenced_table_name, '')
         FROM information_schema.key_column_usage WHERE table_schema = DATABASE()
         ORDER BY table_name, ordinal_position";
    for row in session.query(keys, params![])? {
        let shape = schema.entry(text(&row, 0)).or_default();
        if text(&row, 2) == "PRIMARY" {
            shape.key.push(text(&row, 1));
        } else if !text(&row, 3).is_empty() {
            shape.after.insert(text(&row, 3));
        }
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::maria::schema::MIGRATIONS;
    use crate::store::test_schema;

    /// The tables of the server's migrations, parsed from their text, so that these tests need no server.
    fn of_migrations() -> Schema {
        let mut schema = Schema::new();
        for file in MIGRATIONS.iter().map(|migration| migration.file) {
            let mut table = String::new();
            for line in file.lines().map(str::trim) {
                if let Some(rest) = line.strip_prefix("CREATE TABLE IF NOT EXISTS ") {
                    let (name, rest) = rest.split_once(' ').unwrap();
                    table = name.to_owned();
                    let rest = rest.trim_start_matches('(').trim();
                    add(schema.entry(table.clone()).or_default(), rest);
                } else if let Some(rest) = line.strip_prefix("ALTER TABLE ") {
                    let (name, rest) = rest.split_once(' ').unwrap();
                    let added =
                        rest.strip_prefix("ADD COLUMN ").expect("a change that is not known");
                    let added = added.trim_start_matches("IF NOT EXISTS ");
                    // Tables of the outbox are made beside the files, and are not copied.
                    add(schema.entry(name.to_owned()).or_default(), added);
                } else if line.starts_with(')') {
                    table.clear();
                } else if let Some(shape) = schema.get_mut(&table) {
                    add(shape, line);
                }
            }
        }
        schema
    }

    fn add(shape: &mut Shape, line: &str) {
        let name = line.split(' ').next().unwrap_or_default().trim_matches('`');
        if let Some(keys) = line.strip_prefix("PRIMARY KEY (") {
            let keys = keys.split(')').next().unwrap().split(", ");
            shape.key = keys.map(|key| key.trim_matches('`').to_owned()).collect();
        } else if name.starts_with(|first: char| first.is_ascii_lowercase()) {
            shape.columns.insert(name.to_owned());
            if line.contains("PRIMARY KEY") {
                shape.key = vec![name.to_owned()];
            }
        }
    }

    #[test]
    fn every_table_and_column_of_one_side_is_on_the_other_or_has_a_reason() {
        let source = of_file(&test_schema()).unwrap();
        let tables = matched(&source, &of_migrations()).unwrap();
        assert_eq!(tables.len(), 30, "{tables:?}");
        let columns: usize = tables.iter().map(|table| table.columns.len()).sum();
        assert!(columns > 100, "{columns}");
        for constant in CONSTANT {
            assert!(tables.iter().any(|table| table.name == constant), "{constant}");
        }
    }

    #[test]
    fn tables_that_migrations_fill_are_known() {
        let conn = test_schema();
        for table in of_file(&conn).unwrap().keys() {
            let rows = format!("SELECT count(*) FROM {table}");
            let rows: i64 = conn.query_row(&rows, [], |row| row.get(0)).unwrap();
            assert_eq!(rows > 0, CONSTANT.contains(&table.as_str()), "{table}");
        }
    }

    #[test]
    fn what_only_one_side_has_is_refused_by_name() {
        let target = of_migrations();
        let refused = |change: &str| {
            let conn = test_schema();
            conn.execute_batch(change).unwrap();
            matched(&of_file(&conn).unwrap(), &target).unwrap_err().to_string()
        };
        let text = refused("CREATE TABLE chats (id INTEGER PRIMARY KEY)");
        assert!(text.contains("table chats is only in the file"), "{text}");
        let text = refused("ALTER TABLE users ADD COLUMN email TEXT");
        assert!(text.contains("column users.email is only in the file"), "{text}");
        let text = refused("DROP TABLE deleted_users");
        assert!(text.contains("table deleted_users is only on the server"), "{text}");
    }

    #[test]
    fn a_table_comes_after_those_that_it_refers_to() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut target = Schema::new();
        for (name, after) in [("a", "c"), ("b", "b"), ("c", "b")] {
            let after = BTreeSet::from([after.to_owned()]);
            target.insert(name.to_owned(), Shape { after, ..Shape::default() });
        }
        let table = |name: String| Table { name, columns: Vec::new(), key: Vec::new() };
        let sorted = in_order(names.map(table).into(), &target);
        assert_eq!(sorted.into_iter().map(|table| table.name).collect::<String>(), "bca");
    }
}
