//! A connection to the server, with prepared statements and its last trouble.

use crate::store::{Result, StoreError, Value};
use mysql::prelude::{FromValue, Queryable as _};
use mysql::{Conn, DriverError, Error, OptsBuilder, Params};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::time::Duration;

/// Prepared statements of a session; a server has 16,382 for all sessions.
const PREPARED: usize = 64;
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Time without an answer after which a server counts as lost: longer than any statement may take.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// The same for the other uses.
const BRIEF_ANSWER_TIME: Duration = Duration::from_secs(1);
const CLUSTER_ANSWER_TIME: Duration = Duration::from_secs(6);
const LONG_ANSWER_TIME: Duration = Duration::from_secs(600);

/// Errors of a transaction that conflicts with another one and may be run again: deadlock, lock timeout, and failed
/// certification of a cluster (<https://mariadb.com/kb/en/mariadb-error-codes/>).
const DEADLOCK: u16 = 1213;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const RECORD_CHANGED: u16 = 1020;
/// A savepoint does not exist, so its transaction was undone.
const NO_SAVEPOINT: u16 = 1305;
const DUPLICATE: u16 = 1062;

/// A reason why a transaction cannot be committed although its job succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Conflict,
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) rows: usize,
    pub(crate) id: i64,
}

pub(crate) struct Session {
    conn: RefCell<Conn>,
    trouble: Cell<Option<Trouble>>,
    /// Time limit of a query that is set, in seconds.
    time: Cell<f64>,
    /// Whether the server may undo a transaction between two statements without an error: see [`watch`](Self::watch).
    is_watchful: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// All queries of a transaction see one moment.
    Reads,
    /// Each statement sees what is committed, and locks what it changes.
    Writes,
    /// Polls of a cluster, which may stall while it waits for a dead server.
    Polls,
    /// Work that can be done elsewhere or later, with a short timeout.
    Brief,
    /// Copies of a whole store, whose statements may take long.
    Copies,
}

impl Session {
    pub(crate) fn connect(options: &OptsBuilder, purpose: Use) -> Result<Self> {
        let (isolation, time) = match purpose {
            Use::Reads => ("REPEATABLE READ", ANSWER_TIME),
            Use::Brief => ("REPEATABLE READ", BRIEF_ANSWER_TIME),
            Use::Writes => ("READ COMMITTED", ANSWER_TIME),
            Use::Polls => ("READ COMMITTED", CLUSTER_ANSWER_TIME),
            Use::Copies => ("READ COMMITTED", LONG_ANSWER_TIME),
        };
        let options = options
            .clone()
            .stmt_cache_size(PREPARED)
            .tcp_connect_timeout(Some(CONNECT_TIME.min(time)))
            .read_timeout(Some(time))
            .write_timeout(Some(time))
            .tcp_nodelay(true)
            // An update that leaves a row as it is counts it.
            .additional_capabilities(mysql::consts::CapabilityFlags::CLIENT_FOUND_ROWS)
            .init(vec![
                "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
                "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
                // Ends the locks of a process that is stopped.
                "SET SESSION idle_transaction_timeout = 10, innodb_lock_wait_timeout = 5, time_zone = '+00:00'",
            ]);
        let mut conn = Conn::new(options)?;
        conn.query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"))?;
        Ok(Self {
            conn: RefCell::new(conn),
            trouble: Cell::new(None),
            time: Cell::new(0.0),
            is_watchful: Cell::new(false),
        })
    }

    /// Prevents transactions that are committed in part. A server of a cluster undoes a transaction that conflicts with
    /// one of another server, and should report it at the next statement. In 3 of 17 runs of a test on a busy machine
    /// (MariaDB 10.11.19, writes on two servers) it did not, and parts of transactions were committed; in 25 runs with
    /// this, none. Each statement is sent alone: of several in one text, errors after the first were lost.
    pub(super) fn watch(&self) {
        self.is_watchful.set(true);
    }

    pub(super) fn begin_write(&self) -> Result<()> {
        if !self.is_watchful.get() {
            return self.batch("START TRANSACTION");
        }
        // Without autocommit, statements after an undone transaction begin another one, which has no such savepoint.
        self.batch("SET autocommit = 0")?;
        self.batch("START TRANSACTION")?;
        self.batch("SAVEPOINT whole")
    }

