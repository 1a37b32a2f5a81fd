//! The server that is copied to: its checks, the insertion of rows, and the progress of the copy.

use super::source::{Source, SourceRow};
use super::tables::{CONSTANT, Schema, Table, matched, of_server};
use super::{CopyError, MARKS, key};
use crate::store::maria::{Session, Use, connect, schema};
use crate::store::sql::params;
use crate::store::{Result, StoreError};
use mysql::Value;
use std::time::{Duration, Instant};

/// Most rows of one statement, and most values that a statement may have.
const STATEMENT_ROWS: usize = 1024;
const STATEMENT_VALUES: usize = 65_535;
/// Longest wait for the sessions of a stopped node, or of a killed copy, to end.
const LEAVING: Duration = Duration::from_secs(3);

pub(super) struct Target {
    pub(super) session: Session,
}

pub(super) struct Mark {
    pub(super) copied: u64,
    pub(super) last_key: Option<Vec<key::Part>>,
}

/// Refuses a database with an unfinished copy.
pub(crate) fn refuse_unfinished(session: &Session) -> Result<()> {
    match whole(session)? {
        Some(Whole { is_done: false, directory, .. }) => Err(StoreError::Foreign(format!(
            "the database holds an unfinished copy of {directory}; finish it with: \
             madang copy --from {directory} --to mysql://… (the same arguments as before)"
        ))),
        _ => Ok(()),
    }
}

/// The state of a copy: the row without a table's name.
struct Whole {
    is_done: bool,
    /// [`Source::identity`].
    source: String,
    directory: String,
}

fn whole(session: &Session) -> Result<Option<Whole>> {
    if !session.has_table(MARKS)? {
        return Ok(None);
    }
    let row = "SELECT state, source, directory FROM madang_copy WHERE table_name = ''";
    let rows = session.query(row, params![])?;
    let text = |row: &mysql::Row, at| row.get::<String, _>(at).unwrap_or_default();
    Ok(rows.first().map(|row| Whole {
        is_done: text(row, 0) == "done",
        source: text(row, 1),
        directory: text(row, 2),
    }))
}

impl Target {
    pub(super) fn connect(url: &str) -> Result<Self, CopyError> {
        Ok(Self { session: connect(url, Use::Copies)? })
    }

