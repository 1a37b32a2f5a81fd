//! Observed servers beside the server: databases that speak the protocols of MySQL or Redis, and nginx. Their counters
//! over a round are figures, and single values are for invariants. Every operation has a time limit.

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

const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Limit of responses about counters and memory.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Limit of a query of an invariant.
const QUERY_TIME: Duration = Duration::from_secs(60);
/// Interval of checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// URL of a database. Prints without user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE` or `redis://[[USER]:PASSWORD@]HOST:PORT[/NUMBER]`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Checks the address. A `template` may contain `{port}` and `{dir}`.
    pub(crate) fn check(&self, engine: Engine, template: bool) -> Result<(), DatabaseError> {
        let example = self.0.replace("{port}", "1").replace("{dir}", "dir");
        let text = if template { &example } else { &self.0 };
        match engine {
            Engine::Mysql => mysql::parse(text).map(drop),
            Engine::Redis => redis::parse(text).map(drop),
            Engine::Nginx => nginx::parse(text).map(drop),
        }
        .map_err(|why| DatabaseError::Failed(format!("`{self}`: {why}")))
    }

    /// The complete URL.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Invalid addresses may contain a password, too.
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        // Up to the last `@`: an unencoded password may contain one.
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

/// Databases of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    pub mysql: Option<Address>,
    pub redis: Option<Address>,
    /// Page of nginx's `stub_status`.
    pub nginx: Option<Address>,
}

impl Addresses {
    pub fn get(&self, engine: Engine) -> Option<&Address> {
        match engine {
            Engine::Mysql => self.mysql.as_ref(),
            Engine::Redis => self.redis.as_ref(),
            Engine::Nginx => self.nginx.as_ref(),
        }
    }

    /// Fills gaps with other addresses.
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

/// Runs work on a thread, which is abandoned after `limit` or on cancellation and must then end by itself.
fn bounded<T: Send + 'static>(
    limit: Duration,
    cancel: &Cancel,
    work: impl FnOnce() -> Result<T, DatabaseError> + Send + 'static,
) -> Result<T, DatabaseError> {
    let (done, result) = mpsc::channel();
    let run = move || {
        // The receiver is gone after the limit.
        let _ = done.send(work());
    };
    let thread = thread::Builder::new().name("lab-database".to_owned()).spawn(run);
    thread.map_err(|error| DatabaseError::NoThread(error.to_string()))?;
    patiently(limit, cancel, &result)
}

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
