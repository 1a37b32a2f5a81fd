//! The file that is copied: upgraded as by a start, then read as of one moment.

use super::tables::{Schema, Table, of_file};
use super::{CopyError, key};
use crate::accounts::TokenKey;
use crate::articles;
use crate::config::Settings;
use crate::hex;
use crate::store::{FILE, Result, Store, StoreError};
use mysql::Value;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

pub(super) struct Source {
    conn: Connection,
    /// Kept open, because it owns the files beside the database.
    _store: Option<Store>,
    pub(super) directory: PathBuf,
}

pub(super) struct SourceRow {
    pub(super) values: Vec<Value>,
    pub(super) key: Vec<key::Part>,
}

impl SourceRow {
    pub(super) fn bytes(&self) -> usize {
        let bytes = |value: &Value| match value {
            Value::Bytes(bytes) => bytes.len(),
            _ => 8,
        };
        self.values.iter().map(bytes).sum()
    }
}

impl Source {
    /// Opens the store of a directory. The caller holds its lock.
    pub(super) fn open(settings: &Settings) -> Result<Self, CopyError> {
        let directory = settings.data_dir.canonicalize().unwrap_or(settings.data_dir.clone());
        let mut database = settings.database.clone();
        database.url = None;
        let store = Store::open(&settings.data_dir, &database)?;
        articles::replay(&store)?;
        if settings.accounts.token_key.is_none() {
            // Nodes need it, and a directory that was never served has none.
            TokenKey::of_directory(&settings.data_dir)?;
        }
        let conn = reading(&settings.data_dir)?;
        let source = Self { conn, _store: Some(store), directory };
        if source.count("like_log")? > 0 {
            return Err(StoreError::Full("the log of likes cannot be applied".to_owned()).into());
        }
        Ok(source)
    }

    /// Opens the file of a directory that is not in use, as it is.
    pub(super) fn reading(directory: &Path) -> Result<Self, CopyError> {
        Ok(Self { conn: reading(directory)?, _store: None, directory: directory.to_owned() })
    }

    pub(super) fn schema(&self) -> Result<Schema> {
        of_file(&self.conn)
    }

    /// Hash that identifies this file in this state: version, number of rows and greatest keys of all tables, and the
    /// ids given so far. A server that has run on it since has changed these, or the comparison finds the difference.
    pub(super) fn identity(&self, tables: &[Table]) -> Result<String> {
        let mut digest = Sha256::new();
        let version: i64 = self.conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        digest.update(version.to_le_bytes());
        for table in tables {
            let last = self.last_key(table)?.map(|key| key::encode(&key)).unwrap_or_default();
            let rows = self.count(&table.name)?;
            let given = self.last_id(&table.name)?.unwrap_or(0);
            digest.update(format!("{} {rows} {given} {last}\n", table.name));
        }
        Ok(hex(&digest.finalize()))
    }

    pub(super) fn count(&self, table: &str) -> Result<u64> {
        let count = format!("SELECT count(*) FROM `{table}`");
        let count: i64 = self.conn.query_row(&count, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The highest id given in this table, if ids are never reused.
    pub(super) fn last_id(&self, table: &str) -> Result<Option<i64>> {
        let last = "SELECT max(seq) FROM sqlite_sequence WHERE name = ?";
        Ok(self.conn.query_row(last, [table], |row| row.get(0))?)
    }

    fn last_key(&self, table: &Table) -> Result<Option<Vec<key::Part>>> {
        let key = Table::list(&table.key);
        let down: Vec<_> = table.key.iter().map(|name| format!("`{name}` DESC")).collect();
        let query =
            format!("SELECT {key} FROM `{}` ORDER BY {} LIMIT 1", table.name, down.join(", "));
        let mut statement = self.conn.prepare(&query)?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        (0..table.key.len()).map(|at| part(row.get_ref(at)?)).collect::<Result<_, _>>().map(Some)
    }

    /// Passes the rows above a key in the order of keys, until `take` fails.
    pub(super) fn each(
        &self,
        table: &Table,
        above: Option<&[key::Part]>,
        mut take: impl FnMut(SourceRow) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let (columns, key) = (Table::list(&table.columns), Table::list(&table.key));
        let places = vec!["?"; table.key.len()].join(", ");
        let condition = above.map(|_| format!("WHERE ({key}) > ({places})")).unwrap_or_default();
        let query =
            format!("SELECT {columns}, {key} FROM `{}` {condition} ORDER BY {key}", table.name);
        let mut statement = self.conn.prepare(&query)?;
        let parts = above.unwrap_or_default();
        let mut rows = statement.query(rusqlite::params_from_iter(parts))?;
        while let Some(row) = rows.next()? {
            let get = |at| row.get_ref(at);
            let width = table.columns.len();
            let values = (0..width).map(|at| get(at).map(value)).collect::<Result<_, _>>()?;
            let key = (width..width + table.key.len()).map(|at| part(get(at)?));
            take(SourceRow { values, key: key.collect::<Result<_, _>>()? })?;
        }
        Ok(())
    }
}

fn reading(directory: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(directory.join(FILE), flags)?;
    conn.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA mmap_size=268435456; BEGIN")?;
    Ok(conn)
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::NULL,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Double(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

fn part(cell: ValueRef<'_>) -> Result<key::Part> {
    match cell.try_into() {
        Ok(key::Part::Null) => Err(StoreError::Corrupt("a key holds a null".to_owned())),
        Ok(part) => Ok(part),
        Err(_) => Err(StoreError::Corrupt("a key holds text that is not UTF-8".to_owned())),
    }
}