    /// Upgrades the schema, and begins or resumes the copy; `None` when it is done. No node can start meanwhile.
    pub(super) fn begin(
        &self,
        shapes: &Schema,
        source: &Source,
    ) -> Result<Option<Vec<Table>>, CopyError> {
        let session = &self.session;
        schema::look_at_server(session)?;
        // Held until this connection ends. The connection of a killed command may not be closed yet.
        let lock =
            format!("SELECT GET_LOCK(CONCAT('madang.copy.', DATABASE()), {})", LEAVING.as_secs());
        if session.number(&lock)? != Some(1) {
            return Err(CopyError::Refused(
                "another `madang copy` is writing to this database".to_owned(),
            ));
        }
        schema::exclusively(session, || {
            schema::migrate(session, |version, _| {
                Err(StoreError::Foreign(format!(
                    "the database holds a store of the older schema version {version}; name an empty database"
                )))
            })?;
            session.batch(&format!(
                "CREATE TABLE IF NOT EXISTS {MARKS} (
                   table_name VARCHAR(64) PRIMARY KEY,
                   state      VARCHAR(10) NOT NULL,
                   copied     BIGINT NOT NULL DEFAULT 0,
                   last_key   TEXT NULL,
                   source     VARCHAR(64) NULL,
                   directory  TEXT NULL
                 ) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
            ))?;
            let tables = matched(shapes, &of_server(session)?)?;
            let identity = source.identity(&tables)?;
            Ok(self.begin_with(&tables, source, &identity)?.then_some(tables))
        })
    }

    /// Returns whether there is anything to copy.
    fn begin_with(
        &self,
        tables: &[Table],
        source: &Source,
        identity: &str,
    ) -> Result<bool, CopyError> {
        let directory = source.directory.display().to_string();
        match whole(&self.session)? {
            Some(whole) if whole.source == identity && whole.is_done => return Ok(false),
            Some(whole) if whole.source == identity => self.refuse_served()?,
            Some(whole) => {
                let state = if whole.is_done { "a" } else { "an unfinished" };
                let text = format!(
                    "the database holds {state} copy of another store (of {}, as it was then); \
                     empty the database, or name another one",
                    whole.directory
                );
                return Err(CopyError::Refused(text));
            }
            None => {
                self.refuse_filled(tables)?;
                self.refuse_served()?;
                self.begin_anew(tables, identity, &directory)?;
            }
        }
        Ok(true)
    }

    /// Deletes the rows of migrations, which the source's replace, and inserts the marks, in one transaction.
    fn begin_anew(&self, tables: &[Table], identity: &str, directory: &str) -> Result<()> {
        let session = &self.session;
        // Constants refer to one another.
        session.batch("SET SESSION foreign_key_checks = 0")?;
        session.batch("START TRANSACTION")?;
        for table in CONSTANT {
            session.batch(&format!("DELETE FROM {table}"))?;
        }
        for table in tables {
            let begin = "INSERT INTO madang_copy (table_name, state) VALUES (?, 'copying')";
            session.run(begin, params![table.name])?;
        }
        session.run(
            "INSERT INTO madang_copy (table_name, state, source, directory)
             VALUES ('', 'copying', ?, ?)",
            params![identity, directory],
        )?;
        session.batch("COMMIT")?;
        session.batch("SET SESSION foreign_key_checks = 1")
    }

    fn refuse_filled(&self, tables: &[Table]) -> Result<(), CopyError> {
        let mut filled = Vec::new();
        for table in tables.iter().filter(|table| !CONSTANT.contains(&table.name.as_str())) {
            let any = format!("SELECT 1 FROM `{}` LIMIT 1", table.name);
            if !self.session.query(&any, params![])?.is_empty() {
                filled.push(table.name.as_str());
            }
        }
        if filled.is_empty() {
            return Ok(());
        }
        Err(CopyError::Refused(format!(
            "the database holds other data ({}); name an empty database",
            filled.join(", ")
        )))
    }

    /// Refuses a database that a node serves, because it has rows in memory. A running node has a session and a lane.
    fn refuse_served(&self) -> Result<(), CopyError> {
        let sessions = "SELECT count(*) FROM information_schema.processlist
             WHERE db = DATABASE() AND id <> CONNECTION_ID()";
        let end = Instant::now() + LEAVING;
        let mut others = self.session.number(sessions)?.unwrap_or(0);
        while others > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
            others = self.session.number(sessions)?.unwrap_or(0);
        }
        if others > 0 {
            return Err(CopyError::Refused(format!(
                "the database is in use by {others} other sessions; stop the nodes that serve it, \
                 and close all other clients"
            )));
        }
        let lanes = "SELECT count(*) FROM outbox_lanes WHERE leased_until > NOW(6)";
        if self.session.number(lanes)?.unwrap_or(0) > 0 {
            return Err(CopyError::Refused(
                "a node served the database within the last 30 seconds; stop all nodes that serve it, \
                 wait 30 seconds and try again"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    pub(super) fn mark(&self, table: &Table) -> Result<Mark, CopyError> {
        let mark = "SELECT copied, last_key FROM madang_copy WHERE table_name = ?";
        let rows = self.session.query(mark, params![table.name])?;
        let damaged = || StoreError::Corrupt(format!("no mark of {} in {MARKS}", table.name));
        let row = rows.first().ok_or_else(damaged)?;
        let last: Option<String> = row.get(1).ok_or_else(damaged)?;
        let last_key = last.map(|text| key::decode(&text).ok_or_else(damaged)).transpose()?;
        Ok(Mark { copied: row.get(0).ok_or_else(damaged)?, last_key })
    }

    /// Inserts rows and moves the mark, in one transaction. Returns the number of rows.
    pub(super) fn write(
        &self,
        table: &Table,
        rows: &mut [SourceRow],
        copied: u64,
    ) -> Result<u64, CopyError> {
        let session = &self.session;
        let last = rows.last().map(|row| key::encode(&row.key));
        let written = rows.len() as u64;
        session.batch("START TRANSACTION")?;
        self.insert(table, rows)?;
        let moved = session.run(
            "UPDATE madang_copy SET copied = ?, last_key = ? WHERE table_name = ? AND copied = ?",
            params![copied + written, last, table.name, copied],
        )?;
        if moved.rows != 1 {
            return Err(CopyError::Refused(
                "another `madang copy` is writing to this database".to_owned(),
            ));
        }
        session.batch("COMMIT")?;
        Ok(written)
    }

    /// Inserts rows in statements whose numbers of rows are powers of two: few texts, which stay prepared.
    pub(super) fn insert(&self, table: &Table, mut rows: &mut [SourceRow]) -> Result<()> {
        let width = table.columns.len();
        let most = STATEMENT_ROWS.min(STATEMENT_VALUES / width.max(1));
        let one = format!("({})", vec!["?"; width].join(","));
        let columns = Table::list(&table.columns);
        while !rows.is_empty() {
            let count = 1 << rows.len().min(most).ilog2();
            let (now, rest) = rows.split_at_mut(count);
            let places = vec![one.as_str(); count].join(",");
            let insert = format!("INSERT INTO `{}` ({columns}) VALUES {places}", table.name);
            let values: Vec<Value> =
                now.iter_mut().flat_map(|row| std::mem::take(&mut row.values)).collect();
            self.session.run_owned(&insert, values).map_err(|error| of_rows(table, now, error))?;
            rows = rest;
        }
        Ok(())
    }

    /// Sets the next id of a table after the last one of the source.
    pub(super) fn continue_ids(&self, table: &str, last: i64) -> Result<(), CopyError> {
        let next = last.saturating_add(1);
        self.session.batch(&format!("ALTER TABLE `{table}` AUTO_INCREMENT = {next}"))?;
        let asked = "SELECT CAST(auto_increment AS SIGNED) FROM information_schema.tables
             WHERE table_schema = DATABASE() AND table_name = ?";
        let found: Option<i64> = self.session.value(asked, params![table])?;
        if found.is_some_and(|found| found >= next) {
            return Ok(());
        }
        let text = format!("the next id of {table} is {found:?}, and {next} was set");
        Err(CopyError::Differs(text))
    }

    pub(super) fn finish(&self) -> Result<()> {
        self.session.batch("UPDATE madang_copy SET state = 'done'")
    }
}

/// Adds the range of rows to the error of an insertion.
fn of_rows(table: &Table, rows: &[SourceRow], error: StoreError) -> StoreError {
    let shown = |row: Option<&SourceRow>| row.map(|row| key::shown(&row.key)).unwrap_or_default();
    match error {
        StoreError::Constraint(text) => StoreError::Constraint(format!(
            "{}, rows ({}) to ({}): {text}",
            table.name,
            shown(rows.first()),
            shown(rows.last())
        )),
        other => other,
    }
}
