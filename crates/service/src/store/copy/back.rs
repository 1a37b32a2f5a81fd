//! Copies a server's database into a file: all tables as of one moment, while nodes go on.
//!
//! The file is made in a directory inside the target, in one transaction, compared with the server, and moved to its
//! place at the end. An interrupted copy leaves only that directory, which the next one empties.

use super::source::Source;
use super::tables::{CONSTANT, RENUMBERED, Table, matched, of_file, of_server};
use super::target::{Target, refuse_unfinished};
use super::{Copied, CopyError, Progress, Report, check};
use crate::config::Settings;
use crate::store::maria::{Session, schema};
use crate::store::sql::params;
use crate::store::sqlite::{SCHEMA_VERSION, run_to};
use crate::store::{FILE, Result, StoreError, private};
use mysql::Value;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::Value as Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const UNFINISHED: &str = "copying";
/// Rows between two reports of progress.
const EVERY: u64 = 4096;

/// Copies the database at `url` into the data directory of these settings, which must hold no store. The caller holds
/// the lock of the directory.
///
/// # Errors
/// Either side fails, the directory holds a store, or both differ in the end. The directory is then unchanged.
pub fn back(
    settings: &Settings,
    url: &str,
    watch: impl FnMut(Progress<'_>),
) -> Result<Report, CopyError> {
    let file = settings.data_dir.join(FILE);
    if file.exists() {
        let text = format!("{} exists already; name a directory without a store", file.display());
        return Err(CopyError::Refused(text));
    }
    let server = Target::connect(url)?;
    refuse_other_versions(&server.session)?;
    to_file(&server, &settings.data_dir, SCHEMA_VERSION, watch)
}

/// Copies a database with an older schema into a directory without a store; `version` is that of the embedded schema
/// with the same tables.
pub(crate) fn before_migration(
    session: Session,
    dir: &Path,
    version: usize,
) -> Result<(), CopyError> {
    to_file(&Target { session }, dir, version, |_| {}).map(drop)
}

fn to_file(
    server: &Target,
    dir: &Path,
    version: usize,
    mut watch: impl FnMut(Progress<'_>),
) -> Result<Report, CopyError> {
    let file = dir.join(FILE);
    let made = Made::begin(dir.join(UNFINISHED), version)?;
    // Everything is as of this moment. Writing the file may take any time between two statements.
    server.session.batch("SET SESSION idle_transaction_timeout = 0")?;
    server.session.batch("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
    server.session.batch("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")?;
    let shapes = of_file(&made.conn)?;
    let mut found = of_server(&server.session)?;
    if version < SCHEMA_VERSION {
        // An interrupted step to the next version leaves tables and columns that this version does not have.
        found.retain(|table, _| shapes.contains_key(table));
        for (table, shape) in &mut found {
            shape.columns.retain(|column| shapes[table].columns.contains(column));
        }
    }
    let tables = matched(&shapes, &found)?;
    let mut copied = made.fill(&server.session, &tables, &mut watch)?;
    let made = made.close()?;
    let source = Source::reading(&made)?;
    check::compare(&source, server, &tables, &mut copied, &mut watch)?;
    // Older schemas lack tables of the queries.
    let warnings = if version == SCHEMA_VERSION { check::warnings(server)? } else { Vec::new() };
    server.session.batch("COMMIT")?;
    drop(source);
    private::place(&made.join(FILE), &file)
        .and_then(|()| std::fs::remove_dir_all(&made))
        .map_err(|error| StoreError::CannotOpen(error.to_string()))?;
    Ok(Report { tables: copied, warnings })
}

/// Refuses a database that this program would not serve.
fn refuse_other_versions(session: &Session) -> Result<(), CopyError> {
    schema::look_at_server(session)?;
    refuse_unfinished(session)?;
    match schema::versions(session)? {
        (Some(found), known) if usize::try_from(found) == Ok(known) => Ok(()),
        (None, _) => Err(CopyError::Refused("the database holds no store of Madang".to_owned())),
        (Some(found), known) => Err(CopyError::Refused(format!(
            "the database has schema version {found}, and this program copies {known}; use the program that \
             serves it"
        ))),
    }
}

/// The file while it is made.
struct Made {
    dir: PathBuf,
    conn: Connection,
}

impl Made {
    fn begin(dir: PathBuf, version: usize) -> Result<Self, CopyError> {
        let cannot = |error: std::io::Error| StoreError::CannotOpen(error.to_string());
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot(error).into());
            }
            _ => {}
        }
        std::fs::create_dir_all(&dir).map_err(cannot)?;
        private::open(&dir.join(FILE)).map_err(cannot)?;
        let mut conn = Connection::open(dir.join(FILE))?;
        // An interrupted copy begins again with a new file.
        conn.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")?;
        run_to(&mut conn, version)?;
        // Rows that triggers would add are copied as well.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .and_then(|_| conn.execute_batch("PRAGMA foreign_keys=OFF; BEGIN"))?;
        Ok(Self { dir, conn })
    }

    fn fill(
        &self,
        session: &Session,
        tables: &[Table],
        watch: &mut impl FnMut(Progress<'_>),
    ) -> Result<Vec<Copied>, CopyError> {
        for table in CONSTANT {
            self.conn.execute(&format!("DELETE FROM {table}"), [])?;
        }
        let mut copied = Vec::with_capacity(tables.len());
        for table in tables {
            copied.push(self.copy(session, table, watch)?);
            self.continue_ids(session, &table.name)?;
        }
        let broken = "SELECT count(*) FROM pragma_foreign_key_check";
        let broken: i64 = self.conn.query_row(broken, [], |row| row.get(0))?;
        if broken > 0 {
            let text = format!("{broken} rows of the server refer to rows that are not there");
            return Err(CopyError::Differs(text));
        }
        Ok(copied)
    }

    fn copy(
        &self,
        session: &Session,
        table: &Table,
        watch: &mut impl FnMut(Progress<'_>),
    ) -> Result<Copied, CopyError> {
        let began = Instant::now();
        let count = format!("SELECT count(*) FROM `{}`", table.name);
        watch(Progress::Copy(&table.name, session.value(&count, &[])?.unwrap_or(0), 0));
        // Renumbered columns follow the order of the server.
        let number = (table.name == RENUMBERED.table).then_some(RENUMBERED.column);
        let all: Vec<_> = table.columns.iter().cloned().chain(number.map(str::to_owned)).collect();
        let texts = self.texts(table)?;
        let (columns, key) = (Table::list(&table.columns), Table::list(&table.key));
        let places = vec!["?"; all.len()].join(", ");
        let insert =
            format!("INSERT INTO `{}` ({}) VALUES ({places})", table.name, Table::list(&all));
        let mut insert = self.conn.prepare(&insert)?;
        let query = format!("SELECT {columns} FROM `{}` ORDER BY {key}", table.name);
        let rows = session.stream(&query, |rows| {
            let mut written = 0_u64;
            for row in rows {
                let mut cells = Vec::with_capacity(all.len());
                for (value, is_text) in row?.unwrap().into_iter().zip(&texts) {
                    cells.push(cell(value, *is_text)?);
                }
                written += 1;
                if number.is_some() {
                    cells.push(Cell::Integer(i64::try_from(written).unwrap_or(i64::MAX)));
                }
                insert.execute(rusqlite::params_from_iter(cells)).map_err(|error| {
                    CopyError::Store(StoreError::Other(format!("{}: {error}", table.name)))
                })?;
                if written.is_multiple_of(EVERY) {
                    watch(Progress::Rows(EVERY));
                }
            }
            watch(Progress::Rows(written % EVERY));
            Ok::<_, CopyError>(written)
        })?;
        let (copying, comparing) = (began.elapsed(), Duration::ZERO);
        Ok(Copied { table: table.name.clone(), rows, before: 0, copying, comparing })
    }

    /// Whether each column of a table holds text: the server returns bytes for text, too.
    fn texts(&self, table: &Table) -> Result<Vec<bool>> {
        let of = "SELECT type FROM pragma_table_xinfo(?) WHERE name = ?";
        let is_text = |column: &String| {
            let kind: String = self.conn.query_row(of, [&table.name, column], |row| row.get(0))?;
            Ok(!kind.eq_ignore_ascii_case("BLOB"))
        };
        table.columns.iter().map(is_text).collect()
    }

    /// Prevents that ids used on the server are given again.
    fn continue_ids(&self, session: &Session, table: &str) -> Result<(), CopyError> {
        let gives =
            "SELECT count(*) FROM sqlite_schema WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'";
        let gives: i64 = self.conn.query_row(gives, [table], |row| row.get(0))?;
        if gives == 0 {
            return Ok(());
        }
        let next = "SELECT CAST(auto_increment AS SIGNED) FROM information_schema.tables
             WHERE table_schema = DATABASE() AND table_name = ?";
        let next: Option<Option<i64>> = session.value(next, params![table])?;
        let last = next.flatten().unwrap_or(1) - 1;
        let set = "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = ?2";
        let changed = self.conn.execute(set, (last, table))?;
        if changed == 0 && last > 0 {
            let add = "INSERT INTO sqlite_sequence (name, seq) VALUES (?2, ?1)";
            self.conn.execute(add, (last, table))?;
        }
        Ok(())
    }

    fn close(self) -> Result<PathBuf, CopyError> {
        self.conn.execute_batch("COMMIT")?;
        drop(self.conn);
        Ok(self.dir)
    }
}

fn cell(value: Value, is_text: bool) -> Result<Cell> {
    let odd = |what: &str| StoreError::Corrupt(format!("a value that a file cannot hold: {what}"));
    Ok(match value {
        Value::NULL => Cell::Null,
        Value::Int(number) => Cell::Integer(number),
        Value::UInt(number) => {
            Cell::Integer(i64::try_from(number).map_err(|_| odd(&number.to_string()))?)
        }
        Value::Float(number) => Cell::Real(number.into()),
        Value::Double(number) => Cell::Real(number),
        Value::Bytes(bytes) if is_text => {
            Cell::Text(String::from_utf8(bytes).map_err(|_| odd("text that is not UTF-8"))?)
        }
        Value::Bytes(bytes) => Cell::Blob(bytes),
        other => return Err(odd(&format!("{other:?}"))),
    })
}
