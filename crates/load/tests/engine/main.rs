//! The engine as a whole: real scripts against real servers.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod executors;
mod hostile;
mod http;
mod lifecycle;
mod metrics;
mod signals;
mod support;
mod unsupported;
