#![doc = include_str!("../README.md")]

mod command;
mod engine;
mod event_loop;
mod executor;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod generator;
mod html;
mod http;
mod limiter;
mod log;
mod metrics;
mod options;
mod outline;
mod output;
mod panics;
mod progress;
mod redis;
pub mod report;
mod run;
mod samples;
mod script;
mod secrets;
mod stop_signals;
mod summary;
mod web_crypto;
mod websocket;

pub use command::{Config, ExitStatus, Outcome, check, run};
pub use http::{
    AddressRange, ClientCertificate, Dns, HttpDebug, NameError, NameRules, Patterns, Policy,
    Proxies, Proxy, Select, Target, TlsSettings, TlsVersion,
};
pub use log::{LogError, LogFormat, Messages};
pub use metrics::SystemTags;
pub use options::{
    ConfigFile, DurationError, ExecutorConfig, Layer, MetricThresholds, OptionsError, Scenario,
    Stage, Threshold, VuPool, parse_duration, parse_stage,
};
pub use outline::{Outline, Shape};
pub use samples::OutputSpec;
pub use script::{VendorError, vendor};
pub use secrets::{Secrets, SecretsError};
pub use stop_signals::StopSignals;
pub use summary::SummaryMode;
