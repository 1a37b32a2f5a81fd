//! Operations: metrics, health, the OpenAPI document.

pub mod check;
mod contract;
pub(crate) mod health;
pub(crate) mod last_errors;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod process;
pub(crate) mod quiet_log;
pub(crate) mod record;
pub(crate) mod thread;
