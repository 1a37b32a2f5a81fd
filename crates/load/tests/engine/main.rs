//! The engine as a whole: real scripts against real servers.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod compatibility;
mod connections;
mod cookies;
mod executors;
mod hostile;
mod http;
mod http2;
mod http2_servers;
mod imports;
mod lifecycle;
mod metrics;
mod modules;
mod outputs;
mod requests;
mod scenarios;
mod signals;
mod support;
mod tls;
mod unsupported;
mod websockets;
