//! Workers: threads with an event loop and its connections.

use super::client::Peer;
use super::connection::{CoarseClock, ConnState, Deadlines, WatchedStream};
use super::connection_slots::ConnectionSlot;
use super::edge::{ConnService, Edge};
use super::server::LARGEST_HEAD;
use crate::ops::metrics::ServerMetrics;
use crate::ops::thread::Joined;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, TcpStream as StdStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

pub(super) struct Shared {
    pub(super) edge: Arc<Edge>,
    pub(super) deadlines: Deadlines,
    /// Start of the clocks of all workers.
    pub(super) started: Instant,
    /// The listener is closed: connections end as soon as they are idle.
    pub(super) closing: AtomicBool,
}

/// An accepted connection.
pub(super) struct Arrival {
    pub(super) stream: StdStream,
    pub(super) peer: IpAddr,
    pub(super) slot: ConnectionSlot,
}

/// Dropping it ends the event loop and joins the thread.
pub(super) struct Worker {
    // Before the thread: dropping it ends the loop.
    pub(super) inbox: mpsc::UnboundedSender<Arrival>,
    _thread: Joined,
    pub(super) connections: Arc<AtomicUsize>,
    open: Open,
    pub(super) drain: Arc<Notify>,
}

impl Worker {
    pub(super) fn start(number: usize, shared: &Arc<Shared>) -> io::Result<Worker> {
        // Not bounded by itself: the acceptor admits few more than `max_connections`.
        let (inbox, arrivals) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let drain = Arc::new(Notify::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let open = Open::default();
        let event_loop = Loop {
            clock: Arc::new(CoarseClock::new(shared.started)),
            open: Arc::clone(&open),
            connections: Arc::clone(&connections),
            shared: Arc::clone(shared),
        };
        let begin_drain = Arc::clone(&drain);
        let work = move || runtime.block_on(event_loop.run(arrivals, &begin_drain));
        let _thread = Joined::spawn(format!("http-{number}"), work)?;
        Ok(Worker { inbox, _thread, connections, open, drain })
    }

    /// Connections that wait for their clients, with the start of the wait.
    pub(super) fn waiting(&self) -> Vec<(u64, Weak<ConnState>)> {
        let open = self.open.lock();
        let waiting = open.iter().filter_map(|weak| {
            let since = weak.upgrade()?.waits_since()?;
            Some((since, Weak::clone(weak)))
        });
        waiting.collect()
    }
}

type Open = Arc<Mutex<Vec<Weak<ConnState>>>>;

struct Loop {
    clock: Arc<CoarseClock>,
    open: Open,
    connections: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

impl Loop {
    async fn run(self, mut arrivals: mpsc::UnboundedReceiver<Arrival>, drain: &Notify) {
        let mut watch = tokio::time::interval(self.shared.deadlines.watch_every());
        loop {
            tokio::select! {
                arrival = arrivals.recv() => match arrival {
                    Some(arrival) => self.open(arrival),
                    None => return,
                },
                _ = watch.tick() => self.watch(),
                () = drain.notified() => watch.reset_immediately(),
            }
        }
    }

    fn open(&self, arrival: Arrival) {
        let Arrival { stream, peer, slot } = arrival;
        let counted = Counted {
            connections: Arc::clone(&self.connections),
            shared: Arc::clone(&self.shared),
            _slot: slot,
        };
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        // Responses are written whole; waiting to fill a segment would only delay their end.
        let _ = stream.set_nodelay(true);
        let state = Arc::new(ConnState::new(Arc::clone(&self.clock), peer));
        self.open.lock().push(Arc::downgrade(&state));
        let edge = Arc::clone(&self.shared.edge);
        let service = ConnService {
            router: edge.routes.api.clone(),
            shared: Arc::clone(&edge),
            state: Arc::clone(&state),
            peer: Peer(peer),
        };
        tokio::spawn(async move {
            serve(stream, state, service, &edge.routes.metrics).await;
            drop(counted);
        });
    }

    /// Closes expired connections and drops ended ones.
    fn watch(&self) {
        self.clock.refresh();
        let closing = self.shared.closing.load(Ordering::Relaxed);
        self.open.lock().retain(|state| {
            let Some(state) = state.upgrade() else { return false };
            match state.check(&self.shared.deadlines) {
                // Counted once, however late its task notices.
                Some(expired) if state.expire() => {
                    self.shared.edge.routes.metrics.connection_expired(expired);
                }
                Some(_) => {}
                // At a tick, so that this loop has polled the kernel since the drain began.
                None if closing => state.ask_to_close(),
                None => {}
            }
            true
        });
    }
}

/// Counts a connection while it lives.
struct Counted {
    connections: Arc<AtomicUsize>,
    shared: Arc<Shared>,
    _slot: ConnectionSlot,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.edge.routes.metrics.connections.dec();
        self.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Time in which a connection accepted during shutdown must begin its first request.
const FIRST_REQUEST_WHILE_CLOSING: Duration = Duration::from_secs(1);

async fn serve(
    stream: TcpStream,
    state: Arc<ConnState>,
    service: ConnService,
    metrics: &ServerMetrics,
) {
    let stream = WatchedStream::new(stream, Arc::clone(&state));
    // Not `max_headers`: setting it, even to its default of 100, moves them to the heap. Not `pipeline_flush`: it
    // delays a response while the next request is incomplete or broken.
    let connection = hyper::server::conn::http1::Builder::new()
        .max_buf_size(LARGEST_HEAD)
        .max_header_size(LARGEST_HEAD)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut shutting_down = false;
    let started = Instant::now();
    let result = poll_fn(|cx| {
        // First process what has arrived: with a request unread, hyper would take the connection for idle and close
        // it without a response.
        if let Poll::Ready(result) = connection.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        if shutting_down || !state.is_asked_to_close() {
            return Poll::Pending;
        }
        // The same holds before the first request.
        shutting_down = state.has_begun() || started.elapsed() > FIRST_REQUEST_WHILE_CLOSING;
        if shutting_down {
            connection.as_mut().graceful_shutdown();
            return connection.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await;
    if let Err(error) = result {
        // Clients that leave, send invalid data or are too slow are normal.
        if error.is_parse() {
            metrics.unreadable.inc();
        }
        tracing::debug!(%error, open_for = ?started.elapsed(), "connection ended early");
    }
}
