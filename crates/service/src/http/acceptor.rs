//! Accepting connections, and refusing one too many.

use super::server::BACKLOG;
use super::worker::Worker;
use crate::ops::metrics::ServerMetrics;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Accepts connections and hands each to the worker that has fewest.
pub(super) struct Acceptor<'a> {
    pub(super) workers: &'a [Worker],
    /// Most connections at once; further ones are answered 503.
    pub(super) most: usize,
    pub(super) metrics: Arc<ServerMetrics>,
    /// Refusals under way.
    pub(super) refusals: Arc<Semaphore>,
}

impl Acceptor<'_> {
    /// Open connections of all workers.
    pub(super) fn connections(&self) -> usize {
        self.workers.iter().map(|w| w.connections.load(Ordering::Acquire)).sum()
    }

    /// Accepts until `end`.
    pub(super) async fn run(&mut self, listener: &TcpListener, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.hand_over(stream, peer.ip()),
                    Err(error) => self.accept_failed(&error).await,
                },
            }
        }
    }

    /// Takes what waits to be accepted and closes the listener. It asks the kernel itself: the event
    /// loop only knows of connections that came before it last looked.
    pub(super) fn empty_backlog(&mut self, listener: TcpListener) -> io::Result<()> {
        let listener = listener.into_std()?;
        // Bounded: clients that go on connecting must not keep the listener open.
        for _ in 0..BACKLOG {
            match listener.accept() {
                Ok((stream, peer)) => {
                    if stream.set_nonblocking(true).is_ok()
                        && let Ok(stream) = TcpStream::from_std(stream)
                    {
                        self.hand_over(stream, peer.ip());
                    }
                }
                Err(error) if is_of_one_client(&error) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Out of descriptors or memory: waiting is all that helps; a client's reset is nothing to wait for.
    async fn accept_failed(&self, error: &io::Error) {
        if is_of_one_client(error) {
            return;
        }
        self.metrics.accept_failed();
        tracing::error!(%error, "cannot accept connections");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    fn hand_over(&mut self, stream: TcpStream, peer: IpAddr) {
        if self.connections() >= self.most {
            self.refuse(stream);
            return;
        }
        let Some(worker) =
            self.workers.iter().min_by_key(|w| w.connections.load(Ordering::Acquire))
        else {
            return;
        };
        // Only fails when the socket cannot leave this loop: the peer then sees it closed.
        if let Ok(stream) = stream.into_std() {
            self.metrics.connection_accepted();
            worker.connections.fetch_add(1, Ordering::AcqRel);
            if worker.inbox.send((stream, peer)).is_err() {
                worker.connections.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Says 503 and closes, without ever holding more than a few sockets for it.
    fn refuse(&self, mut stream: TcpStream) {
        self.metrics.connection_refused();
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let goodbye = async {
                let _ = stream.write_all(REFUSAL.as_bytes()).await;
                let _ = stream.shutdown().await;
                // Closing with unread bytes would reset the connection and take the answer with it.
                let mut unread = [0; 1024];
                while matches!(stream.read(&mut unread).await, Ok(n) if n > 0) {}
            };
            let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
            drop(permit);
        });
    }
}

/// An error that ends one client's attempt and says nothing of the listener.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::ConnectionReset | Kind::Interrupted)
}

/// The answer to one connection too many, written before any request is read.
static REFUSAL: LazyLock<String> = LazyLock::new(|| {
    let body = r#"{"type":"urn:madang:problem:unavailable","title":"Service Unavailable","status":503,"detail":"too many connections","instance":"none"}"#;
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
});
