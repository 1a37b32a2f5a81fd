//! The listener, its workers, and their orderly end.
//!
//! Every worker is a thread with an event loop of its own; the acceptor hands each connection to
//! the worker that has fewest. Compared with one pool of threads that steal from each other, a
//! request then never changes threads, which saves a wake-up between cores for every request.

use super::connection::{CoarseClock, ConnState, Limits, WatchedStream};
use super::edge::{Edge, Endpoint};
use super::operations;
use crate::config::ServerSettings;
use crate::ops::metrics::ServerMetrics;
use axum::Router;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, Type};
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, mpsc};

/// Connections the kernel may hold until they are accepted; the kernel caps it at `somaxconn`.
const BACKLOG: i32 = 4096;

/// Largest head of a request in bytes; a larger one is answered 431.
const LARGEST_HEAD: usize = 64 * 1024;

/// Both listeners, bound but not yet serving.
#[derive(Debug)]
pub struct Server {
    api: StdListener,
    metrics: StdListener,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{}", if source.kind() == io::ErrorKind::AddrInUse { "; another program has it: choose another with --listen, or port 0 for any free one" } else { "" })]
pub struct BindError {
    /// The address asked for.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

impl Server {
    /// Binds both listeners.
    ///
    /// # Errors
    /// When an address is taken or not ours.
    pub fn bind(settings: &ServerSettings) -> Result<Server, BindError> {
        Ok(Server { api: listen(settings.listen)?, metrics: listen(settings.metrics_listen)? })
    }

    /// Address of the API, with the port that was picked.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.api.local_addr()
    }

    /// Address of `/metrics`.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn metrics_address(&self) -> io::Result<SocketAddr> {
        self.metrics.local_addr()
    }

    /// Serves until `signals.stop` asks for the end, then drains. Blocks the calling thread.
    ///
    /// # Errors
    /// When a thread or an event loop cannot be made.
    pub fn run(
        self,
        settings: &ServerSettings,
        routes: Routes,
        signals: &Signals,
    ) -> io::Result<()> {
        let count = settings
            .workers
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let shared = Arc::new(Shared {
            edge: Edge::new(settings, Arc::clone(&routes.metrics), Arc::clone(&signals.draining)),
            limits: Limits::new(settings),
            closing: AtomicBool::new(false),
            metrics: Arc::clone(&routes.metrics),
        });
        let workers = (0..count)
            .map(|n| Worker::start(n, &routes.api, &shared))
            .collect::<io::Result<Vec<_>>>()?;
        let control = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        control.block_on(async {
            let listener = TcpListener::from_std(self.api)?;
            let metrics = TcpListener::from_std(self.metrics)?;
            let operations = tokio::spawn(operations::serve(
                metrics,
                routes.operations,
                settings.header_timeout,
            ));
            let mut acceptor = Acceptor {
                workers: &workers,
                most: settings.max_connections,
                metrics: Arc::clone(&routes.metrics),
                refusals: Arc::new(Semaphore::new(64)),
            };
            acceptor.run(&listener, signals.stop.notified()).await;
            signals.draining.store(true, Ordering::Release);
            tracing::info!(connections = acceptor.connections(), "stopping: draining");
            let hurried = {
                let grace = tokio::time::timeout(settings.drain_delay, signals.hurry.notified());
                let mut hurried = false;
                acceptor.run(&listener, async { hurried = grace.await.is_ok() }).await;
                hurried
            };
            // What the kernel has accepted already gets an answer; what comes later is refused, and
            // a refused connection is retried elsewhere by a proxy, even for a POST.
            acceptor.empty_backlog(listener)?;
            shared.closing.store(true, Ordering::Release);
            if hurried {
                signals.hurry.notify_one();
            }
            for worker in &workers {
                worker.drain.notify_one();
            }
            let all_ended = async {
                while acceptor.connections() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                () = all_ended => {}
                () = tokio::time::sleep(settings.drain_timeout) => {
                    tracing::warn!(connections = acceptor.connections(), "drain timeout: closing what is left");
                }
                () = signals.hurry.notified() => tracing::warn!("told twice: closing at once"),
            }
            operations.abort();
            io::Result::Ok(())
        })?;
        drop(workers);
        Ok(())
    }
}

/// What is served where.
pub struct Routes {
    /// The API.
    pub api: Router,
    /// `/metrics` and nothing else.
    pub operations: Router,
    /// Counters of the listener and the edge.
    pub metrics: Arc<ServerMetrics>,
}

/// How the outside tells a running server to end.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Begin to drain.
    pub stop: Arc<Notify>,
    /// Do not wait any longer.
    pub hurry: Arc<Notify>,
    /// True from the beginning of the drain: readiness says so, answers close their connections.
    pub draining: Arc<AtomicBool>,
}

fn listen(address: SocketAddr) -> Result<StdListener, BindError> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    bind().map_err(|source| BindError { address, source })
}

