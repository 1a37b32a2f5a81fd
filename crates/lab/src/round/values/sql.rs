//! Reads a number from a variant's SQLite database while its server runs.

#![expect(
    clippy::disallowed_types,
    reason = "the lab has no store: it reads any service's database, read-only"
)]

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::file::experiment::EXACT;
use crate::observe::database::DatabaseError;
use crate::run::cancel::Cancel;

/// A writer that holds the database longer is stuck.
const BUSY_TIME: Duration = Duration::from_secs(5);
/// Limit of a query.
const QUERY_TIME: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Returns the first column of the first row of `query` in `sqlite:PATH`, relative to `dir`.
pub(crate) fn number(
    database: &str,
    query: &str,
    dir: &Path,
    cancel: &Cancel,
) -> Result<f64, DatabaseError> {
    let path = database.strip_prefix("sqlite:");
    let refused = || DatabaseError::Failed(format!("`{database}` is no `sqlite:PATH`"));
    let path = dir.join(path.ok_or_else(refused)?);
    let failed = |error| DatabaseError::Failed(format!("`{}`: {error}", path.display()));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(&path, flags).map_err(failed)?;
    conn.busy_timeout(BUSY_TIME).map_err(failed)?;
    let handle = conn.get_interrupt_handle();
    let (done, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let deadline = Instant::now() + QUERY_TIME;
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if cancel.is_cancelled() || Instant::now() >= deadline {
                    handle.interrupt();
                }
            }
        });
        let value = conn.query_row(query, [], |row| {
            Ok(match row.get_ref(0)? {
                ValueRef::Integer(integer) if integer.unsigned_abs() > EXACT as u64 => {
                    let why = "is more than 2^53, beyond which sums are not exact";
                    Err(DatabaseError::failed(format!("{integer} {why}")))
                }
                ValueRef::Integer(integer) => Ok(integer as f64),
                ValueRef::Real(real) => Ok(real),
                ValueRef::Null => Err(DatabaseError::failed("the query gives NULL")),
                ValueRef::Text(_) | ValueRef::Blob(_) => {
                    Err(DatabaseError::failed("the query gives a text, not a number"))
                }
            })
        });
        drop(done);
        value.map_err(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => DatabaseError::failed("the query gives no row"),
            error => failed(error),
        })?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(setup: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        Connection::open(&path).unwrap().execute_batch(setup).unwrap();
        let url = format!("sqlite:{}", path.display());
        (dir, url)
    }

    #[test]
    fn the_first_column_of_the_first_row_is_the_number() {
        let (dir, url) = database(
            "pragma journal_mode = wal; create table t (n); insert into t values (2), (3)",
        );
        let ask = |query| number(&url, query, dir.path(), &Cancel::default());
        assert_eq!(ask("select count(*), 'x' from t"), Ok(2.0));
        assert_eq!(ask("select avg(n) from t"), Ok(2.5));
        assert_eq!(number("sqlite:x.db", "select 1", dir.path(), &Cancel::default()), Ok(1.0));
        for (query, part) in [
            ("select max(n) from t where n > 9", "NULL"),
            ("select n from t where n > 9", "no row"),
            ("select 'x'", "not a number"),
            ("select x from t", "no such column"),
            ("select 9007199254740993", "2^53"),
            ("delete from t", "readonly"),
        ] {
            let error = ask(query).unwrap_err().to_string();
            assert!(error.contains(part), "no {part:?} in: {error}");
        }
        assert_eq!(ask("select count(*) from t"), Ok(2.0), "nothing was deleted");
    }

    #[test]
    fn a_database_that_is_not_there_is_an_error_and_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/none.db", dir.path().display());
        let error =
            number(&url, "select 1", dir.path(), &Cancel::default()).unwrap_err().to_string();
        assert!(error.contains("none.db"), "{error}");
        assert!(!dir.path().join("none.db").exists());
    }

    #[test]
    fn an_endless_query_ends_when_the_run_is_cancelled() {
        let (dir, url) = database("create table t (n)");
        let cancel = Cancel::default();
        cancel.cancel();
        let endless = "with recursive c(n) as (select 1 union all select n + 1 from c) \
                       select count(*) from c";
        let error = number(&url, endless, dir.path(), &cancel).unwrap_err().to_string();
        assert!(error.contains("interrupted"), "{error}");
    }
}
