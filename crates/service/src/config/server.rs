//! `server.*`: the listener and its bounds.

use super::cors::{self, CorsOrigins};
use super::keys::settings;
use super::value::{addresses, auto, bytes, kind, listener, positive, time, time_or_0, up_to};
use madang_guard::net::Cidr;
use std::net::SocketAddr;
use std::time::Duration;

settings! {
    /// `server.*`: the listener and its bounds.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerSettings {
        listen: SocketAddr = "server.listen", "127.0.0.1:8080", listener(),
            "Address of the API";
        metrics_listen: SocketAddr = "server.metrics_listen", "127.0.0.1:0", listener(),
            "Address of /metrics; separate from the API, so that it answers under load and stays private";
        workers: Option<usize> = "server.workers", "auto", auto(256),
            "Number of worker threads, each with its own event loop; auto = one per core";
        max_connections: usize = "server.max_connections", "10000", up_to(1_000_000),
            "Maximum number of open client connections; at the limit, the longest-waiting idle connection is closed for a new one, and if none is idle, the new one is answered 503";
        max_connections_per_address: Option<usize> = "server.max_connections_per_address", "auto",
            auto(1_000_000),
            "Maximum number of open connections from one address (IPv6: one /64); further ones are answered 503; auto = a quarter of server.max_connections; addresses in server.trusted_proxies or guard.exempt have no such limit";
        max_in_flight: Option<usize> = "server.max_in_flight", "auto", auto(100_000),
            "Maximum number of uncached reads in progress; further ones wait in a queue; auto = 64 per core";
        max_writes_in_flight: Option<usize> = "server.max_writes_in_flight", "auto", auto(100_000),
            "Maximum number of writes in progress; further ones wait in a queue; auto = two commit groups, one being committed and one filling";
        queue_time: Duration = "server.queue_time", "100ms",
            kind("a duration: 20ms, 100ms, at most 400ms", queue_time),
            "Maximum time in those queues during sustained overload, then 503; a short burst may wait ten times as long";
        answer_memory: usize = "server.answer_memory", "128MiB", bytes(),
            "Maximum memory of answers above 16 KiB while they are made and sent, a buffer shared by many clients counted once; then 503; one address may hold a quarter of it, except addresses in server.trusted_proxies or guard.exempt";
        cors_origins: CorsOrigins = "server.cors_origins", "",
            kind("origins, separated by commas: https://app.example.com, http://localhost:5173; * = all; empty = none",
                cors::origins),
            "Origins whose pages may call the API from a browser (CORS)";
        trusted_proxies: Vec<Cidr> = "server.trusted_proxies", "", addresses(),
            "Proxies whose X-Forwarded-For header is used; the header is ignored from any other peer";
        max_body: usize = "server.max_body", "1MiB", bytes(),
            "Maximum size of a track upload; a larger one is answered 413; other request bodies are limited to 64 KiB, with a valid token to 256 KiB";
        header_timeout: Duration = "server.header_timeout", "10s", time(),
            "Maximum time to receive a request head, from its first byte, or for the first request from the opening of the connection; then the connection is closed";
        body_timeout: Duration = "server.body_timeout", "10s", time(),
            "Maximum time to receive a request body; then 408";
        write_timeout: Duration = "server.write_timeout", "15s", time(),
            "Time in which a client must read at least 128 KiB of the answers that wait for it; a slower connection is closed";
        idle_timeout: Duration = "server.idle_timeout", "75s", time(),
            "Maximum time between two requests on a connection; a proxy's keep-alive timeout must be shorter";
        request_timeout: Duration = "server.request_timeout", "10s", time(),
            "Maximum time to handle a request; then 503, or 504 if it may have written something";
        drain_delay: Duration = "server.drain_delay", "0", time_or_0(),
            "Time after SIGTERM during which connections are still accepted (behind a load balancer: 5s)";
        drain_timeout: Duration = "server.drain_timeout", "30s", time_or_0(),
            "Maximum time after that for requests in flight to finish";
    }
}

/// A load for the cache waits within its own timeout of 5 s, which must leave it time for its work even in a burst.
fn queue_time(value: &str) -> Option<Duration> {
    positive(value).filter(|time| *time <= Duration::from_millis(400))
}
