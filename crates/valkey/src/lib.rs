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

/// What a server is for.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// What the log calls it: "the shared cache".
    pub name: &'static str,
    /// Longest time for an answer.
    pub answer: Duration,
    /// What the operator should do when it has no room.
    pub when_full: &'static str,
    /// Whether what it holds is nowhere else: a server that evicts is refused, and the log says when one keeps nothing on
    /// disk.
    pub is_kept: bool,
}

/// A script in Lua that a server runs as one step.
#[derive(Debug)]
pub struct Script {
    code: String,
    hash: String,
}

impl Script {
    /// Of this text.
    pub fn new(code: String) -> Self {
        let hash = redis::Script::new(&code).get_hash().to_owned();
        Self { code, hash }
    }
}

/// A server, or a cluster. Clones share its connections.
#[derive(Clone)]
pub struct Server {
    links: Arc<Links>,
    answer: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Server {
    /// One server, or some nodes of a cluster. Connects when it is first asked.
    ///
    /// # Errors
    /// There is no address, or the client does not take it.
    pub fn new(urls: &[Url], purpose: Purpose) -> Result<Self, Error> {
        Ok(Self { links: Links::new(urls, purpose)?, answer: purpose.answer })
    }

    /// Whether it answers, as far as that is known.
    pub fn is_up(&self) -> bool {
        self.links.breaker.is_closed()
    }

    /// Whether it is a cluster, where one call is about keys of one slot.
    pub fn is_cluster(&self) -> bool {
        self.links.is_cluster()
    }

    /// Runs a command, waiting for the connection if there is none yet.
    ///
    /// # Errors
    /// No answer in time, or an error instead of one; [`Error::Skipped`] at once if the server failed a moment ago.
    pub async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let run = async { self.links.connected().await?.run(command).await };
        self.within(run).await
    }

    /// Runs a command on a connection of its own, whatever happened before: to find out why a server cannot be used.
    ///
    /// # Errors
    /// No connection or no answer in time, or an error instead of an answer.
    pub async fn check(&self, command: &Cmd) -> Result<(), Error> {
        let run = async { self.links.connect_in_time().await?.run::<redis::Value>(command).await };
        let asked = tokio::time::timeout(self.answer, run).await;
        asked.unwrap_or(Err(Error::Late(self.answer))).map(drop)
    }

    /// Runs a command if this thread has a connection; if not, one is made meanwhile.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Error::Skipped`] if there is no connection.
    pub async fn try_run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let mut link = self.open()?;
        self.within(link.run(command)).await
    }

    /// The same for several commands at once.
    ///
    /// # Errors
    /// As [`try_run`](Self::try_run).
    pub async fn try_pipe<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, Error> {
        let mut link = self.open()?;
        self.within(link.pipe(pipe)).await
    }

    /// Runs a script, which the server keeps under its hash.
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

    async fn within<T>(&self, run: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let asked = tokio::time::timeout(self.answer, run).await;
        let answer = asked.unwrap_or(Err(Error::Late(self.answer)));
        match &answer {
            Err(Error::Skipped) => {}
            answer => self.links.answered(answer.as_ref().err()),
        }
        answer
    }
}
