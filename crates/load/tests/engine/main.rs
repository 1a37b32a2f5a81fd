//! The engine as a whole: real scripts against real servers.

mod executors;
mod hostile;
mod http;
mod lifecycle;
mod metrics;
mod support;
mod unsupported;
