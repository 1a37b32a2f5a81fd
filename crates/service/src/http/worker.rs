//! A worker: a thread with an event loop of its own, and its connections.

use super::client::Peer;
use super::connection::{CoarseClock, ConnState, Deadlines, WatchedStream};
use super::connection_slots::ConnectionSlot;
use super::edge::{ConnService, Edge};
use super::server::LARGEST_HEAD;
use crate::ops::metrics::ServerMetrics;
use crate::ops::thread::Joined;
use axum::Router;
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
    /// When the clocks of all workers began.
    pub(super) started: Instant,
    /// The listener is closed: connections end as soon as they have nothing to do.
    pub(super) closing: AtomicBool,
    pub(super) metrics: Arc<ServerMetrics>,
}

/// A connection, who is at its other end, and its place among those of that address.
pub(super) struct Arrival {
    pub(super) stream: StdStream,
    pub(super) peer: IpAddr,
    pub(super) place: ConnectionSlot,
}

/// A thread with an event loop and its connections. Dropping it ends the loop and joins the thread.
pub(super) struct Worker {
    _thread: Joined,
    pub(super) inbox: mpsc::UnboundedSender<Arrival>,
    pub(super) connections: Arc<AtomicUsize>,
    open: Open,
    pub(super) drain: Arc<Notify>,
    end: Arc<Notify>,
}

impl Worker {
    pub(super) fn start(number: usize, api: &Router, shared: &Arc<Shared>) -> io::Result<Worker> {
        // Unbounded, yet bounded: the acceptor lets few more than `max_connections` in.
        let (inbox, arrivals) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (drain, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let open = Open::default();
        let event_loop = Loop {
            router: api.clone(),
            clock: Arc::new(CoarseClock::new(shared.started)),
            open: Arc::clone(&open),
            connections: Arc::clone(&connections),
            shared: Arc::clone(shared),
        };
        let (begin_drain, finish) = (Arc::clone(&drain), Arc::clone(&end));
        let work = move || runtime.block_on(event_loop.run(arrivals, &begin_drain, &finish));
        let _thread = Joined::spawn(format!("http-{number}"), work)?;
        Ok(Worker { _thread, inbox, connections, open, drain, end })
    }

    /// The connections that wait for their clients, and since when.
    pub(super) fn waiting(&self) -> Vec<(u64, Weak<ConnState>)> {
        let open = self.open.lock();
        let waiting = open.iter().filter_map(|weak| {
            let since = weak.upgrade()?.waits_since()?;
            Some((since, Weak::clone(weak)))
        });
        waiting.collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.notify_one();
    }
}

type Open = Arc<Mutex<Vec<Weak<ConnState>>>>;

struct Loop {
    router: Router,
    clock: Arc<CoarseClock>,
    open: Open,
    connections: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

impl Loop {
    async fn run(
        self,
        mut arrivals: mpsc::UnboundedReceiver<Arrival>,
        drain: &Notify,
        end: &Notify,
    ) {
        let mut watch = tokio::time::interval(self.shared.deadlines.watch_every());
        loop {
            tokio::select! {
                Some(arrival) = arrivals.recv() => self.open(arrival),
                _ = watch.tick() => self.watch(),
                () = drain.notified() => watch.reset_immediately(),
                () = end.notified() => return,
            }
        }
    }

    fn open(&self, arrival: Arrival) {
        let Arrival { stream, peer, place } = arrival;
        let counted = Counted {
            connections: Arc::clone(&self.connections),
            metrics: Arc::clone(&self.shared.metrics),
            _place: place,
        };
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        // Answers are written whole; waiting to fill a segment would only delay their end.
        let _ = stream.set_nodelay(true);
        let state = Arc::new(ConnState::new(Arc::clone(&self.clock), peer));
        self.open.lock().push(Arc::downgrade(&state));
        let shared = Arc::clone(&self.shared);
        let service = ConnService {
            router: self.router.clone(),
            shared: Arc::clone(&shared.edge),
            state: Arc::clone(&state),
            peer: Peer(peer),
        };
        tokio::spawn(async move {
            serve(stream, state, service, &shared.metrics).await;
            drop(counted);
        });
    }

    /// Ends what has waited too long and forgets what has ended.
    fn watch(&self) {
        self.clock.refresh();
        let closing = self.shared.closing.load(Ordering::Relaxed);
        self.open.lock().retain(|state| {
            let Some(state) = state.upgrade() else { return false };
            match state.check(&self.shared.deadlines) {
                // Counted once, however long its task takes to notice.
                Some(expired) if state.expire() => {
                    self.shared.metrics.connection_expired(expired.reason());
                }
                Some(_) => {}
                // At a tick, so that this loop has asked the kernel for news since the drain began.
                None if closing => state.ask_to_close(),
                None => {}
            }
            true
        });
    }
}

/// Counts a connection as long as it lives, however it ends.
struct Counted {
    connections: Arc<AtomicUsize>,
    metrics: Arc<ServerMetrics>,
    _place: ConnectionSlot,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.connections.dec();
        self.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How long a connection that was accepted at the last moment may take to begin its first request.
const FIRST_REQUEST_WHILE_CLOSING: Duration = Duration::from_secs(1);

async fn serve(
    stream: TcpStream,
    state: Arc<ConnState>,
    service: ConnService,
    metrics: &ServerMetrics,
) {
    let stream = WatchedStream::new(stream, Arc::clone(&state));
    // Not `max_headers`: its default is the same 100, and setting it moves them to the heap. Not
    // `pipeline_flush`: it holds an answer back while the next request is only half there or broken.
    let connection = hyper::server::conn::http1::Builder::new()
        .max_buf_size(LARGEST_HEAD)
        .max_header_size(LARGEST_HEAD)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut told = false;
    let started = Instant::now();
    let result = poll_fn(|cx| {
        // First whatever has arrived: told while a request lies unread, hyper would take the
        // connection for idle and close it without an answer.
        if let Poll::Ready(result) = connection.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        if told || !state.is_asked_to_close() {
            return Poll::Pending;
        }
        // Told before its first request, a connection would close without an answer, too.
        told = state.has_begun() || started.elapsed() > FIRST_REQUEST_WHILE_CLOSING;
        if told {
            connection.as_mut().graceful_shutdown();
            return connection.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await;
    if let Err(error) = result {
        // A client that leaves, sends nonsense or is too slow is normal life.
        if error.is_parse() {
            metrics.unreadable.inc();
        }
        tracing::debug!(%error, open_for = ?started.elapsed(), "connection ended early");
    }
}
