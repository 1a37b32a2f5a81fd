//! The thread that sends spans to a collector, in batches of half a second (docs/decisions/0064-request-records.md).
//!
//! When the collector is unavailable, it retries with growing pauses while the queue fills; further spans are
//! dropped.

use super::Record;
use super::otlp::Resource;
use crate::config::Endpoint;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use prometheus_client::metrics::counter::Counter;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

/// Time between the first span and the request. With the length of the queue it bounds the spans of a second.
const GATHER: Duration = Duration::from_millis(500);

/// Maximum number of spans in one body, some 700 KB: collectors reject bodies of several megabytes.
const AT_ONCE: usize = 512;

/// Timeout of connecting, and of each read and write.
const PATIENCE: Duration = Duration::from_secs(2);

/// First and longest pause before a body is sent again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Exporter {
    endpoint: Endpoint,
    resource: Resource,
    sent: Counter,
    dropped: Counter,
    /// The last body was not accepted.
    is_failing: bool,
}

/// Error of sending a body.
#[derive(Debug, thiserror::Error)]
enum PostError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it answered {0}")]
    Status(u16),
}

impl PostError {
    /// True if the same body may be accepted later (OTLP specification, "OTLP/HTTP Response").
    fn is_temporary(&self) -> bool {
        match self {
            PostError::Io(_) => true,
            PostError::Status(status) => matches!(status, 429 | 502 | 503 | 504),
        }
    }
}

impl Exporter {
    pub(super) fn new(
        endpoint: Endpoint,
        address: SocketAddr,
        sent: Counter,
        dropped: Counter,
    ) -> Exporter {
        Exporter { endpoint, resource: Resource::new(address), sent, dropped, is_failing: false }
    }

    /// Sends spans until all senders are dropped; `stop` is closed at the same time.
    pub(super) fn run(mut self, records: &Receiver<Arc<Record>>, stop: &Receiver<()>) {
        let mut batch = Vec::new();
        while let Ok(first) = records.recv() {
            batch.push(first);
            is_closed_within(GATHER, stop);
            while !batch.is_empty() {
                batch.extend(records.try_iter().take(AT_ONCE - batch.len()));
                self.send(&batch, stop);
                batch.clear();
                batch.extend(records.try_recv());
            }
        }
    }

    /// Sends one batch; retries while the collector is unavailable and the server runs.
    fn send(&mut self, batch: &[Arc<Record>], stop: &Receiver<()>) {
        let body = self.resource.body(batch);
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.post(&body) else {
                self.is_failing = false;
                self.sent.inc_by(batch.len() as u64);
                return;
            };
            // Once per outage.
            if !std::mem::replace(&mut self.is_failing, true) {
                let collector = &self.endpoint.authority;
                tracing::warn!(%error, collector, "cannot send spans");
            }
            if !error.is_temporary() || is_closed_within(pause, stop) {
                self.dropped.inc_by(batch.len() as u64);
                return;
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn post(&self, body: &[u8]) -> Result<(), PostError> {
        let Endpoint { authority, path } = &self.endpoint;
        let mut stream = connect(authority)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nUser-Agent: madang/{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut line = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut line)?;
        let status = std::str::from_utf8(&line)
            .ok()
            .and_then(|line| line.strip_prefix("HTTP/1.")?.split_once(' ')?.1.parse::<u16>().ok());
        match status {
            Some(200..=299) => Ok(()),
            Some(status) => Err(PostError::Status(status)),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "no answer of HTTP/1.1").into()),
        }
    }
}

/// Waits for this time; true when the channel was closed meanwhile.
fn is_closed_within(time: Duration, channel: &Receiver<()>) -> bool {
    channel.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
}

/// Connects to the first of its addresses that accepts.
fn connect(authority: &str) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
