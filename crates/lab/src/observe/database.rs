//! Servers beside the server: databases by MySQL's protocol (MySQL, MariaDB) and Redis's (Redis, Valkey), and nginx.
//!
//! Two things are asked of databases, one of nginx. Their own counters, over a round: `Watching` asks on one
//! connection that it keeps, on a thread of its own, so that a database that hangs holds up
//! nothing else. And single numbers, for invariants.
//!
//! Neither can take longer than a bound: whatever a database does, a round ends.

mod error;
mod figure;
pub(crate) mod mysql;
mod nginx;
pub(crate) mod redis;
mod watching;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

pub(crate) use error::DatabaseError;
pub(crate) use figure::{Engine, Figure};
use serde::{Serialize, Serializer};
pub(crate) use watching::Watching;

use crate::run::cancel::Cancel;

/// Time a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Time an answer about the database itself may take: counters and memory, no query.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Time a query of an invariant may take. One that takes longer would make rounds of queries.
const QUERY_TIME: Duration = Duration::from_secs(60);
/// Time between two looks at whether the run was cancelled.
const LOOK: Duration = Duration::from_millis(50);

/// Where a database is, and as whom it is asked. Prints without user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE` or `redis://[[USER]:PASSWORD@]HOST:PORT[/NUMBER]`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Checks it. In a `template`, `{port}` and `{dir}` are to be filled in later.
    pub(crate) fn check(&self, engine: Engine, template: bool) -> Result<(), DatabaseError> {
        let example = self.0.replace("{port}", "1").replace("{dir}", "dir");
        let text = if template { &example } else { &self.0 };
        match engine {
            Engine::Mysql => mysql::parse(text).map(drop),
            Engine::Redis => redis::parse(text).map(drop),
            Engine::Nginx => nginx::parse(text).map(drop),
        }
        .map_err(|why| DatabaseError::Address(format!("`{self}`: {why}")))
    }

    /// All of it, for those who connect.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whatever stands there instead of an address may have a password in it, too.
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        // Up to the last `@`: a password that was not encoded may have anything in it.
        let host = rest.rsplit('@').next().unwrap_or_default();
        let between = if scheme.is_empty() { "" } else { "://" };
        write!(f, "{scheme}{between}{host}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where the databases of a variant are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    pub mysql: Option<Address>,
    pub redis: Option<Address>,
    /// The page of nginx's `stub_status`.
    pub nginx: Option<Address>,
}

impl Addresses {
    /// The address of the database of this kind, if there is one.
    pub fn get(&self, engine: Engine) -> Option<&Address> {
        match engine {
            Engine::Mysql => self.mysql.as_ref(),
            Engine::Redis => self.redis.as_ref(),
            Engine::Nginx => self.nginx.as_ref(),
        }
    }

    /// These, and where there is none, those.
    pub fn or(&self, others: &Self) -> Self {
        let [mysql, redis, nginx] =
            Engine::ALL.map(|engine| self.get(engine).or(others.get(engine)).cloned());
        Self { mysql, redis, nginx }
    }

    pub fn filled(&self, fill: &dyn Fn(&str) -> String) -> Self {
        let fill = |address: &Address| Address(fill(&address.0));
        let [mysql, redis, nginx] = Engine::ALL.map(|engine| self.get(engine).map(fill));
        Self { mysql, redis, nginx }
    }
}

/// Something that takes its time, on a thread of its own that is left behind when `limit` is over
/// or the run is cancelled. What it waits for must end by itself some time later.
fn bounded<T: Send + 'static>(
    limit: Duration,
    cancel: &Cancel,
    work: impl FnOnce() -> Result<T, DatabaseError> + Send + 'static,
) -> Result<T, DatabaseError> {
    let (done, result) = mpsc::channel();
    let run = move || {
        // Nobody listens any more when it took too long.
        let _ = done.send(work());
    };
    let thread = thread::Builder::new().name("lab-database".to_owned()).spawn(run);
    thread.map_err(|error| DatabaseError::NoThread(error.to_string()))?;
    patiently(limit, cancel, &result)
}

/// Waits for a result, at most so long.
fn patiently<T>(
    limit: Duration,
    cancel: &Cancel,
    result: &mpsc::Receiver<Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    let deadline = Instant::now() + limit;
    loop {
        match result.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(DatabaseError::ThreadEnded),
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                return Err(DatabaseError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                return Err(DatabaseError::Late(limit));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_user_and_password() {
        for (address, expected) in [
            ("mysql://root:p@ss@host:3306/db", "mysql://host:3306/db"),
            ("redis://:p/w?#x@h:1/2", "redis://h:1/2"),
            ("redis://:secret@h:1/2", "redis://h:1/2"),
            ("redis://h:1", "redis://h:1"),
            ("root:secret@host", "host"),
        ] {
            assert_eq!(Address::new(address).to_string(), expected, "{address}");
        }
    }

    #[test]
    fn wrong_addresses_are_refused_without_their_password() {
        for (engine, address, part) in [
            (Engine::Mysql, "http://u:secret@h/", "mysql://USER:PASSWORD@HOST:PORT/DATABASE"),
            (Engine::Mysql, "mysql://u:secret@h/d?wrong=1", "wrong"),
            (Engine::Mysql, "mysql://u:secret@h/d?require_ssl=true", "require_ssl"),
            (Engine::Redis, "rediss://:secret@h:1", "TLS"),
            (Engine::Redis, "mysql://:secret@h:1", "redis://"),
            (Engine::Redis, "redis://:secret@", "redis://"),
            (Engine::Redis, "redis://:secret@h:70000", "redis://"),
            (Engine::Redis, "redis://:secret@h/zero", "redis://"),
        ] {
            let why = Address::new(address).check(engine, true).unwrap_err().to_string();
            assert!(why.contains(part) && !why.contains("secret"), "{address}: {why}");
        }
        for address in ["mysql://root@127.0.0.1:{port}/test", "mysql://u:p@h"] {
            assert_eq!(Address::new(address).check(Engine::Mysql, true), Ok(()), "{address}");
        }
        for address in ["redis://127.0.0.1:{port}", "redis://u:p@[::1]:1/3", "redis://h"] {
            assert_eq!(Address::new(address).check(Engine::Redis, true), Ok(()), "{address}");
        }
        let unfilled = Address::new("redis://127.0.0.1:{port}");
        assert!(unfilled.check(Engine::Redis, false).is_err());
    }

    #[test]
    fn work_that_does_not_end_is_left_behind() {
        let (_held, endless) = mpsc::channel::<()>();
        let wait = move || {
            let _ = endless.recv();
            Ok(())
        };
        let limit = Duration::from_millis(60);
        let why = bounded(limit, &Cancel::default(), wait).unwrap_err();
        assert_eq!(why, DatabaseError::Late(limit));
        let (_held, endless) = mpsc::channel::<()>();
        let cancel = Cancel::default();
        cancel.cancel();
        let wait = move || Ok(endless.recv().is_err());
        assert_eq!(bounded(QUERY_TIME, &cancel, wait), Err(DatabaseError::Interrupted));
    }
}