    pub(super) fn commit_write(&self) -> Result<(), Error> {
        if !self.is_watchful.get() {
            return self.command("COMMIT");
        }
        let whole = self.command("RELEASE SAVEPOINT whole");
        let committed = whole.and_then(|()| self.command("COMMIT"));
        if committed.is_ok() {
            let _ = self.command("SET autocommit = 1");
        }
        if committed.is_err() {
            let trouble = self.take_trouble();
            if trouble != Some(Trouble::Lost) {
                // If this fails, the session is lost, and the rest of the transaction with it.
                self.roll_back()?;
            }
            self.trouble.set(trouble);
        }
        committed
    }

    pub(super) fn roll_back(&self) -> Result<(), Error> {
        self.command("ROLLBACK")?;
        if self.is_watchful.get() { self.command("SET autocommit = 1") } else { Ok(()) }
    }

    pub(crate) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<mysql::Row>> {
        Ok(self.execute(sql, values, |result| result.collect::<Result<Vec<_>, _>>())?)
    }

    /// The first column of the first row of a query, if any.
    pub(crate) fn value<T: FromValue>(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<T>> {
        Ok(self.query(sql, values)?.first().and_then(|row| row.get(0)))
    }

    pub(crate) fn number(&self, sql: &str) -> Result<Option<i64>> {
        self.value(sql, &[])
    }

    pub(crate) fn run(&self, sql: &str, values: &[Value<'_>]) -> Result<Done> {
        Ok(self.execute(sql, values, done)?)
    }

    /// [`run`](Self::run) without a copy of the values.
    pub(crate) fn run_owned(&self, sql: &str, values: Vec<mysql::Value>) -> Result<Done> {
        Ok(self.send(sql, Params::Positional(values), done)?)
    }

    /// Passes the rows of a query as they arrive, for large tables.
    pub(crate) fn stream<T, E: From<StoreError>>(
        &self,
        sql: &str,
        read: impl FnOnce(&mut dyn Iterator<Item = Result<mysql::Row>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let outcome = self.send(sql, Params::Empty, |result| {
            Ok(read(&mut result.map(|row| row.map_err(StoreError::from))))
        });
        outcome.map_err(StoreError::from)?
    }

    /// Inserts a row. Returns `None` when its key exists.
    pub(crate) fn run_unless_taken(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Done>> {
        match self.execute(sql, values, done) {
            Ok(done) => Ok(Some(done)),
            Err(Error::MySqlError(error)) if error.code == DUPLICATE => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// All rows of a query that is not prepared, because its text changes.
    pub(super) fn text(&self, sql: &str) -> Result<Vec<mysql::Row>> {
        let rows = self.conn.borrow_mut().query(sql);
        self.note(&rows);
        Ok(rows?)
    }

    /// Time since the server's start, in whole seconds.
    pub(super) fn uptime(&self) -> Result<Option<Duration>> {
        let rows = self.text("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
        let text = rows.first().and_then(|row| row.get::<String, _>(1));
        Ok(text.and_then(|text| text.parse().ok()).map(Duration::from_secs))
    }

    /// Whether the database has a table of this name.
    pub(crate) fn has_table(&self, name: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM information_schema.tables
             WHERE table_schema = DATABASE() AND table_name = ?";
        Ok(!self.query(sql, &[Value::Text(name)])?.is_empty())
    }

    /// Runs statements without values and rows.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        Ok(self.command(sql)?)
    }

    /// The same with the server's own error.
    pub(super) fn command(&self, sql: &str) -> Result<(), Error> {
        let result = self.conn.borrow_mut().query_drop(sql);
        self.note(&result);
        result
    }

    /// Begins a read whose queries may take so many seconds; 0 = as long as they take.
    pub(super) fn begin_read(&self, seconds: f64) -> Result<()> {
        if self.time.get() != seconds {
            self.batch(&format!("SET SESSION max_statement_time = {seconds}"))?;
            self.time.set(seconds);
        }
        self.batch("START TRANSACTION READ ONLY")
    }

    /// Takes the trouble of the last statements.
    pub(super) fn take_trouble(&self) -> Option<Trouble> {
        self.trouble.take()
    }

    fn execute<T>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        read: impl FnOnce(&mut mysql::QueryResult<'_, '_, '_, mysql::Binary>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (sql, values) = ordered(sql, values);
        let params = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
        self.send(&sql, params, read)
    }

    fn send<T>(
        &self,
        sql: &str,
        params: Params,
        read: impl FnOnce(&mut mysql::QueryResult<'_, '_, '_, mysql::Binary>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut conn = self.conn.borrow_mut();
        let result = conn.prep(sql).and_then(|statement| {
            let mut result = conn.exec_iter(&statement, params)?;
            read(&mut result)
        });
        self.note(&result);
        result
    }

    fn note<T>(&self, result: &Result<T, Error>) {
        let trouble = match result {
            Err(Error::MySqlError(error))
                if [DEADLOCK, LOCK_WAIT_TIMEOUT, RECORD_CHANGED, NO_SAVEPOINT]
                    .contains(&error.code) =>
            {
                Trouble::Conflict
            }
            Err(error) if is_lost(error) => Trouble::Lost,
            _ => return,
        };
        self.trouble.set(Some(trouble));
    }
}

fn done(result: &mut mysql::QueryResult<'_, '_, '_, mysql::Binary>) -> Result<Done, Error> {
    let rows = usize::try_from(result.affected_rows()).unwrap_or(usize::MAX);
    let id = result.last_insert_id().and_then(|id| i64::try_from(id).ok()).unwrap_or_default();
    Ok(Done { rows, id })
}

/// Whether the connection cannot be used any longer.
pub(super) fn is_lost(error: &Error) -> bool {
    match error {
        // The server stops, has ended the connection, or is not part of its cluster.
        Error::MySqlError(error) => {
            [1047, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1317, 1927, 1928, 4031]
                .contains(&error.code)
        }
        Error::IoError(_) | Error::CodecError(_) => true,
        Error::DriverError(error) => !matches!(
            error,
            DriverError::MismatchedStmtParams(..) | DriverError::UnknownAuthPlugin(_)
        ),
        _ => false,
    }
}

/// The statement and the values in the form that the server takes: with `?` only.
fn ordered<'s>(sql: &'s str, values: &[Value<'_>]) -> (Cow<'s, str>, Vec<mysql::Value>) {
    if !has_numbers(sql) {
        return (Cow::Borrowed(sql), values.iter().map(mysql::Value::from).collect());
    }
    let (sql, order) = unnumbered(sql);
    let value = |at: usize| values.get(at).map_or(mysql::Value::NULL, mysql::Value::from);
    (Cow::Owned(sql), order.into_iter().map(value).collect())
}

fn has_numbers(sql: &str) -> bool {
    sql.as_bytes().windows(2).any(|pair| pair[0] == b'?' && pair[1].is_ascii_digit())
}

/// The statement with `?` only, and the index of the value for each.
fn unnumbered(sql: &str) -> (String, Vec<usize>) {
    let (mut text, mut order) = (String::with_capacity(sql.len()), Vec::new());
    let mut rest = sql;
    while let Some(at) = rest.find('?') {
        text.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        // A statement has either kind. A plain `?` follows the last value, as in SQLite.
        let number = rest[..digits].parse::<usize>().unwrap_or(order.len() + 1);
        order.push(number.saturating_sub(1));
        rest = &rest[digits..];
    }
    text.push_str(rest);
    (text, order)
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let is_lost = is_lost(&error);
        match error {
            Error::MySqlError(error) => match error.code {
                DEADLOCK | LOCK_WAIT_TIMEOUT | RECORD_CHANGED | NO_SAVEPOINT | 1040 | 1203
                | 1226 => StoreError::Busy,
                // Keys, references, ranges, lengths, nulls, checks.
                DUPLICATE | 1048 | 1216 | 1217 | 1264 | 1366 | 1406 | 1451 | 1452 | 4025 => {
                    StoreError::Constraint(text)
                }
                1969 | 3024 => StoreError::GivenUp("the time limit has passed"),
                1021 | 1114 => StoreError::Full(text),
                1290 | 1792 | 1836 => StoreError::ReadOnly(text),
                1044 | 1045 | 1049 | 1142 | 1143 | 1227 | 1698 => StoreError::CannotOpen(text),
                _ if is_lost => StoreError::Unreachable(text),
                _ => StoreError::Other(text),
            },
            Error::IoError(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                StoreError::Unreachable("it does not answer".to_owned())
            }
            _ => StoreError::Unreachable(text),
        }
    }
}

/// Whether the server reported this error.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::MySqlError(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_values_become_as_many_as_they_are_used() {
        let (sql, order) = unnumbered("SELECT ?2 WHERE a = ?1 AND b > ?2 LIMIT ?3");
        assert_eq!(sql, "SELECT ? WHERE a = ? AND b > ? LIMIT ?");
        assert_eq!(order, [1, 0, 1, 2]);
        assert!(!has_numbers("SELECT ? LIMIT ?"));
    }
}
