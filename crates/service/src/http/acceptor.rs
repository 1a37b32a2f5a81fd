//! Accepting connections, and closing or refusing some at the limits (docs/decisions/0005-displacement.md).

use super::connection::ConnState;
use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::server::BACKLOG;
use super::worker::{Arrival, Worker};
use crate::ops::metrics::ServerMetrics;
use crate::ops::quiet_log::QuietLog;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Refusals in progress; further connections are closed without a response.
const MOST_REFUSALS: usize = 64;

/// Connections above the maximum for a moment, until the displaced ones are closed.
const MOST_DISPLACED: usize = 64;

/// A scan of ten thousand connections takes a fraction of a millisecond. One that found fewer than one in
/// `WORTH_A_SCAN` of them waiting is not repeated for this long.
const SCAN_EVERY: Duration = Duration::from_millis(10);
const WORTH_A_SCAN: usize = 64;

/// Waiting connections kept of one scan; later ones will have changed before their turn.
const KEPT_OF_SCAN: usize = 1024;

/// Connections closed when the process is out of descriptors, before the next attempt.
const CLOSED_FOR_DESCRIPTORS: usize = 16;

static ACCEPT_ERRORS: QuietLog = QuietLog::every_seconds(1);

/// Accepts connections and hands each to the worker with the fewest.
pub(super) struct Acceptor<'a> {
    workers: &'a [Worker],
    most: usize,
    slots: Arc<ConnectionSlots>,
    metrics: Arc<ServerMetrics>,
    refusals: Arc<Semaphore>,
    /// Connections that waited for their clients at the last scan, with the start of the wait; the longest wait last.
    waiting: Vec<(u64, Weak<ConnState>)>,
    /// Time of the last scan, if it found too few.
    vain_scan: Option<Instant>,
    /// Time of the last scan for a connection of one address.
    address_scan: Option<Instant>,
}

impl<'a> Acceptor<'a> {
    pub(super) fn new(
        workers: &'a [Worker],
        most: usize,
        slots: ConnectionSlots,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        Self {
            workers,
            most,
            slots: Arc::new(slots),
            metrics,
            refusals: Arc::new(Semaphore::new(MOST_REFUSALS)),
            waiting: Vec::new(),
            vain_scan: None,
            address_scan: None,
        }
    }

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

    /// Accepts the connections in the backlog and closes the listener. It asks the kernel: the event loop knows only
    /// connections from before its last poll.
    pub(super) fn empty_backlog(&mut self, listener: TcpListener) -> io::Result<()> {
        let listener = listener.into_std()?;
        // Bounded: clients that keep connecting must not keep the listener open.
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

    /// Out of descriptors or memory, waiting is all that helps; a client's reset needs no wait.
    async fn accept_failed(&mut self, error: &io::Error) {
        if is_of_one_client(error) {
            return;
        }
        self.metrics.accept_errors.inc();
        if let Some(unsaid) = ACCEPT_ERRORS.admit() {
            tracing::error!(%error, unsaid, "cannot accept connections");
        }
        for _ in 0..CLOSED_FOR_DESCRIPTORS {
            self.displace();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    fn hand_over(&mut self, stream: TcpStream, peer: IpAddr) {
        let Some(slot) = self.slot(peer) else { return self.refuse(stream) };
        if !self.has_room() {
            return self.refuse(stream);
        }
        let Some(worker) =
            self.workers.iter().min_by_key(|w| w.connections.load(Ordering::Acquire))
        else {
            return;
        };
        // Fails only when the socket cannot leave this loop; the peer then sees it closed.
        if let Ok(stream) = stream.into_std() {
            self.metrics.accepted.inc();
            self.metrics.connections.inc();
            worker.connections.fetch_add(1, Ordering::AcqRel);
            if worker.inbox.send(Arrival { stream, peer, slot }).is_err() {
                worker.connections.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// A slot of this address, if need be by closing its longest-waiting connection. The address has one slot more
    /// until that connection has closed.
    fn slot(&mut self, peer: IpAddr) -> Option<ConnectionSlot> {
        if let Some(slot) = self.slots.take(peer, 0) {
            return Some(slot);
        }
        // Bounded: a client could cause a scan of all connections with each attempt.
        if self.address_scan.is_some_and(|at| at.elapsed() < SCAN_EVERY) {
            return None;
        }
        self.address_scan = Some(Instant::now());
        let slot = self.slots.take(peer, 1)?;
        let address = self.slots.sharers.counted(peer);
        let waiting = self.workers.iter().flat_map(Worker::waiting);
        let waiting = waiting.filter_map(|(since, state)| Some((since, state.upgrade()?)));
        let (_, longest) = waiting
            .filter(|(_, state)| self.slots.sharers.counted(state.peer) == address)
            .min_by_key(|(since, _)| *since)?;
        longest.expire().then(|| self.metrics.connection_expired("displaced"))?;
        Some(slot)
    }

    /// True if there is room for one more, if need be by closing one that waits.
    fn has_room(&mut self) -> bool {
        let open = self.connections();
        open < self.most || (open < self.most + MOST_DISPLACED && self.displace())
    }

    /// Closes the connection that has waited longest for its client; false when none waits.
    fn displace(&mut self) -> bool {
        if self.displace_known() {
            return true;
        }
        if self.vain_scan.is_some_and(|at| at.elapsed() < SCAN_EVERY) {
            return false;
        }
        self.scan();
        self.displace_known()
    }

    fn displace_known(&mut self) -> bool {
        while let Some((since, state)) = self.waiting.pop() {
            // Its wait may have ended since the scan.
            if let Some(state) = state.upgrade()
                && state.waits_since() == Some(since)
                && state.expire()
            {
                self.metrics.connection_expired("displaced");
                return true;
            }
        }
        false
    }

    fn scan(&mut self) {
        self.waiting = self.workers.iter().flat_map(Worker::waiting).collect();
        let worth_it = self.waiting.len() * WORTH_A_SCAN >= self.connections();
        self.vain_scan = (!worth_it).then(Instant::now);
        if self.waiting.len() > KEPT_OF_SCAN {
            self.waiting.select_nth_unstable_by_key(KEPT_OF_SCAN, |(since, _)| *since);
            self.waiting.truncate(KEPT_OF_SCAN);
        }
        self.waiting.sort_unstable_by_key(|(since, _)| std::cmp::Reverse(*since));
    }

    /// Answers 503 and closes the connection.
    fn refuse(&self, mut stream: TcpStream) {
        self.metrics.refused.inc();
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let goodbye = async {
                let _ = stream.write_all(REFUSAL.as_bytes()).await;
                let _ = stream.shutdown().await;
                // Closing with unread bytes would reset the connection and lose the response.
                let mut unread = [0; 1024];
                while matches!(stream.read(&mut unread).await, Ok(n) if n > 0) {}
            };
            let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
            drop(permit);
        });
    }
}

/// True if an error concerns one client's connection only, not the listener.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::ConnectionReset | Kind::Interrupted)
}

/// The response to a refused connection, sent before any request is read.
static REFUSAL: LazyLock<String> = LazyLock::new(|| {
    let body = r#"{"type":"urn:madang:problem:unavailable","title":"Service Unavailable","status":503,"detail":"too many connections","instance":"none"}"#;
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nX-Content-Type-Options: nosniff\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
});
