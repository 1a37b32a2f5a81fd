//! Operations: metrics, health, the OpenAPI document.

pub mod check;
mod contract;
pub mod health;
pub(crate) mod last_errors;
pub mod latency;
pub(crate) mod memory;
pub mod metrics;
pub mod openapi;
pub(crate) mod process;
pub(crate) mod quiet_log;
pub(crate) mod record;
pub(crate) mod thread;
