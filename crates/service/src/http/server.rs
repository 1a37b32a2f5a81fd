//! The listener, its workers, and their orderly end.
//!
//! Every worker is a thread with an event loop of its own; the acceptor hands each connection to
//! the worker that has fewest. Compared with one pool of threads that steal from each other, a
//! request then never changes threads, which saves a wake-up between cores for every request.

use super::acceptor::Acceptor;
use super::connection::Deadlines;
use super::connection_slots::ConnectionSlots;
use super::edge::Edge;
use super::worker::{Shared, Worker};
use super::{LargestBody, operations};
use crate::app::App;
use crate::config::{ServerSettings, Settings};
use crate::ops::last_errors::LastErrors;
use crate::ops::metrics::ServerMetrics;
use crate::ops::record::Recorder;
use axum::Router;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// Connections the kernel may hold until they are accepted; the kernel caps it at `somaxconn`.
pub(super) const BACKLOG: i32 = 4096;

/// Largest head of a request in bytes; a larger one is answered 431. A connection holds so much of a head that
/// never ends, so 10,000 of them hold 160 MiB. Four times the 4 KiB that browsers allow a cookie.
pub(super) const LARGEST_HEAD: usize = 16 * 1024;

/// What the kernel may hold of an answer beyond what is on its way. It then wakes a writer after half of
/// this was taken and not after a third of what it has buffered, which grows to megabytes: a slow
/// reader could not be told from one that takes nothing.
const UNSENT_BYTES: u32 = 128 * 1024;

/// Both listeners, bound but not yet serving.
#[derive(Debug)]
pub struct Server {
    api: StdListener,
    metrics: StdListener,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({setting}){}", if source.kind() == io::ErrorKind::AddrInUse { "; choose another address, or port 0 for any free port" } else { "" })]
pub struct BindError {
    /// The setting that asks for it.
    pub setting: &'static str,
    /// The address asked for.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

impl Server {
    /// Binds both listeners.
    pub fn bind(settings: &ServerSettings) -> Result<Server, BindError> {
        Ok(Server {
            api: listen("server.listen", settings.listen)?,
            metrics: listen("server.metrics_listen", settings.metrics_listen)?,
        })
    }

    /// Address of the API, with the port that was picked.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.api.local_addr()
    }

    /// Address of `/metrics`, with the port that was picked.
    pub fn metrics_address(&self) -> io::Result<SocketAddr> {
        self.metrics.local_addr()
    }

    /// Serves until `signals.stop` asks for the end, then drains. Blocks the calling thread.
    pub fn run(self, settings: &Settings, routes: Routes, signals: &Signals) -> io::Result<()> {
        let edge = Arc::new(Edge::new(settings, &routes, Arc::clone(&signals.draining)));
        let places = ConnectionSlots::new(settings);
        let settings = &settings.server;
        let count = settings
            .workers
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let shared = Arc::new(Shared {
            edge,
            deadlines: Deadlines::new(settings),
            started: Instant::now(),
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
            let metrics = Arc::clone(&routes.metrics);
            let mut acceptor = Acceptor::new(&workers, settings.max_connections, places, metrics);
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
                    tracing::warn!(connections = acceptor.connections(), "drain timeout: closing the remaining connections");
                }
                () = signals.hurry.notified() => tracing::warn!("second signal: closing at once"),
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
    /// Everything below `/` of `server.listen`, behind the edge.
    pub api: Router,
    /// `/metrics` and nothing else.
    pub operations: Router,
    /// Counters of the listener and the edge.
    pub metrics: Arc<ServerMetrics>,
    /// Which requests may have bodies of more than 64 KiB.
    pub largest_body: LargestBody,
    /// What takes records of requests, if anything does.
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// What takes the last errors, if anybody can look at them.
    pub(crate) errors: Option<Arc<LastErrors>>,
    /// What the API works on.
    pub app: Arc<App>,
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

fn listen(setting: &'static str, address: SocketAddr) -> Result<StdListener, BindError> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        // Connections inherit it. Without it slow readers are noticed later.
        let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    bind().map_err(|source| BindError { setting, address, source })
}