struct Acceptor<'a> {
    workers: &'a [Worker],
    most: usize,
    metrics: Arc<ServerMetrics>,
    refusals: Arc<Semaphore>,
}

impl Acceptor<'_> {
    fn connections(&self) -> usize {
        self.workers.iter().map(|w| w.connections.load(Ordering::Acquire)).sum()
    }

    /// Accepts until `end`.
    async fn run(&mut self, listener: &TcpListener, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.hand_over(stream),
                    Err(error) => self.accept_failed(&error).await,
                },
            }
        }
    }

    /// Takes what waits to be accepted and closes the listener. It asks the kernel itself: the event
    /// loop only knows of connections that came before it last looked.
    fn empty_backlog(&mut self, listener: TcpListener) -> io::Result<()> {
        let listener = listener.into_std()?;
        // Bounded: clients that go on connecting must not keep the listener open.
        for _ in 0..BACKLOG {
            match listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_ok()
                        && let Ok(stream) = TcpStream::from_std(stream)
                    {
                        self.hand_over(stream);
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

    fn hand_over(&mut self, stream: TcpStream) {
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
            if worker.inbox.send(stream).is_err() {
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

/// What all workers share.
struct Shared {
    edge: Edge,
    limits: Limits,
    /// The listener is closed: connections end as soon as they have nothing to do.
    closing: AtomicBool,
    metrics: Arc<ServerMetrics>,
}

/// A thread with an event loop and its connections. Dropping it ends the loop and joins the thread.
struct Worker {
    inbox: mpsc::UnboundedSender<StdStream>,
    connections: Arc<AtomicUsize>,
    drain: Arc<Notify>,
    end: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(number: usize, api: &Router, shared: &Arc<Shared>) -> io::Result<Worker> {
        // Unbounded, yet bounded: the acceptor never lets more than `max_connections` in.
        let (inbox, arrivals) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (drain, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let event_loop = Loop {
            endpoint: shared.edge.endpoint(api.clone()),
            clock: Arc::new(CoarseClock::new()),
            open: Arc::default(),
            connections: Arc::clone(&connections),
            shared: Arc::clone(shared),
        };
        let (begin_drain, finish) = (Arc::clone(&drain), Arc::clone(&end));
        let thread = std::thread::Builder::new()
            .name(format!("http-{number}"))
            .spawn(move || runtime.block_on(event_loop.run(arrivals, &begin_drain, &finish)))?;
        Ok(Worker { inbox, connections, drain, end, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Open = Arc<Mutex<Vec<Weak<ConnState>>>>;

/// The event loop of a worker.
struct Loop {
    endpoint: Endpoint,
    clock: Arc<CoarseClock>,
    open: Open,
    connections: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

impl Loop {
    async fn run(
        self,
        mut arrivals: mpsc::UnboundedReceiver<StdStream>,
        drain: &Notify,
        end: &Notify,
    ) {
        let mut watch = tokio::time::interval(self.shared.limits.watch_every());
        loop {
            tokio::select! {
                Some(stream) = arrivals.recv() => self.open(stream),
                _ = watch.tick() => self.watch(),
                () = drain.notified() => watch.reset_immediately(),
                () = end.notified() => return,
            }
        }
    }

    fn open(&self, stream: StdStream) {
        let counted = Counted(Arc::clone(&self.connections), Arc::clone(&self.shared.metrics));
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        // Answers are written whole; waiting to fill a segment would only delay their end.
        let _ = stream.set_nodelay(true);
        let state = Arc::new(ConnState::new(Arc::clone(&self.clock)));
        self.lock_open().push(Arc::downgrade(&state));
        let shared = Arc::clone(&self.shared);
        let service = self.endpoint.for_connection(Arc::clone(&state));
        tokio::spawn(async move {
            serve(stream, state, service, &shared.metrics).await;
            drop(counted);
        });
    }

    /// Ends what has waited too long and forgets what has ended.
    fn watch(&self) {
        self.clock.refresh();
        let closing = self.shared.closing.load(Ordering::Relaxed);
        self.lock_open().retain(|state| {
            let Some(state) = state.upgrade() else { return false };
            match state.check(&self.shared.limits) {
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

    fn lock_open(&self) -> std::sync::MutexGuard<'_, Vec<Weak<ConnState>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection as long as it lives, however it ends.
struct Counted(Arc<AtomicUsize>, Arc<ServerMetrics>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.connection_closed();
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How long a connection that was accepted at the last moment may take to begin its first request.
const FIRST_REQUEST_WHILE_CLOSING: Duration = Duration::from_secs(1);

async fn serve(
    stream: TcpStream,
    state: Arc<ConnState>,
    service: super::edge::ConnService,
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
            metrics.unreadable_request();
        }
        tracing::debug!(%error, open_for = ?started.elapsed(), "connection ended early");
    }
}
