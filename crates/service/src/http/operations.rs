//! The listener of `/metrics`, for one or two scrapers on a private address: few connections, each with a deadline
//! for its next head, so that nobody else takes the descriptors of API clients.

use crate::ops::quiet_log::QuietLog;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Maximum number of connections; further ones wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 64;

/// A scraper that never reads must not keep its place for good; others reconnect.
const LONGEST_CONNECTION: Duration = Duration::from_secs(300);

static ACCEPT_ERRORS: QuietLog = QuietLog::every_seconds(1);

/// Serves `router` until its task is aborted. `head_timeout` bounds the wait for each head, and so the idle time of a
/// connection.
pub(super) async fn serve(listener: TcpListener, router: Router, head_timeout: Duration) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                if let Some(unsaid) = ACCEPT_ERRORS.admit() {
                    tracing::warn!(%error, unsaid, "cannot accept connections to /metrics");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .max_buf_size(16 * 1024)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            match tokio::time::timeout(LONGEST_CONNECTION, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "connection to /metrics ended early"),
                Err(_) => tracing::debug!("connection to /metrics closed after its time limit"),
            }
            drop(place);
        });
    }
}
