//! A connection: one command at a time.

use std::io;
use std::rc::Rc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::reply::{Malformed, Reader};
use super::{Reply, Target};
use crate::http::{Network, Offer, RequestError, Stream, Traffic};

#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{0}")]
    Connect(#[from] RequestError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("dial tcp: i/o timeout")]
    DialTimeout,
    #[error("i/o timeout")]
    Timeout,
    #[error("EOF")]
    Closed,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Message of the server, which refuses the log-in or the command.
    #[error("{0}")]
    Refused(String),
    /// The key or member does not exist, in the words of k6's client.
    #[error("redis: nil")]
    Nil,
}

/// A connection ready for the next command.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    traffic: Traffic,
}

impl Link {
    /// Connects and logs in.
    pub(crate) async fn open(network: &Network, target: &Target) -> Result<Self, LinkError> {
        let opening = async {
            let stream = network.connect(&target.url, Offer::Http1).await?;
            let mut link = Self { stream, traffic: Traffic::default() };
            link.log_in(target).await?;
            Ok(link)
        };
        timeout(target.dial_timeout, opening).await.unwrap_or(Err(LinkError::DialTimeout))
    }

    async fn log_in(&mut self, target: &Target) -> Result<(), LinkError> {
        let Target { username, password, database, .. } = target;
        if !password.is_empty() {
            let user = if username.is_empty() { "default" } else { username };
            let reply = self.exchange(&["AUTH", user, password]).await?;
            // Before version 6 there is only one user.
            let is_old = username.is_empty()
                && matches!(&reply, Reply::Error(text) if text.starts_with("ERR wrong number"));
            accepted(if is_old { self.exchange(&["AUTH", password]).await? } else { reply })?;
        }
        if *database != 0 {
            accepted(self.exchange(&["SELECT", &database.to_string()]).await?)?;
        }
        Ok(())
    }

    /// False if the server has closed the connection.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.stream.is_idle()
    }

    /// Sends a command and reads its reply. After an error the connection must be dropped.
    pub(crate) async fn call(
        &mut self,
        target: &Target,
        command: &[Rc<str>],
    ) -> Result<Reply, LinkError> {
        let exchange = self.exchange(command);
        timeout(target.reply_timeout, exchange).await.unwrap_or(Err(LinkError::Timeout))
    }

    async fn exchange(&mut self, command: &[impl AsRef<str>]) -> Result<Reply, LinkError> {
        let mut bytes = format!("*{}\r\n", command.len());
        for word in command {
            let word = word.as_ref();
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(bytes.as_bytes()).await?;
        self.stream.flush().await?;
        self.traffic.sent += bytes.len() as u64;
        let mut reader = Reader::default();
        loop {
            let read = self.stream.read_buf(reader.buffer()).await?;
            if read == 0 {
                return Err(LinkError::Closed);
            }
            self.traffic.received += read as u64;
            if let Some(reply) = reader.reply()? {
                return Ok(reply);
            }
        }
    }

    /// Network bytes since the last call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        let own = std::mem::take(&mut self.traffic);
        self.stream.take_traffic().unwrap_or(own)
    }
}

fn accepted(reply: Reply) -> Result<(), LinkError> {
    match reply {
        Reply::Error(text) => Err(LinkError::Refused(text)),
        _ => Ok(()),
    }
}
