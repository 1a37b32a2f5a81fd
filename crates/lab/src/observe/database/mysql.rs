//! MySQL and MariaDB, without TLS, by the `mysql` crate: authentication alone has four methods.

use std::error::Error as _;
use std::sync::mpsc;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Column, Conn, Error, Opts, OptsBuilder, Row, Value};

use super::watching::Client;
use super::{ANSWER_TIME, Address, CONNECT_TIME, DatabaseError, QUERY_TIME, bounded};
use crate::run::cancel::Cancel;

const ACCEPTED: &str = "an address such as `mysql://USER:PASSWORD@HOST:PORT/DATABASE` is wanted";
/// Packet size; without it, the client would query the server's limit.
const PACKET_BYTES: usize = 16 << 20;

pub(crate) fn parse(address: &str) -> Result<Opts, DatabaseError> {
    let opts = Opts::from_url(address).map_err(|error| match error {
        mysql::UrlError::UnknownParameter(name) => format!("unknown parameter `{name}`"),
        mysql::UrlError::InvalidValue(name, value) => format!("`{name}` cannot be `{value}`"),
        _ => ACCEPTED.to_owned(),
    });
    let opts = opts.map_err(DatabaseError::Failed)?;
    if opts.get_ssl_opts().is_some() {
        return Err(DatabaseError::failed("TLS is not supported"));
    }
    Ok(opts)
}

fn connect(address: &Address, time: Duration) -> Result<Conn, DatabaseError> {
    let opts = OptsBuilder::from_opts(parse(address.secret())?)
        // The given address, not a local socket.
        .prefer_socket(false)
        .max_allowed_packet(Some(PACKET_BYTES))
        .stmt_cache_size(0)
        .tcp_connect_timeout(Some(CONNECT_TIME))
        .read_timeout(Some(time))
        .write_timeout(Some(time));
    Ok(Conn::new(opts)?)
}

/// Short messages.
impl From<Error> for DatabaseError {
    fn from(error: Error) -> Self {
        Self::Failed(match &error {
            Error::IoError(error) => return Self::of_connection(error),
            Error::CodecError(error) => match error.source().and_then(|why| why.downcast_ref()) {
                Some(error) => return Self::of_connection(error),
                None => error.to_string(),
            },
            // The outer message starts with the name of a Rust type.
            Error::DriverError(error) => error.to_string(),
            Error::MySqlError(error) => error.to_string(),
            other => other.to_string(),
        })
    }
}

/// Connection to an observed database.
pub(crate) struct Status {
    conn: Conn,
    /// Statements so far; each counts as one of the `Questions`.
    asked: u64,
}

impl Status {
    pub(crate) fn connect(address: &Address) -> Result<Self, DatabaseError> {
        Ok(Self { conn: connect(address, ANSWER_TIME)?, asked: 0 })
    }
}

impl Client for Status {
    /// From `SHOW GLOBAL STATUS`.
    fn counters(&mut self, names: &[&str]) -> Result<Vec<f64>, DatabaseError> {
        let list: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let statement = format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", list.join(","));
        self.asked += 1;
        let rows: Vec<(String, String)> = self.conn.query(statement)?;
        let value = |name: &&str| {
            let row = rows.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
            // Only MariaDB counts deadlocks.
            let Some((_, value)) = row else { return Ok(f64::NAN) };
            let why = |_| DatabaseError::Failed(format!("its status has no number `{name}`"));
            value.parse().map_err(why)
        };
        names.iter().map(value).collect()
    }

    fn level(&mut self) -> Result<f64, DatabaseError> {
        // Without the thread that responds.
        self.counters(&["Threads_running"]).map(|values| (values[0] - 1.0).max(0.0))
    }

    fn asked(&self) -> u64 {
        self.asked
    }
}

/// First column of the first row of a read-only query.
pub(crate) fn number(
    address: &Address,
    query: &str,
    cancel: &Cancel,
) -> Result<f64, DatabaseError> {
    let (connected, connection) = mpsc::channel();
    let (to, query) = (address.clone(), query.to_owned());
    let taken = bounded(QUERY_TIME, cancel, move || {
        let mut conn = connect(&to, QUERY_TIME)?;
        let _ = connected.send(conn.connection_id());
        ask(&mut conn, &query)
    });
    if taken.is_err()
        && let Ok(id) = connection.try_recv()
    {
        // A query outlives its client and would disturb later rounds. It has usually ended: errors are ignored.
        let _ = end(address, id);
    }
    taken
}

fn ask(conn: &mut Conn, query: &str) -> Result<f64, DatabaseError> {
    conn.query_drop("SET SESSION TRANSACTION READ ONLY")?;
    conn.query_drop("START TRANSACTION")?;
    let row: Option<Row> = conn.query_first(query)?;
    let row = row.ok_or_else(|| DatabaseError::failed("the query gives no row"))?;
    let column = row.columns_ref().first();
    let column = column.ok_or_else(|| DatabaseError::failed("the query gives no column"))?;
    value(column, row.as_ref(0))
}

fn value(column: &Column, value: Option<&Value>) -> Result<f64, DatabaseError> {
    let text = || DatabaseError::failed("the query gives a text, not a number");
    match value {
        None | Some(Value::NULL) => Err(DatabaseError::failed("the query gives NULL")),
        // Plain queries return text.
        Some(Value::Bytes(digits)) if column.column_type().is_numeric_type() => {
            let digits = std::str::from_utf8(digits).map_err(|_| text())?;
            digits.parse().map_err(|_| text())
        }
        Some(Value::Int(integer)) => Ok(*integer as f64),
        Some(Value::UInt(integer)) => Ok(*integer as f64),
        Some(Value::Float(float)) => Ok(f64::from(*float)),
        Some(Value::Double(float)) => Ok(*float),
        Some(_) => Err(text()),
    }
}

fn end(address: &Address, id: u32) -> Result<(), DatabaseError> {
    let address = address.clone();
    bounded(CONNECT_TIME, &Cancel::default(), move || {
        let mut conn = connect(&address, CONNECT_TIME)?;
        Ok(conn.query_drop(format!("KILL {id}"))?)
    })
}
