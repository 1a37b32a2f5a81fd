//! Accepting connections, and what happens with one too many.
//!
//! When all places are taken, the connection that has waited longest for its client makes room: opening many
//! and sending nothing then keeps nobody out. When an address has its share, the one of its own that has waited
//! longest does: those who share an address do not keep each other out either. Only when the server works for all
//! of them is the new one refused.

use super::connection::ConnState;
use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::server::BACKLOG;
use super::worker::{Arrival, Worker};
use crate::ops::metrics::ServerMetrics;
use crate::ops::quiet_log::OncePerSecond;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Refusals under way at once; further ones are closed without an answer.
const MOST_REFUSALS: usize = 64;

/// Connections beyond the most that there may be for a moment, until those they displaced have gone.
const MOST_DISPLACED: usize = 64;

/// Looking through ten thousand connections takes a fraction of a millisecond. A look that found less than
/// one in `WORTH_A_LOOK` of them is not repeated for so long.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const WORTH_A_LOOK: usize = 64;

/// As many as one look finds; what comes after them will have changed until it is their turn.
const FOUND_AT_ONCE: usize = 1024;

/// Closed when the process is out of descriptors, before the next try.
const CLOSED_FOR_DESCRIPTORS: usize = 16;

static ACCEPT_ERRORS: OncePerSecond = OncePerSecond::new();

/// Accepts connections and hands each to the worker that has fewest.
pub(super) struct Acceptor<'a> {
    workers: &'a [Worker],
    most: usize,
    places: Arc<ConnectionSlots>,
    metrics: Arc<ServerMetrics>,
    refusals: Arc<Semaphore>,
    /// Connections that waited for their clients at the last look, and since when; the longest last.
    waiting: Vec<(u64, Weak<ConnState>)>,
    /// When a look last found too little.
    in_vain: Option<Instant>,
    /// When it last looked for a connection of one address.
    looked_for_one: Option<Instant>,
}

impl<'a> Acceptor<'a> {
    pub(super) fn new(
        workers: &'a [Worker],
        most: usize,
        places: ConnectionSlots,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        let (places, refusals) = (Arc::new(places), Arc::new(Semaphore::new(MOST_REFUSALS)));
        let (waiting, in_vain, looked_for_one) = Default::default();
        Self { workers, most, places, metrics, refusals, waiting, in_vain, looked_for_one }
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
        let Some(place) = self.place(peer) else { return self.refuse(stream) };
        if !self.has_room() {
            return self.refuse(stream);
        }
        let Some(worker) =
            self.workers.iter().min_by_key(|w| w.connections.load(Ordering::Acquire))
        else {
            return;
        };
        // Only fails when the socket cannot leave this loop: the peer then sees it closed.
        if let Ok(stream) = stream.into_std() {
            self.metrics.accepted.inc();
            self.metrics.connections.inc();
            worker.connections.fetch_add(1, Ordering::AcqRel);
            if worker.inbox.send(Arrival { stream, peer, place }).is_err() {
                worker.connections.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// A place in the share of this address, if need be that of the connection of its own that has waited
    /// longest. One more than its share is open for the moment until that has gone.
    fn place(&mut self, peer: IpAddr) -> Option<ConnectionSlot> {
        if let Some(place) = self.places.take(peer, 0) {
            return Some(place);
        }
        // Each time all connections are looked through, which somebody could ask for without end.
        if self.looked_for_one.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return None;
        }
        self.looked_for_one = Some(Instant::now());
        let place = self.places.take(peer, 1)?;
        let address = self.places.sharers.counted(peer);
        let waiting = self.workers.iter().flat_map(Worker::waiting);
        let of_address = waiting.filter_map(|(since, state)| Some((since, state.upgrade()?)));
        let (_, longest) = of_address
            .filter(|(_, state)| self.places.sharers.counted(state.peer) == address)
            .min_by_key(|(since, _)| *since)?;
        longest.expire().then(|| self.metrics.connection_expired("displaced"))?;
        Some(place)
    }

    /// Whether there is room for one more, if need be in the place of one that waits.
    fn has_room(&mut self) -> bool {
        let open = self.connections();
        open < self.most || (open < self.most + MOST_DISPLACED && self.displace())
    }

    /// Closes the connection that has waited longest for its client; false when none waits.
    fn displace(&mut self) -> bool {
        if self.displace_found() {
            return true;
        }
        if self.in_vain.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return false;
        }
        self.look();
        self.displace_found()
    }

    fn displace_found(&mut self) -> bool {
        while let Some((since, state)) = self.waiting.pop() {
            // It may have got what it waited for since it was found.
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

    fn look(&mut self) {
        self.waiting = self.workers.iter().flat_map(Worker::waiting).collect();
        let worth_it = self.waiting.len() * WORTH_A_LOOK >= self.connections();
        self.in_vain = (!worth_it).then(Instant::now);
        if self.waiting.len() > FOUND_AT_ONCE {
            self.waiting.select_nth_unstable_by_key(FOUND_AT_ONCE, |(since, _)| *since);
            self.waiting.truncate(FOUND_AT_ONCE);
        }
        self.waiting.sort_unstable_by_key(|(since, _)| std::cmp::Reverse(*since));
    }

    /// Says 503 and closes, without ever holding more than a few sockets for it.
    fn refuse(&self, mut stream: TcpStream) {
        self.metrics.refused.inc();
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
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nX-Content-Type-Options: nosniff\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
});
