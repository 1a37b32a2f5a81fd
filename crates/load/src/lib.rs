//! Load engine: runs k6 scripts.

mod event_loop;
mod http;
mod log;
mod metrics;
mod options;
mod run;
mod script;
