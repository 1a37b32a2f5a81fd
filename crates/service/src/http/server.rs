//! The listener, its workers, and their shutdown. Each worker is a thread with its own event loop
//! (docs/decisions/0003-loop-per-core.md).

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

/// Connections that the kernel holds until they are accepted; capped at `somaxconn`.
pub(super) const BACKLOG: i32 = 4096;

/// Maximum size of a request head in bytes; a larger one is answered 431. 10,000 connections with unfinished heads
/// hold 160 MiB. Four times the 4 KiB that browsers allow a cookie.
pub(super) const LARGEST_HEAD: usize = 16 * 1024;

/// Unsent bytes of a response in the kernel. It wakes a writer after half of them were read, instead of after a third
/// of its whole buffer, which grows to megabytes: slow readers and stalled ones would look alike.
const UNSENT_BYTES: u32 = 128 * 1024;

/// Both listeners, bound but not yet serving.
#[derive(Debug)]
pub struct Server {
    api: StdListener,
    metrics: StdListener,
}

/// Error of listening on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({setting}){}", if source.kind() == io::ErrorKind::AddrInUse { "; choose another address, or port 0 for any free port" } else { "" })]
pub struct BindError {
    /// The setting of the address.
    pub setting: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// Error of the system.
    pub source: io::Error,
}

impl Server {
    /// Binds both listeners.
    ///
    /// # Errors
    /// When an address is in use or does not belong to this machine.
    pub fn bind(settings: &ServerSettings) -> Result<Server, BindError> {
        Ok(Server {
            api: listen("server.listen", settings.listen)?,
            metrics: listen("server.metrics_listen", settings.metrics_listen)?,
        })
    }

    /// Address of the API, with the port that was chosen.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.api.local_addr()
    }

    /// Address of `/metrics`, with the port that was chosen.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn metrics_address(&self) -> io::Result<SocketAddr> {
        self.metrics.local_addr()
    }

    /// Serves until `signals.stop` is notified, then drains. Blocks the calling thread.
    pub(crate) fn run(
        self,
        settings: &Settings,
        routes: Routes,
        signals: &Signals,
    ) -> io::Result<()> {
        let operations = routes.operations.clone();
        let metrics = Arc::clone(&routes.metrics);
        let slots = ConnectionSlots::new(settings);
        let shared = Arc::new(Shared {
            edge: Arc::new(Edge::new(settings, routes)),
            deadlines: Deadlines::new(&settings.server),
            started: Instant::now(),
            closing: AtomicBool::new(false),
        });
        let settings = &settings.server;
        let count = settings
            .workers
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let workers =
            (0..count).map(|n| Worker::start(n, &shared)).collect::<io::Result<Vec<_>>>()?;
        let control = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        control.block_on(async {
            let listener = TcpListener::from_std(self.api)?;
            let operations = tokio::spawn(operations::serve(
                TcpListener::from_std(self.metrics)?,
                operations,
                settings.header_timeout,
            ));
            let mut acceptor = Acceptor::new(&workers, settings.max_connections, slots, metrics);
            acceptor.run(&listener, signals.stop.notified()).await;
            signals.draining.store(true, Ordering::Release);
            tracing::info!(connections = acceptor.connections(), "stopping: draining");
            let grace = tokio::time::timeout(settings.drain_delay, signals.hurry.notified());
            let mut hurried = false;
            acceptor.run(&listener, async { hurried = grace.await.is_ok() }).await;
            // Connections in the backlog get a response; later ones are refused by the kernel, and a proxy retries
            // those elsewhere, even a POST.
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

/// Routes of both listeners, and what their requests share.
pub(crate) struct Routes {
    /// Routes of `server.listen`, behind the edge.
    pub(crate) api: Router,
    /// `/metrics`.
    pub(crate) operations: Router,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) largest_body: LargestBody,
    /// Recorder of requests, if any output is configured.
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// Last errors, if the operator's view is configured.
    pub(crate) errors: Option<Arc<LastErrors>>,
    pub(crate) app: Arc<App>,
}

/// Requests to a running server to stop.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Start to drain.
    pub stop: Arc<Notify>,
    /// Stop draining and close all connections.
    pub hurry: Arc<Notify>,
    /// True from the start of the drain: readiness fails, and responses close their connections.
    pub draining: Arc<AtomicBool>,
}

fn listen(setting: &'static str, address: SocketAddr) -> Result<StdListener, BindError> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        // Inherited by connections. Without it, slow readers are noticed later.
        let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    bind().map_err(|source| BindError { setting, address, source })
}
