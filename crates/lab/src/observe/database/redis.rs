//! Redis and Valkey, without TLS, by the `redis` crate.

use std::time::Duration;

use ::redis::{
    Cmd, Connection, ConnectionInfo, IntoConnectionInfo as _, RedisError, RedisResult, Value,
    from_redis_value,
};

use super::watching::Client;
use super::{ANSWER_TIME, Address, CONNECT_TIME, DatabaseError, QUERY_TIME, bounded};
use crate::run::cancel::Cancel;

const ACCEPTED: &str = "an address such as `redis://HOST:PORT`, `redis://:PASSWORD@HOST:PORT` or \
     `redis://USER:PASSWORD@HOST:PORT/NUMBER` is wanted";

pub(crate) fn parse(text: &str) -> Result<ConnectionInfo, DatabaseError> {
    if text.starts_with("rediss://") {
        return Err(DatabaseError::failed("TLS is not supported"));
    }
    let info = text.starts_with("redis://").then(|| text.into_connection_info().ok()).flatten();
    info.ok_or_else(|| DatabaseError::failed(ACCEPTED))
}

/// Connects, with a limit for each response.
fn connect(address: &Address, time: Duration) -> Result<Connection, DatabaseError> {
    let open = |info: ConnectionInfo| -> RedisResult<Connection> {
        let conn = ::redis::Client::open(info)?.get_connection_with_timeout(CONNECT_TIME)?;
        conn.set_read_timeout(Some(time))?;
        conn.set_write_timeout(Some(time))?;
        Ok(conn)
    };
    Ok(open(parse(address.secret())?)?)
}

/// Short messages.
impl From<RedisError> for DatabaseError {
    fn from(error: RedisError) -> Self {
        Self::Failed(match (error.code(), error.detail()) {
            _ if error.is_timeout() => "no answer in time".to_owned(),
            (Some(code), Some(detail)) => format!("{code} {detail}"),
            (None, Some(detail)) => detail.to_owned(),
            _ if error.is_connection_refusal() => error.to_string(),
            _ if error.is_connection_dropped() => "the connection was closed".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// Connection to an observed Redis.
pub(crate) struct Info {
    conn: Connection,
    /// Commands so far.
    asked: u64,
}

impl Info {
    pub(crate) fn connect(address: &Address) -> Result<Self, DatabaseError> {
        Ok(Self { conn: connect(address, ANSWER_TIME)?, asked: 0 })
    }

    /// Fields of a section of `INFO`.
    fn fields(&mut self, section: &str, names: &[&str]) -> Result<Vec<f64>, DatabaseError> {
        self.asked += 1;
        let page: String = ::redis::cmd("INFO").arg(section).query(&mut self.conn)?;
        names.iter().map(|name| field(&page, name)).collect()
    }
}

fn field(page: &str, name: &str) -> Result<f64, DatabaseError> {
    let found = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = found.and_then(|value| value.trim().parse().ok());
    number.ok_or_else(|| DatabaseError::Failed(format!("its INFO has no number `{name}`")))
}

impl Client for Info {
    fn counters(&mut self, names: &[&str]) -> Result<Vec<f64>, DatabaseError> {
        self.fields("stats", names)
    }

    fn level(&mut self) -> Result<f64, DatabaseError> {
        self.fields("memory", &["used_memory"]).map(|values| values[0])
    }

    fn asked(&self) -> u64 {
        self.asked
    }
}

pub(crate) fn number(
    address: &Address,
    command: &[String],
    cancel: &Cancel,
) -> Result<f64, DatabaseError> {
    let (address, command) = (address.clone(), command.to_owned());
    bounded(QUERY_TIME, cancel, move || {
        let mut asked = Cmd::new();
        asked.arg(command);
        value(asked.query(&mut connect(&address, QUERY_TIME)?)?)
    })
}

fn value(answer: Value) -> Result<f64, DatabaseError> {
    let why = match answer {
        Value::Nil => "the answer is nil: there is no such key or member".to_owned(),
        Value::Array(list) => format!("the answer is a list of {}, not a number", list.len()),
        Value::Int(number) => return Ok(number as f64),
        other => match from_redis_value::<String>(other) {
            Ok(text) => match text.trim().parse() {
                Ok(number) if f64::is_finite(number) => return Ok(number),
                _ => {
                    let start: String = text.chars().take(40).collect();
                    format!("the answer is no number but {start:?}")
                }
            },
            Err(error) => error.to_string(),
        },
    };
    Err(DatabaseError::Failed(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let page = "# Memory\r\nused_memory_human:1M\r\nused_memory:1048576\r\nodd:x\r\n";
        assert_eq!(field(page, "used_memory"), Ok(1_048_576.0));
        assert!(field(page, "odd").is_err() && field(page, "used").is_err());
    }

    #[test]
    fn an_answer_that_is_no_number_is_named() {
        assert_eq!(value(Value::SimpleString(" 2.5 ".into())), Ok(2.5));
        assert_eq!(value(Value::Int(-3)), Ok(-3.0));
        for (answer, part) in [
            (Value::BulkString("abc".into()), "\"abc\""),
            (Value::BulkString("nan".into()), "\"nan\""),
            (Value::Nil, "no such key"),
            (Value::Array(vec![Value::Nil; 3]), "a list of 3"),
        ] {
            let why = value(answer).unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        }
    }
}
