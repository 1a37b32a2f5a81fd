//! Connections, statements and rows for both engines.
//!
//! A system's store is written once. Most statements have the same text for SQLite and MariaDB; where they do not,
//! [`Sql::each`] holds both. Parameters are `?`, or `?1`, `?2` when one is used twice.

mod value;

pub(crate) use value::{Column, Parameter, Value, params};

use super::maria::{Done, Session};
use super::{Result, StoreError};
use std::collections::HashMap;

/// The number of ids in a statement is a multiple of this: pages have 20 or 100 rows, and one more.
const IDS_STEP: usize = 21;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql<'a> {
    sqlite: &'a str,
    maria: &'a str,
}

impl<'a> Sql<'a> {
    /// Both texts have the same parameters and columns.
    pub(crate) const fn each(sqlite: &'a str, maria: &'a str) -> Self {
        Self { sqlite, maria }
    }

    #[cfg(test)]
    pub(crate) fn sqlite(self) -> &'a str {
        self.sqlite
    }
}

impl<'a> From<&'a str> for Sql<'a> {
    fn from(text: &'a str) -> Self {
        Self::each(text, text)
    }
}

impl<'a> From<&'a String> for Sql<'a> {
    fn from(text: &'a String) -> Self {
        Self::each(text, text)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Conn<'c>(Engine<'c>);

#[derive(Clone, Copy)]
enum Engine<'c> {
    Sqlite(&'c rusqlite::Connection),
    Maria(&'c Session),
}

pub(crate) struct Row<'r>(Cells<'r>);

enum Cells<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Maria(&'r mysql::Row),
}

impl Row<'_> {
    /// The value of the column at `at`, from 0.
    pub(crate) fn get<T: Column>(&self, at: usize) -> Result<T> {
        let cell = match self.0 {
            Cells::Sqlite(row) => Value::of_sqlite(row.get_ref(at)?),
            Cells::Maria(row) => row.as_ref(at).and_then(Value::of_maria),
        };
        cell.and_then(T::read).ok_or_else(|| {
            StoreError::Other(format!("column {at} is no {}", std::any::type_name::<T>()))
        })
    }
}

/// The first columns of a row, as a tuple: `let (id, name) = columns(row)?`.
pub(crate) fn columns<T: Columns>(row: &Row<'_>) -> Result<T> {
    T::read(row)
}

pub(crate) trait Columns: Sized {
    fn read(row: &Row<'_>) -> Result<Self>;
}

macro_rules! tuples {
    ($first:ident $($rest:ident)*) => {
        impl<$first: Column $(, $rest: Column)*> Columns for ($first, $($rest,)*) {
            fn read(row: &Row<'_>) -> Result<Self> {
                let mut at = 0..;
                let mut next = || at.next().unwrap_or_default();
                Ok((row.get::<$first>(next())?, $(row.get::<$rest>(next())?,)*))
            }
        }
        tuples!($($rest)*);
    };
    () => {};
}
tuples!(A B C D E F G H I J K L M N);

impl<'c> Conn<'c> {
    pub(crate) fn sqlite(conn: &'c rusqlite::Connection) -> Self {
        Self(Engine::Sqlite(conn))
    }

    pub(super) fn maria(session: &'c Session) -> Self {
        Self(Engine::Maria(session))
    }

