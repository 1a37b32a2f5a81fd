#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod breaker;
mod link;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use link::{Error, Url};
/// The client, for making commands.
pub use redis;
use redis::{Cmd, FromRedisValue, Pipeline, ToRedisArgs};

use link::{Connection, Links};

/// Use of a server.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// Name in the log, such as "the shared cache".
    pub name: &'static str,
    /// Time limit of a call.
    pub answer: Duration,
    /// Advice to the operator when it is full.
    pub when_full: &'static str,
    /// Whether its data is nowhere else. A server that evicts is then refused, and one without persistence is logged.
    pub is_kept: bool,
}

/// A script in Lua, which a server runs atomically.
#[derive(Debug)]
pub struct Script {
    code: String,
    hash: String,
}

impl Script {
    /// Makes a script of its text.
    pub fn new(code: String) -> Self {
        let hash = redis::Script::new(&code).get_hash().to_owned();
        Self { code, hash }
    }
}

/// A server, or a cluster. Clones share its connections.
#[derive(Clone)]
pub struct Server {
    links: Arc<Links>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Server {
    /// One server, or some nodes of a cluster. Connects at the first call.
    ///
    /// # Errors
    /// There is no address, or the client rejects it.
    pub fn new(urls: &[Url], purpose: Purpose) -> Result<Self, Error> {
        Ok(Self { links: Links::new(urls, purpose)? })
    }

    /// Whether it is available, as far as is known.
    pub fn is_up(&self) -> bool {
        self.links.breaker.is_closed()
    }

    /// Whether it is a cluster, where all keys of a call must be in one slot.
    pub fn is_cluster(&self) -> bool {
        self.links.is_cluster()
    }

    /// Runs a command, after connecting if there is no connection yet.
    ///
    /// # Errors
    /// The call fails or times out; [`Error::Skipped`] at once if the breaker is open.
    pub async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let run = async { self.links.connected().await?.run(command).await };
        self.within(run).await
    }

    /// Runs a command on a new connection, whatever the breaker's state, to find out why a server cannot be used.
    ///
    /// # Errors
    /// The connection or the call fails or times out.
    pub async fn check(&self, command: &Cmd) -> Result<(), Error> {
        let run = async { self.links.connect_in_time().await?.run::<redis::Value>(command).await };
        self.in_time(run).await.map(drop)
    }

    /// Runs a command if this thread has a connection; otherwise starts to connect.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Error::Skipped`] if there is no connection.
    pub async fn try_run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let mut link = self.open()?;
        self.within(link.run(command)).await
    }

    /// [`try_run`](Self::try_run) for several commands at once.
    ///
    /// # Errors
    /// As [`try_run`](Self::try_run).
    pub async fn try_pipe<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, Error> {
        let mut link = self.open()?;
        self.within(link.pipe(pipe)).await
    }

    /// Runs a script, which the server caches.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn script<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        args: &[impl ToRedisArgs],
    ) -> Result<T, Error> {
        let with = |command: &str, script: &str| {
            let mut command = redis::cmd(command);
            command.arg(script).arg(keys.len()).arg(keys).arg(args);
            command
        };
        match self.run(&with("EVALSHA", &script.hash)).await {
            Err(Error::Failed(error)) if error.code() == Some("NOSCRIPT") => {
                self.run(&with("EVAL", &script.code)).await
            }
            answer => answer,
        }
    }

    fn open(&self) -> Result<Connection, Error> {
        self.links.connection().ok_or(Error::Skipped)
    }

    async fn in_time<T>(&self, run: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let limit = self.links.purpose.answer;
        tokio::time::timeout(limit, run).await.unwrap_or(Err(Error::Late(limit)))
    }

    async fn within<T>(&self, run: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let answer = self.in_time(run).await;
        if !matches!(answer, Err(Error::Skipped)) {
            self.links.answered(answer.as_ref().err());
        }
        answer
    }
}