    /// All rows of a query.
    pub(crate) fn rows<'s, T>(
        &self,
        sql: impl Into<Sql<'s>>,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        self.each(sql.into(), values, |row| {
            found.push(read(row)?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// The first row of a query, if any.
    pub(crate) fn first<'s, T>(
        &self,
        sql: impl Into<Sql<'s>>,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.each(sql.into(), values, |row| {
            found = Some(read(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// Passes the rows of a query to `take` until it returns `false`.
    fn each(
        &self,
        sql: Sql<'_>,
        values: &[Value<'_>],
        mut take: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        match self.0 {
            Engine::Sqlite(conn) => {
                let mut statement = conn.prepare_cached(sql.sqlite)?;
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                while let Some(row) = rows.next()?
                    && take(&Row(Cells::Sqlite(row)))?
                {}
            }
            Engine::Maria(session) => {
                for row in session.query(sql.maria, values)? {
                    if !take(&Row(Cells::Maria(&row)))? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The only row of a query that always has one.
    pub(crate) fn only<'s, T>(
        &self,
        sql: impl Into<Sql<'s>>,
        values: &[Value<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let found = self.first(sql, values, read)?;
        found.ok_or_else(|| StoreError::Other("a query found no row".to_owned()))
    }

    /// The row of each of these distinct ids, in their order. The statement begins with the column of the id and ends
    /// with `= ?`.
    pub(crate) fn rows_of<T>(
        &self,
        sql: &str,
        ids: &[i64],
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let found = self.rows_found(sql, ids, read)?;
        if found.len() == ids.len() {
            return Ok(found);
        }
        Err(StoreError::Other("a query found no row".to_owned()))
    }

    /// [`rows_of`](Self::rows_of), without the ids that have no row. On SQLite, which is only a call away, each id is a
    /// query; on the server all are one.
    pub(crate) fn rows_found<T>(
        &self,
        sql: &str,
        ids: &[i64],
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (Engine::Maria(_), Some(last)) = (self.0, ids.last()) else {
            let one = |id: &i64| self.first(sql, &[Value::Integer(*id)], &read).transpose();
            return ids.iter().filter_map(one).collect();
        };
        // The last id is repeated, so that few lengths are prepared.
        let asked = ids.len().next_multiple_of(IDS_STEP);
        let values: Vec<_> = ids
            .iter()
            .chain(std::iter::repeat_n(last, asked - ids.len()))
            .map(|id| Value::Integer(*id))
            .collect();
        let head = sql.strip_suffix("= ?").unwrap_or(sql);
        let sql = format!("{head}IN (?{})", ", ?".repeat(asked - 1));
        let found = self.rows(&sql, &values, |row| Ok((row.get::<i64>(0)?, read(row)?)))?;
        let mut found: HashMap<i64, T> = found.into_iter().collect();
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }

    /// The first column of the only row.
    pub(crate) fn one<'s, T: Column>(
        &self,
        sql: impl Into<Sql<'s>>,
        values: &[Value<'_>],
    ) -> Result<T> {
        self.only(sql, values, |row| row.get(0))
    }

    /// Whether a query finds anything.
    pub(crate) fn exists<'s>(&self, sql: impl Into<Sql<'s>>, values: &[Value<'_>]) -> Result<bool> {
        Ok(self.first(sql, values, |_| Ok(()))?.is_some())
    }

    fn execute(&self, sql: Sql<'_>, values: &[Value<'_>]) -> Result<Done> {
        match self.0 {
            Engine::Sqlite(conn) => {
                let mut statement = conn.prepare_cached(sql.sqlite)?;
                let rows = statement.execute(rusqlite::params_from_iter(values))?;
                Ok(Done { rows, id: conn.last_insert_rowid() })
            }
            Engine::Maria(session) => session.run(sql.maria, values),
        }
    }

    /// Changes rows. Returns the number of rows found (an update that leaves a row as it is counts it).
    pub(crate) fn run<'s>(&self, sql: impl Into<Sql<'s>>, values: &[Value<'_>]) -> Result<usize> {
        Ok(self.execute(sql.into(), values)?.rows)
    }

    /// Inserts one row. Returns the id that the store has chosen.
    pub(crate) fn insert<'s>(&self, sql: impl Into<Sql<'s>>, values: &[Value<'_>]) -> Result<i64> {
        Ok(self.execute(sql.into(), values)?.id)
    }

    /// [`insert`](Self::insert) with a statement that may insert nothing.
    pub(crate) fn insert_some<'s>(
        &self,
        sql: impl Into<Sql<'s>>,
        values: &[Value<'_>],
    ) -> Result<Option<i64>> {
        let done = self.execute(sql.into(), values)?;
        Ok((done.rows > 0).then_some(done.id))
    }

    /// [`insert`](Self::insert), unless a row with the same key exists. The statement is `INSERT INTO table (…) VALUES
    /// (…)`; the method adds what the engine needs to ignore an existing key.
    pub(crate) fn insert_new(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<i64>> {
        match self.0 {
            Engine::Sqlite(_) => self.insert_some(&format!("{sql} ON CONFLICT DO NOTHING"), values),
            Engine::Maria(session) => {
                Ok(session.run_unless_taken(sql, values)?.map(|done| done.id))
            }
        }
    }

    /// Whether other transactions write at the same time, so that a row may change between a read and a write.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0, Engine::Maria(_))
    }

    /// Runs statements without values and rows, a `;` after each.
    #[cfg(test)]
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        match self.0 {
            Engine::Sqlite(conn) => Ok(conn.execute_batch(sql)?),
            Engine::Maria(session) => {
                let statements = sql.split(';').map(str::trim).filter(|one| !one.is_empty());
                statements.into_iter().try_for_each(|one| session.run(one, &[]).map(drop))
            }
        }
    }

    /// Runs one statement without values, which may hold a `;`.
    #[cfg(test)]
    pub(crate) fn definition(&self, sql: &str) -> Result<()> {
        match self.0 {
            Engine::Sqlite(conn) => Ok(conn.execute_batch(sql)?),
            Engine::Maria(session) => session.batch(sql),
        }
    }

    /// The connection of SQLite.
    #[cfg(test)]
    pub(crate) fn embedded(&self) -> &'c rusqlite::Connection {
        match self.0 {
            Engine::Sqlite(conn) => conn,
            Engine::Maria(_) => panic!("a test of the embedded store met another"),
        }
    }
}
